/* Every text format, told apart and decoded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "span/files.h"

#include "span/otlp.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "span/csv.h"
#include "span_list.h"
#include "test.h"

static const char JAEGER[] =
    "{\"data\":[{\"traceID\":\"a1\",\"spans\":[{\"traceID\":\"a1\",\"spanID\":\"2\",\"operationName\":"
    "\"get\","
    "\"references\":[{\"refType\":\"CHILD_OF\",\"traceID\":\"a1\",\"spanID\":\"1\"}],\"startTime\":5,"
    "\"duration\":7,"
    "\"tags\":[{\"key\":\"span.kind\",\"type\":\"string\",\"value\":\"server\"},"
    "{\"key\":\"error\",\"type\":\"bool\",\"value\":true}],\"logs\":[],\"processID\":\"p1\"}],"
    "\"processes\":{\"p1\":{\"serviceName\":\"cart\",\"tags\":[{\"key\":\"hostname\",\"value\":\"h9\"}]}}}]}";
static const char ZIPKIN[] = "[[{\"traceId\":\"a1\",\"id\":\"2\",\"parentId\":\"1\",\"name\":\"get\","
                             "\"kind\":\"SERVER\",\"timestamp\":5,"
                             "\"duration\":7,\"localEndpoint\":{\"serviceName\":\"cart\",\"ipv4\":\"h9\"},"
                             "\"tags\":{\"error\":\"true\"}}]]";
static const char OTLP[] =
    "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"a1\",\"spanId\":\"2\",\"parentSpanId\":"
    "\"1\","
    "\"name\":\"get\",\"kind\":2,\"startTimeUnixNano\":\"5000\",\"endTimeUnixNano\":\"12000\","
    "\"status\":{\"code\":2}}]}],\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":"
    "{\"stringValue\":\"cart\"}},{\"key\":\"host.name\",\"value\":{\"stringValue\":\"h9\"}}]}}]}\n";
static const char CSV[] =
    "TraceID,SpanID,ParentID,ServiceName,Host,OperationName,StartTimeUnixNano,Duration,Kind,Error\r\n"
    "a1,2,1,cart,h9,\"get\",5000,7,server,true\r\n";
static const char EXPECTED[] = "000000000000000a1 2<-1 5000+7000 kind2 error cart||h9|get";

static void assert_decodes(enum span_format format, const char *text)
{
    struct text got = {0};
    struct span_sink sink = {.take = span_list_take, .context = &got};
    struct problem problem = {0};
    assert_int_equal(span_format_detect(text, strlen(text)), format);
    assert_int_equal(span_decode(format, text, strlen(text), NULL, &sink, &problem), 0);
    assert_int_equal(strncmp(text_get(&got), EXPECTED, strlen(EXPECTED)), 0);
    assert_int_equal(sink.counts.spans, 1);
    text_done(&got);
    /* Any cut of it is an error or fewer spans, never a crash. */
    for (size_t cut = 0; cut < strlen(text); cut++) {
        struct text ignored = {0};
        struct span_sink other = {.take = span_list_take, .context = &ignored};
        char *copy = malloc(cut + 1);
        memcpy(copy, text, cut);
        int r = span_decode(format, copy, cut, NULL, &other, NULL);
        assert_true(r <= 0 && other.counts.spans <= 1);
        free(copy);
        text_done(&ignored);
    }
}

/* An exception among the events is a failure, unless the span says that it ended well. */
static void exceptions_are_failures(void **state)
{
    static const struct {
        const char *rest;
        bool fails;
    } spans[] = {
        {"\"events\":[{\"name\":\"retry\"}]", false},
        {"\"events\":[{\"attributes\":[],\"name\":\"exception\"}]", true},
        {"\"status\":{\"code\":1},\"events\":[{\"name\":\"exception\"}]", false},
        {"\"events\":[{\"name\":\"exception\"}],\"status\":{\"code\":\"STATUS_CODE_OK\"}", false},
        {"\"events\":[],\"status\":{\"code\":2}", true},
    };
    for (size_t i = 0; i < ARRAY_SIZE(spans); i++) {
        struct text json = {0}, got = {0};
        struct span_sink sink = {.take = span_list_take, .context = &got};
        text_addf(&json,
                  "{\"resourceSpans\":[{\"scopeSpans\":[{\"spans\":[{\"traceId\":\"a1\",\"spanId\":\"2\","
                  "\"name\":\"get\",\"startTimeUnixNano\":\"5000\",\"endTimeUnixNano\":\"12000\",%s}]}]}]}",
                  spans[i].rest);
        assert_int_equal(otlp_json_decode(text_get(&json), json.length, &sink, NULL), 0);
        assert_int_equal(strstr(text_get(&got), " error ") != NULL, spans[i].fails);
        text_done(&got);
        text_done(&json);
    }
}

static void formats_agree(void **state)
{
    assert_decodes(FORMAT_JAEGER, JAEGER);
    assert_decodes(FORMAT_ZIPKIN, ZIPKIN);
    assert_decodes(FORMAT_OTLP_JSON, OTLP);
    assert_decodes(FORMAT_CSV, CSV);
    assert_int_equal(span_format_detect("hello\n", 6), FORMAT_UNKNOWN);
    assert_int_equal(span_format_detect("PAR1....", 8), FORMAT_PARQUET);
}

static void a_mapping_names_columns(void **state)
{
    struct mapping mapping;
    struct problem problem = {0};
    struct text got = {0};
    struct span_sink sink = {.take = span_list_take, .context = &got};
    assert_int_equal(mapping_read("trace = T\nspan = S # the id\nname=N\nstart = B ms\nduration = D s\n"
                                  "service = P\nhost = P\nservice.form = pod\nattribute.hw = H\n",
                                  &mapping, &problem),
                     0);
    const char table[] = "B,T,S,N,D,P,H\n1.5,77,9,\"a \"\"b\"\"\nc\",0.25,front-end-579b9bff58-t2dbm,g7\n"
                         "x,77,8,bad,1,p,h\n";
    assert_int_equal(csv_decode(table, strlen(table), &mapping, &sink, &problem), 0);
    assert_string_equal(text_get(&got), "00000000000000077 9<-0 1500000+250000000 kind0 front-end||"
                                        "front-end-579b9bff58-t2dbm|a \"b\"\nc\n");
    assert_int_equal(sink.counts.malformed, 1);
    text_done(&got);
    assert_int_equal(mapping_read("nonsense = X\n", &mapping, &problem), -EINVAL);
    assert_non_null(strstr(problem.what, "line 1"));
    assert_int_equal(csv_decode("a,b\n1,2\n", 8, NULL, &sink, &problem), -EINVAL);
    assert_non_null(strstr(problem.what, "a, b"));
}

/* Tables of other tracers: their names of columns, units and ways to write a time, all for the same span. */
static void tables_of_all_shapes(void **state)
{
    static const char *const tables[] = {
        /* microseconds that only the number of digits tells, and a status that ends with "us" */
        "traceId,spanId,parentSpanId,serviceName,operationName,status,startTime,duration\n"
        "77,9,8,pay,charge,0,1661256085250000,1500\n",
        /* milliseconds by digits, durations by name */
        "timestamp,cmdb_id,span_id,trace_id,duration_ms,operation_name,parent_span,type\n"
        "1661256085250,pay,9,77,1.5,charge,8,rpc\n",
        "trace_id,span_id,parent_id,service,name,start_ns,end_ns\n"
        "77,9,8,pay,charge,1661256085250000000,1661256085251500000\n",
        "Trace ID,Span ID,Parent ID,Service,Operation,Start (us),Duration (ns)\n"
        "77,9,8,pay,charge,1661256085250000,1500000\n",
        /* calendar times, with and without a zone */
        "traceid,id,parent,application,endpoint,begin_time,end_time\n"
        "77,9,8,pay,charge,2022-08-23 12:01:25.25,2022-08-23T14:01:25.2515+02:00\n",
        "traceid,id,parent,application,endpoint,start,end\n"
        "77,9,8,pay,charge,2022-08-23T12:01:25.25Z,1661256085.2515\n",
    };
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        struct text got = {0};
        struct problem problem = {0};
        struct span_sink sink = {.take = span_list_take, .context = &got};
        assert_int_equal(csv_decode(tables[i], strlen(tables[i]), NULL, &sink, &problem), 0);
        assert_int_equal(sink.counts.malformed, 0);
        const char *expected = "00000000000000077 9<-8 1661256085250000000+1500000 kind0 pay||";
        assert_memory_equal(text_get(&got), expected, strlen(expected));
        text_done(&got);
    }
    struct span_sink sink = {.take = span_list_take, .context = &(struct text){0}};
    const char odd[] = "traceid,id,name,start,end\n77,9,a,yesterday,2022-13-45 99:99:99\n";
    assert_int_equal(csv_decode(odd, strlen(odd), NULL, &sink, NULL), 0);
    assert_int_equal(sink.counts.malformed, 1);
}

static void gzip_bombs_are_refused(void **state)
{
    size_t length = 1 << 20;
    char *zeros = calloc(1, length), *out;
    uLongf packed_length = compressBound(length);
    Bytef *packed = malloc(packed_length);
    assert_int_equal(compress(packed, &packed_length, (Bytef *)zeros, length), Z_OK);
    size_t out_length;
    assert_int_equal(span_gunzip(packed, packed_length, 1 << 19, &out, &out_length), -EFBIG);
    assert_int_equal(span_gunzip(packed, packed_length / 2, 1 << 21, &out, &out_length), -EBADMSG);
    assert_int_equal(span_gunzip("nonsense", 8, 1 << 20, &out, &out_length), -EBADMSG);
    assert_int_equal(span_gunzip(packed, packed_length, 1 << 21, &out, &out_length), 0);
    assert_int_equal(out_length, length);
    assert_memory_equal(out, zeros, length);
    free(out);
    free(packed);
    free(zeros);
}

static int read_text(const char *text, struct span_files *files, struct span_sink *sink,
                     struct problem *problem)
{
    char path[TEST_PATH];
    const char *paths[] = {path};
    int fd = mkstemp(test_path(path));
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    *files = (struct span_files){0};
    int r = span_files_read(files, paths, 1, sink, problem);
    unlink(path);
    return r;
}

/* Whoever wrote a comma too many is told so, and where; whatever the file would have been. */
static void a_comma_too_many_is_named(void **state)
{
    static const struct {
        const char *text, *place;
    } texts[] = {
        {"{\"a\":1,}", "line 1 (byte 6)"},
        {"\n[{\"a\":1},\n]\n", "line 2 (byte 9)"},
        {"{\"resourceSpans\":[]\n,}", "line 2 (byte 20)"},
        {"[{\"traceId\":\"a1\",}]", "line 1 (byte 16)"},
        {"{\"data\":[{\"spans\":[],}]}", "line 1 (byte 20)"},
        {"{\"resourceSpans\":[],}\n{\"resourceSpans\":[],}\n", "line 1 (byte 19)"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        struct text got = {0};
        struct span_sink sink = {.take = span_list_take, .context = &got};
        struct span_files files;
        struct problem problem = {0};
        assert_true(read_text(texts[i].text, &files, &sink, &problem) < 0);
        if (!strstr(problem.what, "a comma before the end") || !strstr(problem.what, texts[i].place))
            fail_msg("%s: %s", texts[i].text, problem.what);
        text_done(&got);
    }
}

/* A line that does not parse is passed over, but not without a word. */
static void a_line_left_out_is_named(void **state)
{
    struct text got = {0}, lines = {0};
    struct span_sink sink = {.take = span_list_take, .context = &got};
    struct span_files files;
    struct problem problem = {0};
    text_addf(&lines, "%s{\"resourceSpans\":[],}\n%s{\"resource", OTLP, OTLP);
    assert_int_equal(read_text(text_get(&lines), &files, &sink, &problem), 0);
    assert_int_equal(sink.counts.spans, 2);
    assert_int_equal(sink.counts.malformed, 2);
    assert_non_null(strstr(files.left_out.what, "line 2 ("));
    assert_non_null(strstr(files.left_out.what, "a comma before the end"));
    text_done(&lines);
    text_done(&got);
    assert_int_equal(read_text("what is this?", &files, &sink, &problem), -EINVAL);
    assert_null(strstr(problem.what, "JSON, line"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_agree),           cmocka_unit_test(exceptions_are_failures),
        cmocka_unit_test(a_mapping_names_columns), cmocka_unit_test(tables_of_all_shapes),
        cmocka_unit_test(gzip_bombs_are_refused),  cmocka_unit_test(a_comma_too_many_is_named),
        cmocka_unit_test(a_line_left_out_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

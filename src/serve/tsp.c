/* See tsp.h. Addresses and what they answer are the tables OUTPUTS, ENDPOINTS and PLACES. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/tsp.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/map.h"
#include "page/page.h"
#include "serve/tsp_view.h"
#include "span/jread.h"

enum { UUID = 37, NAME = 256 };

/* A recording as a trace, and as the experiment with this one trace. */
struct entry {
    struct source *source;
    char trace_id[UUID], experiment_id[UUID];
    char trace_name[NAME], experiment_name[NAME];
    bool trace_gone, experiment_gone; /* deleted, until it is opened again */
};

struct tsp {
    pthread_mutex_t lock; /* of names and what is gone */
    size_t count;
    struct entry entries[];
};

/* ---- names ---- */

/* The same recording has the same id whenever it is served. Version 8: made as the maker likes. */
static void make_id(const char *kind, const char *path, char id[UUID])
{
    char text[PATH_MAX + 32];
    int length = snprintf(text, sizeof(text), "%s:%s", kind, path);
    uint64_t a = map_hash(text, (size_t)length), b = map_hash(text, (size_t)length + 1) ^ a << 7;
    snprintf(id, UUID, "%08x-%04x-8%03x-%04x-%012" PRIx64, (unsigned)(a >> 32), (unsigned)(a >> 16 & 0xffff),
             (unsigned)(a & 0xfff), (unsigned)(0x8000 | (b >> 48 & 0x3fff)), b & 0xffffffffffff);
}

int tsp_new(struct source *const *sources, size_t count, struct tsp **ret_tsp)
{
    struct tsp *tsp = calloc(1, sizeof(*tsp) + count * sizeof(tsp->entries[0]));
    if (!tsp)
        return -ENOMEM;
    pthread_mutex_init(&tsp->lock, NULL);
    for (size_t i = 0; i < count; i++) {
        struct source_status status;
        struct entry *entry = &tsp->entries[tsp->count];
        const char *path = source_path(sources[i]), *slash = strrchr(path, '/');
        const char *name = slash && slash[1] ? slash + 1 : path;
        source_get_status(sources[i], &status);
        if (status.kind != SOURCE_RECORDING)
            continue;
        entry->source = sources[i];
        make_id("trace", path, entry->trace_id);
        make_id("experiment", path, entry->experiment_id);
        snprintf(entry->trace_name, NAME, "%s", name);
        snprintf(entry->experiment_name, NAME, "%s", name);
        tsp->count++;
    }
    *ret_tsp = tsp;
    return 0;
}

void tsp_free(struct tsp *tsp)
{
    if (!tsp)
        return;
    pthread_mutex_destroy(&tsp->lock);
    free(tsp);
}

/* ---- answers ---- */

struct call {
    struct tsp *tsp;
    const struct http_request *request;
    struct http_response *response;
    json_t *body; /* "parameters" of what was sent; NULL when there were none */
    struct text text;
    const char *parts[8]; /* of the path behind TSP_PATH, between its slashes */
    size_t part_count;
    char path[512];
};

/* Viewers read an error's title. */
static void refuse(struct call *call, unsigned status, const char *why)
{
    text_clear(&call->text);
    text_add(&call->text, "{\"title\":");
    page_json_string(&call->text, why);
    text_add(&call->text, "}");
    call->response->status = status;
}

static const char *indexing(enum source_state state)
{
    static const char *const NAMES[] = {"RUNNING", "COMPLETED", "CLOSED", "CLOSED"};
    return NAMES[state];
}

static void add_member(struct text *to, const char *key, const char *value)
{
    text_addf(to, ",\"%s\":", key);
    page_json_string(to, value);
}

/* What traces and experiments share: {"UUID" ... with the end left open. */
static void add_head(struct entry *entry, const char *id, const char *name, struct text *to)
{
    struct history_info info = {0};
    struct history *history = source_history(entry->source);
    struct source_status status;
    source_get_status(entry->source, &status);
    if (history)
        history_get_info(history, &info);
    text_addf(to, "{\"UUID\":\"%s\"", id);
    add_member(to, "name", name);
    text_addf(to,
              ",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"nbEvents\":%" PRIu64 ",\"indexingStatus\":\"%s\"",
              info.start_ns, info.end_ns, info.changes, indexing(status.state));
}

static void add_trace(struct entry *entry, struct text *to)
{
    add_head(entry, entry->trace_id, entry->trace_name, to);
    add_member(to, "path", source_path(entry->source));
    text_add(to, ",\"properties\":{}}");
}

static void add_experiment(struct entry *entry, struct text *to)
{
    add_head(entry, entry->experiment_id, entry->experiment_name, to);
    text_add(to, ",\"traces\":[");
    add_trace(entry, to);
    text_add(to, "]}");
}

/* The lock is held in all functions on traces and experiments. */

static struct entry *find_trace(struct tsp *tsp, const char *id)
{
    for (size_t i = 0; i < tsp->count; i++)
        if (!tsp->entries[i].trace_gone && strcmp(tsp->entries[i].trace_id, id) == 0)
            return &tsp->entries[i];
    return NULL;
}

static struct entry *find_experiment(struct tsp *tsp, const char *id)
{
    for (size_t i = 0; i < tsp->count; i++)
        if (!tsp->entries[i].experiment_gone && strcmp(tsp->entries[i].experiment_id, id) == 0)
            return &tsp->entries[i];
    return NULL;
}

static void rename_to(char name[NAME], const json_t *wanted)
{
    const char *text = json_string_value(wanted);
    if (text && *text)
        snprintf(name, NAME, "%s", text);
}

static void list_traces(struct call *call)
{
    bool any = false;
    text_add(&call->text, "[");
    for (size_t i = 0; i < call->tsp->count; i++) {
        if (call->tsp->entries[i].trace_gone)
            continue;
        text_add(&call->text, any ? "," : "");
        add_trace(&call->tsp->entries[i], &call->text);
        any = true;
    }
    text_add(&call->text, "]");
}

/* Only what the command line names. What else lies on the disk is nobody's business, so that the answer for
 * it does not depend on what is there. The same path again is the same trace: a client that is told of a
 * conflict tries one name after another. */
static void open_trace(struct call *call)
{
    const char *uri = json_string_value(json_object_get(call->body, "uri"));
    char path[PATH_MAX];
    if (!uri) {
        refuse(call, 400, "parameters must have a uri");
        return;
    }
    uri += strncmp(uri, "file://", 7) == 0 ? 7 : 0;
    const char *real = realpath(uri, path);
    for (size_t i = 0; real && i < call->tsp->count; i++) {
        struct entry *entry = &call->tsp->entries[i];
        if (strcmp(real, source_path(entry->source)) != 0)
            continue;
        entry->trace_gone = false;
        rename_to(entry->trace_name, json_object_get(call->body, "name"));
        add_trace(entry, &call->text);
        return;
    }
    refuse(call, 404, "only the recordings that sonde serve was started with can be opened");
}

static void get_trace(struct call *call)
{
    struct entry *entry = find_trace(call->tsp, call->parts[1]);
    if (entry)
        add_trace(entry, &call->text);
    else
        refuse(call, 404, "no such trace");
}

static void delete_trace(struct call *call)
{
    struct entry *entry = find_trace(call->tsp, call->parts[1]);
    if (!entry) {
        refuse(call, 404, "no such trace");
    } else if (!entry->experiment_gone) {
        text_add(&call->text, "{\"title\":\"an experiment has this trace\",\"trace\":");
        add_trace(entry, &call->text);
        text_add(&call->text, "}");
        call->response->status = 409;
    } else {
        entry->trace_gone = true;
        add_trace(entry, &call->text);
    }
}

static void list_experiments(struct call *call)
{
    bool any = false;
    text_add(&call->text, "[");
    for (size_t i = 0; i < call->tsp->count; i++) {
        if (call->tsp->entries[i].experiment_gone)
            continue;
        text_add(&call->text, any ? "," : "");
        add_experiment(&call->tsp->entries[i], &call->text);
        any = true;
    }
    text_add(&call->text, "]");
}

static void open_experiment(struct call *call)
{
    const json_t *traces = json_object_get(call->body, "traces"), *name = json_object_get(call->body, "name");
    const char *id = json_string_value(json_array_get(traces, 0));
    struct entry *entry = id ? find_trace(call->tsp, id) : NULL;
    if (!id || !json_is_string(name)) {
        refuse(call, 400, "parameters must have a name and traces");
    } else if (json_array_size(traces) > 1) {
        refuse(call, 400,
               "an experiment has one recording; sonde run and sonde attach record many processes in one");
    } else if (!entry) {
        refuse(call, 404, "no such trace");
    } else {
        entry->experiment_gone = false;
        rename_to(entry->experiment_name, name);
        add_experiment(entry, &call->text);
    }
}

static void get_experiment(struct call *call)
{
    struct entry *entry = find_experiment(call->tsp, call->parts[1]);
    bool renames = strcmp(call->request->method, "PUT") == 0;
    if (!entry) {
        refuse(call, 404, "no such experiment");
        return;
    }
    if (renames)
        rename_to(entry->experiment_name, json_object_get(call->body, "name"));
    add_experiment(entry, &call->text);
}

static void delete_experiment(struct call *call)
{
    struct entry *entry = find_experiment(call->tsp, call->parts[1]);
    if (!entry) {
        refuse(call, 404, "no such experiment");
        return;
    }
    entry->experiment_gone = true;
    add_experiment(entry, &call->text);
}

/* ---- the server ---- */

static void tell_health(struct call *call)
{
    text_add(&call->text, "{\"status\":\"UP\"}");
}

static void tell_identity(struct call *call)
{
    struct utsname name;
    if (uname(&name) < 0)
        memset(&name, 0, sizeof(name));
    text_add(&call->text, "{\"productId\":\"sonde\"");
    add_member(&call->text, "version", SONDE_VERSION);
    add_member(&call->text, "tspVersion", TSP_VERSION);
    add_member(&call->text, "os", name.sysname);
    add_member(&call->text, "osVersion", name.release);
    add_member(&call->text, "osArch", name.machine);
    text_addf(&call->text, ",\"cpuCount\":%ld}", sysconf(_SC_NPROCESSORS_ONLN));
}

static void tell_none(struct call *call)
{
    text_add(&call->text, "[]");
}

static void refuse_configuration(struct call *call)
{
    refuse(call, 404, "there is nothing to configure");
}

/* ---- outputs ---- */

static const struct output {
    const char *id, *type, *name, *description;
} OUTPUTS[] = {
    {"sonde.states", "TIME_GRAPH", "States", "What each thread, event loop, pool and connection did"},
    {"sonde.counts", "TREE_TIME_XY", "Counts", "Operations and callbacks that wait, over time"},
    {"sonde.shares", "DATA_TREE", "Time in states", "How long each state was held"},
    {"sonde.requests", "TABLE", "Requests", "All requests in the order in which they began"},
};

/* POST .../outputs/KIND/OUTPUT/WHAT, or .../outputs/OUTPUT/WHAT without a kind. */
static const struct endpoint {
    const char *kind, *output, *what;
    tsp_model_fn *model;
} ENDPOINTS[] = {
    {"timeGraph", "sonde.states", "tree", tsp_states_tree},
    {"timeGraph", "sonde.states", "states", tsp_states},
    {"timeGraph", "sonde.states", "arrows", tsp_arrows},
    {"timeGraph", "sonde.states", "tooltip", tsp_tooltip},
    {NULL, "sonde.states", "annotations", tsp_annotations},
    {NULL, "sonde.states", "style", tsp_styles},
    {"XY", "sonde.counts", "tree", tsp_counts_tree},
    {"XY", "sonde.counts", "xy", tsp_counts},
    {NULL, "sonde.counts", "annotations", tsp_annotations},
    {NULL, "sonde.counts", "style", tsp_styles},
    {"data", "sonde.shares", "tree", tsp_shares_tree},
    {"table", "sonde.requests", "columns", tsp_table_columns},
    {"table", "sonde.requests", "lines", tsp_table_lines},
};

static const struct output *find_output(const char *id)
{
    for (size_t i = 0; i < ARRAY_SIZE(OUTPUTS); i++)
        if (strcmp(OUTPUTS[i].id, id) == 0)
            return &OUTPUTS[i];
    return NULL;
}

static void add_output(const struct output *output, struct text *to)
{
    text_addf(to,
              "{\"id\":\"%s\",\"type\":\"%s\",\"name\":\"%s\",\"description\":\"%s\","
              "\"capabilities\":{\"canCreate\":false,\"canDelete\":false}}",
              output->id, output->type, output->name, output->description);
}

static void list_outputs(struct call *call)
{
    text_add(&call->text, "[");
    for (size_t i = 0; i < ARRAY_SIZE(OUTPUTS); i++) {
        text_add(&call->text, i ? "," : "");
        add_output(&OUTPUTS[i], &call->text);
    }
    text_add(&call->text, "]");
}

static void get_output(struct call *call)
{
    const struct output *output = find_output(call->parts[3]);
    if (output)
        add_output(output, &call->text);
    else
        refuse(call, 404, "no such output");
}

/* A viewer asks again for as long as it is told that the analysis runs. */
static void add_status(enum source_state state, const char *message, struct text *to)
{
    static const char *const NAMES[] = {"RUNNING", "COMPLETED", "FAILED", "CANCELLED"};
    text_addf(to, "{\"status\":\"%s\",\"statusMessage\":", NAMES[state]);
    page_json_string(to, message);
    text_add(to, ",\"model\":");
}

static void list_markers(struct call *call)
{
    add_status(SOURCE_READY, "", &call->text);
    text_add(&call->text, "[{\"id\":\"" TSP_MARKERS "\",\"name\":\"" TSP_MARKERS "\"}]}");
}

static void list_categories(struct call *call)
{
    const char *set = http_query(call->request, "markerSetId");
    bool ours = !set || !*set || strcmp(set, TSP_MARKERS) == 0;
    if (!find_output(call->parts[3])) {
        refuse(call, 404, "no such output");
        return;
    }
    add_status(SOURCE_READY, "", &call->text);
    text_addf(&call->text, "{\"annotationCategories\":[%s]}}", ours ? "\"" TSP_MARKERS "\"" : "");
}

static const struct endpoint *find_endpoint(const struct call *call)
{
    bool with_kind = call->part_count == 6;
    for (size_t i = 0; i < ARRAY_SIZE(ENDPOINTS); i++) {
        const struct endpoint *e = &ENDPOINTS[i];
        if ((e->kind != NULL) == with_kind && (!with_kind || strcmp(e->kind, call->parts[3]) == 0) &&
            strcmp(e->output, call->parts[3 + with_kind]) == 0 &&
            strcmp(e->what, call->parts[4 + with_kind]) == 0)
            return e;
    }
    return NULL;
}

/* Without the lock: what is asked of a history takes its time. */
static void answer_model(struct call *call)
{
    struct source_status status;
    struct history_info info;
    char name[NAME];
    const struct endpoint *endpoint = find_endpoint(call);
    pthread_mutex_lock(&call->tsp->lock);
    struct entry *entry = find_experiment(call->tsp, call->parts[1]);
    snprintf(name, sizeof(name), "%s", entry ? entry->experiment_name : "");
    pthread_mutex_unlock(&call->tsp->lock);
    if (!entry || !endpoint) {
        refuse(call, 404, entry ? "no such output" : "no such experiment");
        return;
    }
    source_get_status(entry->source, &status);
    struct tsp_view view = {.source = entry->source, .name = name};
    if (status.state == SOURCE_READY) {
        view.history = source_history(entry->source);
        view.rows = source_rows(entry->source, &view.row_count);
    }
    if (view.history) {
        history_get_info(view.history, &info);
        view.start_ns = info.start_ns;
        view.end_ns = info.end_ns;
    }
    add_status(status.state, status.problem.what, &call->text);
    int r = endpoint->model(&view, call->body, &call->text);
    text_add(&call->text, "}");
    if (r < 0)
        refuse(call, r == -EINVAL ? 400 : 500, view.problem.what[0] ? view.problem.what : strerror(-r));
}

/* ---- addresses ---- */

/* "*" is any one part. The first that fits answers. */
static const struct place {
    const char *method, *path;
    void (*answer)(struct call *call);
    bool locked; /* reads or changes what is open */
} PLACES[] = {
    {"GET", "health", tell_health, false},
    {"GET", "identifier", tell_identity, false},
    {"GET", "traces", list_traces, true},
    {"POST", "traces", open_trace, true},
    {"GET", "traces/*", get_trace, true},
    {"DELETE", "traces/*", delete_trace, true},
    {"GET", "experiments", list_experiments, true},
    {"POST", "experiments", open_experiment, true},
    {"GET", "experiments/*", get_experiment, true},
    {"PUT", "experiments/*", get_experiment, true},
    {"DELETE", "experiments/*", delete_experiment, true},
    {"GET", "experiments/*/bookmarks", tell_none, false},
    {"GET", "experiments/*/outputs", list_outputs, false},
    {"GET", "experiments/*/outputs/markerSets", list_markers, false},
    {"GET", "experiments/*/outputs/*", get_output, false},
    {"GET", "experiments/*/outputs/*/annotations", list_categories, false},
    {"GET", "experiments/*/outputs/*/configTypes", tell_none, false},
    {"POST", "experiments/*/outputs/*/*", answer_model, false},
    {"POST", "experiments/*/outputs/*/*/*", answer_model, false},
    {"GET", "config/types", tell_none, false},
    {"GET", "config/types/*", refuse_configuration, false},
    {"GET", "config/types/*/configs", refuse_configuration, false},
};

/* Cuts the path at its slashes. False for one that is too long for any address. */
static bool take_parts(struct call *call, const char *path)
{
    int length = snprintf(call->path, sizeof(call->path), "%s", path);
    char *state = NULL;
    for (char *part = strtok_r(call->path, "/", &state); part; part = strtok_r(NULL, "/", &state)) {
        if (call->part_count == ARRAY_SIZE(call->parts))
            return false;
        call->parts[call->part_count++] = part;
    }
    return length < (int)sizeof(call->path);
}

static bool place_fits(const struct call *call, const struct place *place)
{
    const char *at = place->path;
    for (size_t i = 0; i < call->part_count; i++) {
        size_t length = strcspn(at, "/");
        bool any = length == 1 && *at == '*';
        if (!length ||
            (!any && (strlen(call->parts[i]) != length || memcmp(at, call->parts[i], length) != 0)))
            return false;
        at += length + (at[length] == '/');
    }
    return !*at;
}

static void answer(struct call *call)
{
    bool known = false;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        const struct place *place = &PLACES[i];
        if (!place_fits(call, place))
            continue;
        known = true;
        if (strcmp(place->method, call->request->method) != 0)
            continue;
        if (place->locked)
            pthread_mutex_lock(&call->tsp->lock);
        place->answer(call);
        if (place->locked)
            pthread_mutex_unlock(&call->tsp->lock);
        return;
    }
    refuse(call, known ? 405 : 404, known ? "that cannot be done here" : "no such address");
}

/* Takes "parameters" out of what was sent. False when that is no such document. */
static bool take_body(struct call *call, json_t **ret_document)
{
    json_error_t error;
    *ret_document = NULL;
    if (!call->request->length)
        return true;
    *ret_document = json_loadb(call->request->body, call->request->length, 0, &error);
    call->body = json_object_get(*ret_document, "parameters");
    return json_is_object(call->body);
}

static void refuse_body(struct call *call)
{
    struct problem why = {0};
    char words[sizeof(why.what) + 64];
    (void)jread_check(call->request->body, call->request->length, &why);
    snprintf(words, sizeof(words), "the body must be JSON with an object \"parameters\"%s%s",
             why.what[0] ? "; " : "", why.what);
    refuse(call, 400, words);
}

bool tsp_handle(struct tsp *tsp, const struct http_request *request, struct http_response *response)
{
    struct call call = {.tsp = tsp, .request = request, .response = response};
    size_t prefix = strlen(TSP_PATH);
    const char *origin = http_header(request, "Origin");
    json_t *document = NULL;
    if (strncmp(request->path, TSP_PATH, prefix) != 0 ||
        (request->path[prefix] && request->path[prefix] != '/'))
        return false;
    response->allow_origin = *origin ? origin : NULL; /* the server has refused foreign ones */
    if (strcmp(request->method, "OPTIONS") == 0) {
        response->status = 204;
        return true;
    }
    bool posts = strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0;
    if (!take_parts(&call, request->path + prefix))
        refuse(&call, 404, "no such address");
    else if (posts && !take_body(&call, &document))
        refuse_body(&call);
    else
        answer(&call);
    json_decref(document);
    response->content_type = "application/json"; /* exactly: the client compares it */
    response->length = call.text.length;
    response->body = text_take(&call.text);
    if (!response->body)
        response->status = 500;
    text_done(&call.text);
    return true;
}

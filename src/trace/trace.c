/* See trace.h: finding the traces of an experiment, and merging their streams by time. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "trace/align.h"
#include "trace/trace_private.h"

#define MAX_FOLDER_DEPTH 12

/* Stream files are mapped; of what was read, about so much stays with us. */
#define RESIDENT_BYTES   (64u << 20)
#define RELEASE_STEP_MIN (64u << 10)
#define RELEASE_STEP_MAX (1u << 20)

/* ---- opening ---- */

static int compare_names(const void *a, const void *b)
{
    const struct folder_entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

void trace_names_done(name_list *names)
{
    array_foreach (names, n)
        free(n->name);
    array_done(names);
}

/* The names in a folder, sorted, so that streams are numbered alike everywhere. */
int trace_list_folder(const char *path, name_list *names)
{
    DIR *dir = opendir(path);
    if (!dir)
        return -errno;
    int r = 0;
    for (struct dirent *d; r >= 0 && (d = readdir(dir));) {
        if (d->d_name[0] == '.')
            continue;
        struct folder_entry entry = {strdup(d->d_name), d->d_type};
        if (!entry.name || array_add(names, entry) < 0) {
            free(entry.name);
            r = -ENOMEM;
        }
    }
    closedir(dir);
    if (r >= 0 && names->count)
        qsort(names->at, names->count, sizeof(*names->at), compare_names);
    return r;
}

bool trace_is_file(const char *path, const struct folder_entry *entry)
{
    struct stat st;
    if (entry->type != DT_UNKNOWN && entry->type != DT_LNK)
        return entry->type == DT_REG;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path, const struct folder_entry *entry)
{
    struct stat st;
    if (entry->type != DT_UNKNOWN)
        return entry->type == DT_DIR;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* What a trace without a host's name is called: its folder, or the one around it when that is the "ctf" of a
 * recording of ours. Kept in the metadata's arena. */
static const char *folder_name(const struct host *h)
{
    size_t end = strlen(h->path), start;
    for (int level = 0;; level++) {
        start = end;
        while (start > 0 && h->path[start - 1] != '/')
            start--;
        if (level || !h->meta->own || end - start != 3 || strncmp(h->path + start, "ctf", 3) != 0 ||
            start < 2)
            break;
        end = start - 1;
    }
    const char *name = arena_strndup(&h->meta->arena, h->path + start, end - start);
    return name ? name : "";
}

int trace_describe_host(struct host *h)
{
    const struct metadata *m = h->meta;
    const char *name = metadata_environment(m, "hostname"), *tracer = metadata_environment(m, "tracer_name");
    const char *folder = folder_name(h);
    h->public = (struct trace_host){.path = h->path,
                                    .name = name ? name : folder,
                                    .tracer = tracer ? tracer : "",
                                    .version = m->version,
                                    .own = m->own,
                                    .has_clock = m->clocks != NULL,
                                    .clock_origin_ns = m->clocks ? m->clocks->base_ns : 0};
    uint32_t n = 0;
    for (const struct stream_meta *s = m->streams; s; s = s->next)
        for (const struct event_meta *e = s->events; e; e = e->next)
            n++;
    h->classes = calloc(n + 1, sizeof(*h->classes));
    if (!h->classes)
        return -ENOMEM;
    for (const struct stream_meta *s = m->streams; s; s = s->next)
        for (const struct event_meta *e = s->events; e; e = e->next)
            h->classes[h->public.class_count++] = e->public;
    h->public.classes = h->classes;
    return 0;
}

bool trace_is_stream_name(const char *name)
{
    size_t n = strlen(name);
    return strcmp(name, "metadata") != 0 && strcmp(name, "manifest.json") != 0 &&
           (n < 4 || strcmp(name + n - 4, ".idx") != 0);
}

static int add_stream(struct trace *t, uint32_t host, const char *path, struct problem *problem)
{
    struct stream s = {.index = (uint32_t)t->streams.count, .public.host = host};
    int r = stream_open(&s, t->hosts.at[host].meta, path, problem);
    if (r >= 0)
        r = stream_probe(&s, &t->machine);
    if (r >= 0 && s.has_instance)
        for (size_t i = t->hosts.at[host].first_stream; i < t->streams.count; i++)
            if (stream_same(&t->streams.at[i], &s))
                return stream_join(&t->streams.at[i], &s);
    if (r >= 0 && array_add(&t->streams, s) < 0)
        r = -ENOMEM;
    if (r < 0)
        stream_done(&s);
    return r == -ENODATA ? 0 : r;
}

int trace_reserve_registers(struct trace *t, uint32_t count)
{
    if (count <= t->register_count)
        return 0;
    uint64_t *moved = realloc(t->machine.registers, count * sizeof(*moved));
    if (!moved)
        return -ENOMEM;
    memset(moved + t->register_count, 0, (count - t->register_count) * sizeof(*moved));
    t->machine.registers = moved;
    t->register_count = count;
    return 0;
}

static int add_host(struct trace *t, const char *path, const name_list *names, struct problem *problem)
{
    struct host h = {.path = strdup(path), .first_stream = t->streams.count};
    h.metadata_bytes = trace_metadata_bytes(path);
    int r = h.path ? metadata_load(path, problem, &h.meta) : -ENOMEM;
    if (r >= 0)
        r = trace_describe_host(&h);
    if (r >= 0 && array_add(&t->hosts, h) < 0)
        r = -ENOMEM;
    if (r < 0) {
        free(h.path);
        free(h.classes);
        metadata_free(h.meta);
        return r;
    }
    r = trace_reserve_registers(t, t->hosts.at[t->hosts.count - 1].meta->register_count + 1);
    for (size_t i = 0; r >= 0 && i < names->count; i++) {
        char file[PATH_MAX];
        const struct folder_entry *entry = &names->at[i];
        if (!trace_is_stream_name(entry->name))
            continue;
        if (snprintf(file, sizeof(file), "%s/%s", path, entry->name) >= (int)sizeof(file))
            return problem_set(problem, -ENAMETOOLONG, "%s: name too long", path);
        if (trace_is_file(file, entry))
            r = add_stream(t, (uint32_t)t->hosts.count - 1, file, problem);
    }
    return r;
}

/* A folder with metadata is a trace; folders inside any folder may be. */
static int find_traces(struct trace *t, const char *path, int depth, struct problem *problem)
{
    _cleanup_(trace_names_done) name_list names = {0};
    int r = trace_list_folder(path, &names);
    if (r < 0) {
        problem_set(problem, r, "%s: %s", path, strerror(-r));
        if (r == -ENOTDIR)
            problem_remedy(problem, "A trace is a directory with a file 'metadata'; name the directory.");
        return r;
    }
    for (size_t i = 0; i < names.count; i++)
        if (strcmp(names.at[i].name, "metadata") == 0 && (r = add_host(t, path, &names, problem)) < 0)
            return r;
    for (size_t i = 0; r >= 0 && i < names.count && depth < MAX_FOLDER_DEPTH; i++) {
        char folder[PATH_MAX];
        if (snprintf(folder, sizeof(folder), "%s/%s", path, names.at[i].name) < (int)sizeof(folder) &&
            is_folder(folder, &names.at[i]))
            r = find_traces(t, folder, depth + 1, problem);
    }
    return r;
}

/* Once there are no more, the streams move to where cache lines begin. */
static int align_streams(struct trace *t)
{
    size_t bytes = t->streams.count * sizeof(*t->streams.at);
    struct stream *moved = bytes ? aligned_alloc(CACHE_LINE, bytes) : NULL;
    if (!moved)
        return bytes ? -ENOMEM : 0;
    memcpy(moved, t->streams.at, bytes);
    free(t->streams.at);
    t->streams.at = moved;
    t->streams.capacity = t->streams.count;
    return 0;
}

/* What the merge needs, once all streams are there. */
int trace_prepare(struct trace *t)
{
    merge_done(&t->merge);
    free(t->next_data);
    free(t->losses);
    t->next_data = NULL;
    t->losses = NULL;
    if (align_streams(t) < 0)
        return -ENOMEM;
    t->losses = calloc(t->hosts.count + t->streams.count * LOSS_KINDS + 1, sizeof(*t->losses));
    array_foreach (&t->streams, s) {
        s->index = (uint32_t)(s - t->streams.at);
        s->release_step = MAX(RESIDENT_BYTES / t->streams.count, RELEASE_STEP_MIN);
        s->release_step = MIN(s->release_step, RELEASE_STEP_MAX);
    }
    int r = merge_init(&t->merge, (uint32_t)t->streams.count);
    t->next_data = calloc(t->streams.count + 1, sizeof(*t->next_data));
    return r < 0 || !t->losses || !t->next_data ? -ENOMEM : 0;
}

int trace_clone(const struct trace *trace, struct trace **ret_trace)
{
    _cleanup_(trace_closep) struct trace *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->hosts.at = trace->hosts.at;
    t->hosts.count = trace->hosts.count;
    t->borrowed = true;
    t->machine.text = &t->text;
    int r = trace_reserve_registers(t, trace->register_count);
    for (size_t i = 0; r >= 0 && i < trace->streams.count; i++) {
        struct stream s = {.index = (uint32_t)i};
        r = stream_clone(&trace->streams.at[i], &s);
        if (r >= 0 && array_add(&t->streams, s) < 0)
            r = -ENOMEM;
        if (r < 0)
            stream_done(&s);
    }
    if (r >= 0)
        r = trace_prepare(t);
    if (r < 0)
        return r;
    *ret_trace = t;
    t = NULL;
    return 0;
}

int trace_open(const char *path, const struct trace_options *options, struct problem *problem,
               struct trace **ret_trace)
{
    _cleanup_(trace_closep) struct trace *t = calloc(1, sizeof(*t));
    char folder[PATH_MAX];
    if (!t)
        return problem_set(problem, -ENOMEM, "not enough memory");
    if (snprintf(folder, sizeof(folder), "%s", path) >= (int)sizeof(folder))
        return problem_set(problem, -ENAMETOOLONG, "%s: name too long", path);
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--)
        folder[n - 1] = '\0';
    t->machine.text = &t->text;
    int r = find_traces(t, folder, 0, problem);
    if (r == -ENOMEM)
        return problem_set(problem, r, "%s: not enough memory", path);
    if (r < 0)
        return r;
    if (t->hosts.count == 0) {
        problem_set(problem, -ENOENT,
                    "%s: no trace: neither this directory nor one below it has a file 'metadata'", path);
        problem_remedy(problem, "Name the directory that the recording was written to.");
        return -ENOENT;
    }
    uint32_t registers = 1;
    array_foreach (&t->hosts, h)
        registers = MAX(registers, h->meta->register_count + 1);
    if (trace_prepare(t) < 0)
        return problem_set(problem, -ENOMEM, "%s: not enough memory", path);
    t->threads = options ? options->threads : 0;
    *ret_trace = t;
    t = NULL;
    return 0;
}

void trace_close(struct trace *trace)
{
    if (!trace)
        return;
    parallel_free(trace->parallel);
    streams_unmap(trace->streams.at, trace->streams.count);
    array_foreach (&trace->streams, s)
        stream_done(s);
    array_done(&trace->streams);
    for (size_t i = 0; !trace->borrowed && i < trace->hosts.count; i++) {
        metadata_free(trace->hosts.at[i].meta);
        free(trace->hosts.at[i].classes);
        free(trace->hosts.at[i].path);
        array_foreach (&trace->hosts.at[i].retired, old) {
            metadata_free(old->meta);
            free(old->classes);
        }
        array_done(&trace->hosts.at[i].retired);
    }
    if (!trace->borrowed)
        array_done(&trace->hosts);
    merge_done(&trace->merge);
    free(trace->next_data);
    free(trace->losses);
    free(trace->machine.registers);
    free(trace->machine.values);
    arena_done(&trace->text);
    free(trace);
}

/* ---- merging ---- */

static inline struct stream *stream_at(const struct trace *t, uint32_t index)
{
    return index == MERGE_NONE ? NULL : &t->streams.at[index];
}

static inline void enter(struct trace *t, const struct stream *s)
{
    t->merge.next_ns[s->index] = s->ended ? MERGE_ENDED : MIN(s->time_ns, MERGE_ENDED - 1);
    t->next_data[s->index] = s->packet + (s->packet ? s->at >> 3 : 0);
}

/* All streams as they stand. */
void trace_merge_all(struct trace *t)
{
    array_foreach (&t->streams, s)
        enter(t, s);
    merge_start(&t->merge);
}

/* With many streams nothing of the next ones is left in the nearest cache: it is fetched while those before
 * them are read. (Inlined by force: gcc 12 drops calls of a function that does nothing but prefetch.) */
static inline __attribute__((always_inline)) void fetch_ahead(const struct trace *t)
{
    uint32_t later = merge_ahead(&t->merge, 5);
    if (later == MERGE_NONE)
        return;
    __builtin_prefetch(&t->streams.at[later]);
    __builtin_prefetch((const char *)&t->streams.at[later] + CACHE_LINE);
    __builtin_prefetch(t->next_data[later]);
    __builtin_prefetch(t->next_data[later] + CACHE_LINE);
}

static inline struct stream *first_stream(const struct trace *t)
{
    return stream_at(t, merge_first(&t->merge));
}

int trace_advance(struct trace *t, struct stream *s)
{
    int r = stream_advance(s, &t->machine);
    s->ended = r == 0;
    return r;
}

/* Every stream's first event. */
static int start(struct trace *t)
{
    array_foreach (&t->streams, s) {
        int r = trace_advance(t, s);
        if (r < 0)
            return r;
    }
    t->started = true;
    t->pending = NULL;
    trace_merge_all(t);
    return 0;
}

/* The stream that is first goes on to its next event, or leaves. */
int trace_advance_pending(struct trace *t)
{
    struct stream *s = t->pending;
    int r = trace_advance(t, s);
    t->pending = NULL;
    if (r < 0)
        return r;
    enter(t, s);
    merge_moved(&t->merge, s->index);
    fetch_ahead(t);
    return 0;
}

static uint64_t presence(const struct program *p, const struct value *values)
{
    if (!p->irregular)
        return p->present;
    uint64_t present = 0;
    for (uint32_t i = 0; i < p->slot_count && i < 64; i++)
        present |= (uint64_t)!values[i].absent << i;
    return present;
}

static void fill_event(struct trace *t, const struct stream *s)
{
    const struct event_meta *meta = s->event;
    const struct value *values = t->machine.values;
    t->event = (struct event){
        .time_ns = (uint64_t)s->time_ns,
        .class = meta->public,
        .values = values,
        .packet = s->packet_values,
        .present = presence(meta->program, values),
        .pid = meta->pid_slot >= 0 ? values[meta->pid_slot].i : s->packet_pid,
        .tid = meta->tid_slot >= 0 ? values[meta->tid_slot].i : s->packet_tid,
        .stream = s->index,
        .trace = (uint16_t)s->public.host,
        .id = meta->public->id,
    };
}

/* Inlined into both, so that without a limit nothing is compared for each event. */
static inline __attribute__((always_inline)) int next(struct trace *t, int64_t until_ns,
                                                      const struct event **ret_event)
{
    int r;
    if (!t->started && (r = start(t)) < 0)
        return r;
    for (;;) {
        if (t->pending && (r = trace_advance_pending(t)) < 0)
            return r;
        struct stream *s = first_stream(t);
        if (!s || s->time_ns > until_ns)
            return 0;
        r = stream_decode(s, &t->machine);
        t->pending = s;
        if (r == 0) {
            fill_event(t, s);
            *ret_event = &t->event;
            return 1;
        }
        if (r != -EBADMSG)
            return r;
    }
}

int trace_next(struct trace *t, const struct event **ret_event)
{
    int r;
    if (!t->started && !t->parallel && t->threads > 1 &&
        (r = parallel_start(t, t->threads, &t->parallel)) < 0)
        return r;
    if (t->parallel) {
        r = parallel_next(t->parallel, ret_event);
        if (r > 0)
            t->event.time_ns = (*ret_event)->time_ns;
        return r;
    }
    return next(t, INT64_MAX, ret_event);
}

int trace_next_until(struct trace *t, uint64_t time_ns, const struct event **ret_event)
{
    return next(t, (int64_t)MIN(time_ns, (uint64_t)INT64_MAX), ret_event);
}

static void end_parallel(struct trace *t)
{
    parallel_free(t->parallel);
    t->parallel = NULL;
}

int trace_rewind(struct trace *t)
{
    end_parallel(t);
    array_foreach (&t->streams, s) {
        int r = stream_rewind(s);
        if (r < 0)
            return r;
    }
    t->started = false;
    t->pending = NULL;
    return 0;
}

int trace_set_alignment(struct trace *t, const struct alignment *alignment)
{
    array_foreach (&t->streams, s) {
        const struct host_alignment *h = &alignment->hosts[s->public.host];
        s->align_origin_ns = h->origin_ns;
        s->align_offset_ns = h->offset_ns;
        s->align_drift = h->drift;
        s->aligned = h->drift != 0 || h->offset_ns != 0;
    }
    return trace_rewind(t);
}

int trace_seek_ns(struct trace *t, uint64_t time_ns)
{
    end_parallel(t);
    array_foreach (&t->streams, s) {
        int r = stream_seek(s, &t->machine, (int64_t)time_ns);
        if (r < 0)
            return r;
        s->ended = r == 0;
    }
    t->started = true;
    t->pending = NULL;
    trace_merge_all(t);
    return 0;
}

/* ---- asking ---- */

const struct trace_loss *trace_losses(const struct trace *trace, size_t *ret_count)
{
    size_t n = 0;
    for (size_t i = 0; !trace->borrowed && i < trace->hosts.count; i++) {
        const struct metadata *m = trace->hosts.at[i].meta;
        if (!m->cut_bytes)
            continue;
        struct trace_loss *loss = &trace->losses[n++];
        *loss = (struct trace_loss){LOSS_METADATA, LOSS_NO_STREAM, m->cut_bytes, m->cut_offset, m->path, ""};
        snprintf(loss->what, sizeof(loss->what),
                 "expected the rest of a packet; only what is declared before "
                 "its end is known");
    }
    array_foreach (&trace->streams, s)
        for (int kind = 0; s->losses && kind < LOSS_KINDS; kind++)
            if (s->losses[kind].count)
                trace->losses[n++] = s->losses[kind];
    *ret_count = n;
    return trace->losses;
}

void trace_progress(const struct trace *trace, uint64_t *ret_done, uint64_t *ret_total)
{
    uint64_t done = 0, total = 0;
    array_foreach (&trace->streams, s) {
        done += s->done_bytes + s->packet_offset + (s->packet_bytes ? s->at / 8 : 0);
        total += s->public.bytes;
    }
    *ret_done = trace->parallel ? (uint64_t)((double)total * parallel_progress(trace->parallel)) : done;
    *ret_total = total;
}

uint32_t trace_host_count(const struct trace *trace)
{
    return (uint32_t)trace->hosts.count;
}

const struct trace_host *trace_host_at(const struct trace *trace, uint32_t index)
{
    return &trace->hosts.at[index].public;
}

uint32_t trace_stream_count(const struct trace *trace)
{
    return (uint32_t)trace->streams.count;
}

const struct trace_stream *trace_stream_at(const struct trace *trace, uint32_t index)
{
    return &trace->streams.at[index].public;
}

const char *trace_host_environment(const struct trace *trace, uint32_t host, const char *name)
{
    return metadata_environment(trace->hosts.at[host].meta, name);
}

const struct stream *trace_stream_private(const struct trace *trace, uint32_t index)
{
    return &trace->streams.at[index];
}

const struct metadata *trace_metadata(const struct trace *trace, uint32_t host)
{
    return trace->hosts.at[host].meta;
}

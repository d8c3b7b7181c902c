/* Traces that are still being written: streams get longer, new files appear, and classes are appended to the
 * metadata. A writer adds to the metadata before it writes what that describes, and so the metadata is looked
 * at first, files afterwards. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "trace/trace_private.h"

uint64_t trace_metadata_bytes(const char *folder)
{
    char path[PATH_MAX];
    struct stat st;
    bool fits = snprintf(path, sizeof(path), "%s/metadata", folder) < (int)sizeof(path);
    return fits && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Every stream of the host goes over to the new metadata. */
static int adopt(struct trace *t, const struct host *h, const struct metadata *meta)
{
    int r = 0;
    for (size_t i = 0; r >= 0 && i < t->streams.count; i++)
        if (t->streams.at[i].meta == h->meta)
            r = stream_adopt(&t->streams.at[i], meta);
    return r;
}

/* 1 when the host's metadata has grown. Metadata that cannot be read, or ends within a packet, is
 * half-written: it is read next time. */
static int refresh_metadata(struct trace *t, struct host *h)
{
    uint64_t bytes = trace_metadata_bytes(h->path);
    struct metadata *meta = NULL;
    if (bytes <= h->metadata_bytes)
        return 0;
    int r = metadata_load(h->path, NULL, &meta);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    if (meta->cut_bytes) {
        metadata_free(meta);
        return 0;
    }
    /* Both stay until the trace is closed, also when it goes wrong half-way. */
    struct retired other = {meta, NULL};
    if (array_add(&h->retired, other) < 0) {
        metadata_free(meta);
        return -ENOMEM;
    }
    r = trace_reserve_registers(t, meta->register_count + 1);
    if (r >= 0)
        r = adopt(t, h, meta);
    h->metadata_bytes = bytes;
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    h->retired.at[h->retired.count - 1] = (struct retired){h->meta, h->classes};
    h->meta = meta;
    h->classes = NULL;
    r = trace_describe_host(h);
    return r < 0 ? r : 1;
}

static bool is_known(const struct trace *t, const char *path)
{
    array_foreach (&t->streams, s)
        array_foreach (&s->files, f)
            if (strcmp(f->path, path) == 0)
                return true;
    return false;
}

/* A new file: the next one of a stream that was rotated, or a stream of its own. 1, or 0: nothing in it yet.
 */
static int add_file(struct trace *t, uint32_t host, const char *path)
{
    struct stream s = {.index = (uint32_t)t->streams.count, .public.host = host};
    int r = stream_open(&s, t->hosts.at[host].meta, path, NULL);
    if (r >= 0)
        r = stream_probe(&s, &t->machine);
    if (r >= 0 && !s.class) /* its first packet is not whole */
        r = -ENODATA;
    for (size_t i = 0; r >= 0 && s.has_instance && i < t->streams.count; i++) {
        struct stream *before = &t->streams.at[i];
        if (!stream_same(before, &s) ||
            before->files.at[before->files.count - 1].begin_ns > s.files.at[0].begin_ns)
            continue;
        before->news = true;
        r = stream_join(before, &s);
        return r < 0 ? r : 1;
    }
    array_foreach (&t->streams, other) /* the host's clock is corrected alike everywhere */
        if (other->public.host == host && other->aligned) {
            s.aligned = true;
            s.align_origin_ns = other->align_origin_ns;
            s.align_offset_ns = other->align_offset_ns;
            s.align_drift = other->align_drift;
        }
    s.ended = s.news = true; /* until it is advanced */
    if (r >= 0 && array_add(&t->streams, s) < 0)
        r = -ENOMEM;
    if (r < 0)
        stream_done(&s);
    return r == -ENOMEM ? r : r < 0 ? 0 : 1;
}

/* The number of new files. */
static int add_files(struct trace *t, uint32_t host)
{
    _cleanup_(trace_names_done) name_list names = {0};
    const char *folder = t->hosts.at[host].path;
    int added = 0, r = trace_list_folder(folder, &names);
    for (size_t i = 0; r >= 0 && i < names.count; i++) {
        char path[PATH_MAX];
        struct stat st;
        if (!trace_is_stream_name(names.at[i].name) ||
            snprintf(path, sizeof(path), "%s/%s", folder, names.at[i].name) >= (int)sizeof(path) ||
            !trace_is_file(path, &names.at[i]) || stat(path, &st) < 0 || st.st_size == 0 || is_known(t, path))
            continue;
        r = add_file(t, host, path);
        added += r > 0;
    }
    return r == -ENOMEM ? r : added;
}

/* Streams that had ended go on; the others are not touched. */
int64_t trace_refresh(struct trace *t)
{
    int64_t more = 0;
    int grown = 0, added = 0;
    if (t->parallel) { /* what grows is read in one thread, from behind the last event */
        uint64_t last = t->event.time_ns;
        int moved = trace_seek_ns(t, last + 1);
        if (moved < 0)
            return moved;
    }
    if (!t->started)
        return 0;
    int r = t->pending ? trace_advance_pending(t) : 0;
    for (uint32_t i = 0; r >= 0 && !t->borrowed && i < t->hosts.count; i++) {
        if ((r = refresh_metadata(t, &t->hosts.at[i])) > 0)
            grown++;
        if (r >= 0 && (r = add_files(t, i)) > 0)
            added += r;
    }
    if (r >= 0 && added)
        r = trace_prepare(t);
    if (r < 0)
        return r;
    array_foreach (&t->streams, s) {
        int64_t n = stream_refresh(s);
        if (n < 0)
            return n;
        more += n;
        if (s->ended && (n > 0 || s->news) && (r = trace_advance(t, s)) < 0)
            return r;
        s->news = false;
    }
    if (more || added || grown)
        trace_merge_all(t);
    return more + added;
}

/* See keeping.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "steer/keeping.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/owner.h"
#include "profile/formats.h"
#include "profile/outlier.h"
#include "profile/windows.h"

enum { LEVELS = 3 };
/* A level's windows are no longer than this; the next level's begin at multiples of its own. */
static const uint64_t LENGTH_S[LEVELS] = {10, 60, 3600};
static const uint64_t LONGEST_S = 86400;

const struct store_options STORE_USUAL = {.keep_s = {7200, 2 * 86400, 60 * 86400}, .quota_bytes = 1ull << 30};

typedef ARRAY(struct store_window) windows;

void store_window_path(char *to, size_t size, const char *path, const struct store_window *w)
{
    snprintf(to, size, "%s/windows/%" PRIu64 "-%" PRIu64 ".pb.gz", path, w->start_s, w->length_s);
}

/* By time, the longest first. */
static int by_start(const void *a, const void *b)
{
    const struct store_window *x = a, *y = b;
    if (x->start_s != y->start_s)
        return x->start_s < y->start_s ? -1 : 1;
    return x->length_s > y->length_s ? -1 : x->length_s < y->length_s;
}

/* "START-LENGTH.pb.gz", with what follows; whatever else lies there is not ours. */
static bool read_name(const char *name, const char *after, struct store_window *ret_window)
{
    static const char type[] = ".pb.gz";
    char *end;
    struct store_window w = {0};
    if (*name < '0' || *name > '9')
        return false;
    errno = 0;
    w.start_s = strtoull(name, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9')
        return false;
    w.length_s = strtoull(end + 1, &end, 10);
    if (errno || strncmp(end, type, sizeof(type) - 1) != 0 || strcmp(end + sizeof(type) - 1, after) != 0 ||
        !w.length_s || w.length_s > LONGEST_S || w.start_s > INT64_MAX)
        return false;
    *ret_window = w;
    return true;
}

/* All files, covered ones, too. */
static int list_all(const char *path, windows *ret_windows, struct problem *problem)
{
    char folder[4096];
    int r = 0;
    snprintf(folder, sizeof(folder), "%s/windows", path);
    DIR *dir = opendir(folder);
    if (!dir) {
        r = problem_set(problem, -errno, "%s: %s", folder, strerror(errno));
        if (r == -ENOENT)
            problem_remedy(problem, "A store is made by sonde profile --all --store DIR.");
        return r;
    }
    for (struct dirent *e; r == 0 && (e = readdir(dir));) {
        struct store_window w;
        struct stat st;
        if (!read_name(e->d_name, "", &w) || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        w.bytes = (uint64_t)st.st_size;
        if (array_add(ret_windows, w) < 0)
            r = problem_set(problem, -ENOMEM, "out of memory");
    }
    closedir(dir);
    if (ret_windows->count)
        qsort(ret_windows->at, ret_windows->count, sizeof(*ret_windows->at), by_start);
    return r;
}

/* Leaves out what another one covers. Windows do not overlap otherwise: one that did would be counted twice,
 * and is left out as well. Those that are left out stand behind ret_kept. */
static size_t drop_covered(windows *all)
{
    windows covered = {0};
    size_t kept = 0;
    uint64_t until = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct store_window w = all->at[i];
        if (w.start_s < until) {
            (void)array_add(&covered, w);
            continue;
        }
        until = w.start_s + w.length_s;
        all->at[kept++] = w;
    }
    for (size_t i = 0; i < covered.count && kept + i < all->count; i++)
        all->at[kept + i] = covered.at[i];
    array_done(&covered);
    return kept;
}

int store_list(const char *path, struct store_window **ret_windows, size_t *ret_count,
               struct problem *problem)
{
    windows all = {0};
    int r = list_all(path, &all, problem);
    if (r < 0) {
        array_done(&all);
        return r;
    }
    *ret_count = drop_covered(&all);
    *ret_windows = all.at;
    return 0;
}

/* Adds a window to another: what it covers is the sum, so that gaps stay gaps. */
static int add_window(struct profile *sum, const struct profile *window)
{
    uint64_t start_ns = sum->start_ns ? sum->start_ns : window->start_ns,
             covered_ns = sum->end_ns - sum->start_ns + window->end_ns - window->start_ns;
    int r = profile_merge(sum, window);
    sum->start_ns = start_ns;
    sum->end_ns = start_ns + covered_ns;
    memcpy(sum->event, window->event, sizeof(sum->event));
    memcpy(sum->unit, window->unit, sizeof(sum->unit));
    return r;
}

/* More places in stacks than this are not kept of a longer window. */
#define PLACES_MOST 200000

static int bound_places(struct profile *sum)
{
    return sum->nodes.count > PLACES_MOST ? profile_fold(sum, PLACES_MOST / 2, NULL, NULL) : 0;
}

static int write_window(const char *path, const struct profile *window, uint64_t start_s, uint64_t length_s,
                        struct problem *problem)
{
    char folder[4096], file[4200];
    struct text text = {0};
    struct store_window w = {.start_s = start_s, .length_s = length_s};
    snprintf(folder, sizeof(folder), "%s/windows", path);
    int r = file_make_folder(path);
    if (r == 0)
        r = file_make_folder(folder);
    if (r < 0)
        return problem_set(problem, r, "%s: %s", folder, strerror(-r));
    store_window_path(file, sizeof(file), path, &w);
    r = pprof_write(window, &text);
    if (r == 0)
        r = file_replace(file, text_get(&text), text.length);
    text_done(&text);
    return r < 0 ? problem_set(problem, r, "%s: %s", file, strerror(-r)) : 0;
}

/* Where what was sampled at a time belongs. When the clock was set back there is a window of this time
 * already, of the same length or, because it is over for long, of a longer one: both are of it. */
static struct store_window window_of(const char *path, uint64_t start_s, uint64_t length_s)
{
    char file[4200];
    for (int level = LEVELS; level-- > 0 && LENGTH_S[level] > length_s;) {
        struct store_window longer = {.start_s = start_s / LENGTH_S[level] * LENGTH_S[level],
                                      .length_s = LENGTH_S[level]};
        store_window_path(file, sizeof(file), path, &longer);
        if (access(file, F_OK) == 0)
            return longer;
    }
    return (struct store_window){.start_s = start_s, .length_s = length_s};
}

int store_add(const char *path, struct profile *window, uint64_t start_s, uint64_t length_s,
              struct problem *problem)
{
    char file[4200];
    const struct store_window w = window_of(path, start_s, length_s);
    struct problem ignored;
    _cleanup_(profile_freep) struct profile *before = NULL;
    store_window_path(file, sizeof(file), path, &w);
    if (access(file, F_OK) == 0 && profile_read_file(file, &before, &ignored) == 0 &&
        (add_window(window, before) < 0 || bound_places(window) < 0))
        return problem_set(problem, -ENOMEM, "out of memory");
    return write_window(path, window, w.start_s, w.length_s, problem);
}

/* ---- longer windows ---- */

/* The windows as one of the level's length. A damaged one is no part of it: its time is a gap. */
static int join(const char *path, const struct store_window *first, size_t count, uint64_t start_s,
                uint64_t length_s, struct problem *problem)
{
    _cleanup_(profile_freep) struct profile *sum = NULL;
    char file[4200];
    int r = profile_new(&sum);
    for (size_t i = 0; r == 0 && i < count; i++) {
        _cleanup_(profile_freep) struct profile *part = NULL;
        store_window_path(file, sizeof(file), path, &first[i]);
        r = profile_read_file(file, &part, problem);
        if (r == -EBADMSG)
            r = 0;
        else if (r == 0)
            r = add_window(sum, part);
    }
    if (r == 0)
        r = bound_places(sum);
    if (r == 0)
        r = write_window(path, sum, start_s, length_s, problem);
    for (size_t i = 0; r == 0 && i < count; i++) {
        store_window_path(file, sizeof(file), path, &first[i]);
        int removed = owner_unlink(file);
        if (removed < 0 && removed != -ENOENT)
            r = problem_set(problem, removed, "%s: %s", file, strerror(-removed));
    }
    return r;
}

static void remove_windows(const char *path, windows *all, const struct store_options *o, uint64_t now_s)
{
    uint64_t bytes = 0;
    char file[4200];
    array_foreach (all, w)
        bytes += w->bytes;
    array_foreach (all, w) { /* the oldest come first */
        int level = w->length_s <= LENGTH_S[0] ? 0 : w->length_s <= LENGTH_S[1] ? 1 : 2;
        bool old = now_s > w->start_s + w->length_s && now_s - w->start_s - w->length_s > o->keep_s[level];
        if (!old && !(o->quota_bytes && bytes > o->quota_bytes))
            continue;
        store_window_path(file, sizeof(file), path, w);
        if (owner_unlink(file) == 0)
            bytes -= MIN(bytes, w->bytes);
    }
}

/* What a writer that was killed had not renamed yet (file_replace()); nobody writes a window that is over for
 * long. */
static void remove_unfinished(const char *path, uint64_t now_s)
{
    char folder[4096], file[sizeof(folder) + 256];
    struct store_window w;
    snprintf(folder, sizeof(folder), "%s/windows", path);
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (!read_name(e->d_name, ".new", &w) || now_s < w.start_s + w.length_s + LONGEST_S)
            continue;
        snprintf(file, sizeof(file), "%s/%s", folder, e->d_name);
        (void)owner_unlink(file);
    }
    if (dir)
        closedir(dir);
}

int store_tidy(const char *path, const struct store_options *o, uint64_t now_s, struct problem *problem)
{
    int r = 0;
    char file[4200];
    remove_unfinished(path, now_s);
    for (int level = 1; r == 0 && level < LEVELS; level++) {
        windows all = {0};
        uint64_t length = LENGTH_S[level];
        r = list_all(path, &all, problem);
        size_t kept = r == 0 ? drop_covered(&all) : 0;
        for (size_t i = kept; r == 0 && i < all.count; i++) { /* left behind by one that was killed */
            store_window_path(file, sizeof(file), path, &all.at[i]);
            (void)owner_unlink(file);
        }
        for (size_t i = 0, end; r == 0 && i < kept; i = end) {
            uint64_t start = all.at[i].start_s / length * length;
            for (end = i; end < kept && all.at[end].start_s / length * length == start; end++)
                ;
            /* Only what is over for as long as its parts are kept, and what does not reach beyond. */
            bool over = now_s >= start + length + o->keep_s[level - 1] / 2, fits = true;
            for (size_t k = i; k < end; k++)
                fits &= all.at[k].start_s + all.at[k].length_s <= start + length;
            if (over && fits && !(end - i == 1 && all.at[i].length_s == length))
                r = join(path, &all.at[i], end - i, start, length, problem);
        }
        array_done(&all);
    }
    windows all = {0};
    if (r == 0 && (r = list_all(path, &all, problem)) == 0)
        remove_windows(path, &all, o, now_s);
    array_done(&all);
    return r;
}

/* ---- reading ---- */

/* As one stretch of the time that is summed up (profile/windows.h). */
static int add_block(struct profile *into, const struct profile *window, uint64_t block)
{
    uint32_t *nodes;
    int r = profile_merge_places(into, window, &nodes);
    if (r < 0)
        return r;
    for (size_t i = 1; i < window->nodes.count; i++)
        if (window->nodes.at[i].weight)
            profile_windows_add_at(into, nodes[i], window->nodes.at[i].weight, (uint32_t)block);
    free(nodes);
    memcpy(into->event, window->event, sizeof(into->event));
    memcpy(into->unit, window->unit, sizeof(into->unit));
    return 0;
}

static bool in_time(const struct store_window *w, uint64_t from_s, uint64_t until_s)
{
    uint64_t middle = w->start_s + w->length_s / 2;
    return middle >= from_s && middle < until_s;
}

int store_sum(const char *path, uint64_t from_s, uint64_t until_s, struct profile *into,
              struct store_sum *ret_sum, struct problem *problem)
{
    struct store_sum sum = {0};
    struct store_window *list;
    size_t count;
    uint64_t covered_ns = 0, seen = 0, all = 0;
    char file[4200];
    int r = store_list(path, &list, &count, problem);
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++)
        all += in_time(&list[i], from_s, until_s);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct store_window *w = &list[i];
        _cleanup_(profile_freep) struct profile *window = NULL;
        if (!in_time(w, from_s, until_s))
            continue;
        uint64_t block = seen++ * MIN(all, (uint64_t)WINDOWS) / all;
        store_window_path(file, sizeof(file), path, w);
        r = profile_read_file(file, &window, problem);
        if (r == -EBADMSG || r == -ENOENT) { /* damaged, or tidied up meanwhile */
            sum.damaged++;
            r = 0;
            continue;
        }
        if (r == 0)
            r = add_block(into, window, block);
        if (r == 0) {
            if (!sum.windows++)
                sum.start_s = w->start_s;
            sum.end_s = w->start_s + w->length_s;
            covered_ns += window->end_ns - window->start_ns;
        }
    }
    free(list);
    if (r < 0)
        return r;
    sum.covered_s = (covered_ns + 500000000) / 1000000000;
    sum.gap_s = sum.end_s - sum.start_s - MIN(sum.covered_s, sum.end_s - sum.start_s);
    *ret_sum = sum;
    return 0;
}

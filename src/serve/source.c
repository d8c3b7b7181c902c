/* See source.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/folder.h"
#include "base/clock.h"
#include "base/file.h"
#include "profile/formats.h"

#define PREVIEW_NS        ((uint64_t)700000000) /* between looks at the findings of what is still being read */
#define DOCUMENT_MAX      ((size_t)256 << 20)
#define KEPT_MAX          ((uint64_t)1 << 30) /* a larger history of states is not kept */
#define VIEW_FOLDER       "view"
#define KEEP_PER_ENDPOINT 5

struct source {
    char path[PATH_MAX];
    char folder[PATH_MAX + 8]; /* of what was read: PATH/view, or a temporary one */
    char key[128];             /* of the state in which the recording was read */
    enum source_kind kind;
    bool keep, temporary, started;
    bool cancel; /* atomic */
    pthread_t thread;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t done;
    struct source_status status;
    char *document;
    uint64_t started_ns, previewed_ns;
    uint32_t steps; /* calls of on_progress() */
    /* Set once, before SOURCE_READY. */
    struct requests *requests;
    struct history *history;
    struct source_row *rows;
    size_t row_count;
    struct groups *groups;
};

static void set_document(struct source *s, char *document)
{
    if (!document)
        return;
    pthread_mutex_lock(&s->lock);
    free(s->document);
    s->document = document;
    s->status.version++;
    pthread_mutex_unlock(&s->lock);
}

/* ---- what is kept ---- */

/* Adds size and time of change of every file below the folder, but for what is kept there. */
static void sum_files(const char *folder, unsigned depth, uint64_t *sum)
{
    DIR *dir = depth < 8 ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char path[PATH_MAX];
        struct stat st;
        if (e->d_name[0] == '.' || strcmp(e->d_name, VIEW_FOLDER) == 0 ||
            snprintf(path, sizeof(path), "%s/%s", folder, e->d_name) >= (int)sizeof(path) ||
            lstat(path, &st) < 0)
            continue;
        uint64_t words[] = {map_hash(e->d_name, strlen(e->d_name)), (uint64_t)st.st_size,
                            (uint64_t)st.st_mtim.tv_sec, (uint64_t)st.st_mtim.tv_nsec};
        if (S_ISDIR(st.st_mode))
            sum_files(path, depth + 1, sum);
        else
            *sum += map_hash(words, sizeof(words));
    }
    if (dir)
        closedir(dir);
}

/* Of this recording as read by this program. */
static void make_key(struct source *s)
{
    struct stat self = {0};
    uint64_t sum = 0;
    stat("/proc/self/exe", &self);
    sum_files(s->path, 0, &sum);
    snprintf(s->key, sizeof(s->key), "%s %llx.%llx %016llx\n", SONDE_VERSION,
             (unsigned long long)self.st_size, (unsigned long long)self.st_mtim.tv_sec,
             (unsigned long long)sum);
}

static void in_folder(const struct source *s, const char *name, char path[PATH_MAX + 32])
{
    snprintf(path, PATH_MAX + 32, "%s/%s", s->folder, name);
}

/* A folder that somebody else could have put there, or a link, is not written into. */
static bool is_own_folder(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

static int choose_folder(struct source *s, struct problem *problem)
{
    if (s->keep &&
        snprintf(s->folder, sizeof(s->folder), "%s/" VIEW_FOLDER, s->path) < (int)sizeof(s->folder)) {
        mkdir(s->folder, 0700);
        if (is_own_folder(s->folder) && access(s->folder, W_OK) == 0)
            return 0;
    }
    s->temporary = true;
    snprintf(s->folder, sizeof(s->folder), "%s/sonde-view-XXXXXX", file_temporary_folder());
    return mkdtemp(s->folder) ? 0 : problem_set(problem, -errno, "%s: %s", s->folder, strerror(errno));
}

static void remove_files(const struct source *s)
{
    static const char *const NAMES[] = {"groups",   "key",   "profile.json", "report.json",
                                        "requests", "spans", "states"};
    for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
        char path[PATH_MAX + 32];
        in_folder(s, NAMES[i], path);
        unlink(path);
    }
}

static int open_history(struct source *s, struct history **ret_history, struct problem *problem)
{
    char path[PATH_MAX + 32];
    in_folder(s, "states", path);
    return access(path, R_OK) == 0 ? history_open(path, ret_history, problem) : 0;
}

/* Opens what an earlier run has kept of the recording as it is now. */
static int open_kept(struct source *s)
{
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *key = NULL, *document = NULL;
    struct requests *requests = NULL;
    struct history *history = NULL;
    snprintf(s->folder, sizeof(s->folder), "%s/" VIEW_FOLDER, s->path);
    in_folder(s, "key", path);
    if (!is_own_folder(s->folder) || file_read(path, sizeof(s->key), &key, NULL) < 0 ||
        strcmp(key, s->key) != 0)
        return -ENOENT;
    in_folder(s, "report.json", path);
    int r = file_read(path, DOCUMENT_MAX, &document, NULL);
    if (r >= 0)
        r = requests_open(s->folder, &requests, NULL);
    if (r >= 0)
        r = open_history(s, &history, NULL);
    if (r < 0) {
        requests_free(requests);
        return r;
    }
    s->requests = requests;
    s->history = history;
    set_document(s, document);
    document = NULL;
    s->status.kept = true;
    return 0;
}

static int write_file(const struct source *s, const char *name, const char *text)
{
    char path[PATH_MAX + 32];
    in_folder(s, name, path);
    return file_replace(path, text, strlen(text));
}

/* ---- reading ---- */

static char *dump_report(struct report *report, struct analysis *analysis)
{
    if (folder_extend(report, analysis) < 0 ||
        json_object_set_new(report->extra, "processes", folder_processes(analysis)) < 0)
        return NULL;
    json_t *json = report_json(report);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    return text;
}

static int preview(void *context, struct analysis *analysis, struct report *report)
{
    set_document(context, dump_report(report, analysis));
    return 0;
}

static int on_progress(void *context, struct analysis *analysis, uint64_t done, uint64_t total)
{
    struct source *s = context;
    uint64_t now = clock_monotonic_ns(), took = now - s->started_ns;
    if (__atomic_load_n(&s->cancel, __ATOMIC_RELAXED))
        return -ECANCELED;
    pthread_mutex_lock(&s->lock);
    s->status.done_bytes = done;
    s->status.total_bytes = total;
    s->status.left_ns =
        done && total > done ? (uint64_t)((double)took * (double)(total - done) / (double)done) : 0;
    pthread_mutex_unlock(&s->lock);
    /* Early on also whenever twice as much has been read, so that the page soon shows something. */
    s->steps++;
    bool doubled = done < total && (s->steps & (s->steps - 1)) == 0;
    if (doubled || now - s->previewed_ns > PREVIEW_NS + took / 10) {
        int r = analysis_so_far(analysis, OPEN_LEFT_OUT, preview, s);
        s->previewed_ns = clock_monotonic_ns();
        return r;
    }
    return 0;
}

static int on_request(void *context, const struct request *request)
{
    return requests_add(context, request, NULL);
}

/* Where functions were sampled, the slowest requests are described again with them, and there is a profile.
 */
static void add_samples(struct source *s, struct analysis *analysis)
{
    size_t count;
    const struct profile *samples = analysis_samples(analysis);
    const struct request *const *slowest = analysis_requests(analysis, &count);
    for (size_t i = 0; samples && i < count; i++)
        requests_replace(s->requests, slowest[i], samples);
    struct text text = {0};
    if (samples && samples->nodes.count > 1 &&
        profile_document(samples, NULL, "Sampled beside the recording", &text) == 0)
        write_file(s, "profile.json", text_get(&text));
    text_done(&text);
}

static int read_recording(struct source *s, struct problem *problem)
{
    char states[PATH_MAX + 32];
    _cleanup_(analysis_freep) struct analysis *analysis = NULL;
    struct report report = {0};
    struct analyze_options options = ANALYZE_DEFAULTS;
    struct stat st;
    int r = choose_folder(s, problem);
    if (r < 0)
        return r;
    remove_files(s);
    in_folder(s, "states", states);
    r = requests_create(s->folder, &s->requests, problem);
    options.on_request = on_request;
    options.on_request_context = s->requests;
    options.keep_per_endpoint = KEEP_PER_ENDPOINT;
    const struct folder_reading reading = {
        .analyze = &options, .states = states, .progress = on_progress, .context = s};
    if (r >= 0)
        r = folder_read(s->path, &reading, problem, &analysis, &report);
    if (r < 0)
        return r;
    add_samples(s, analysis);
    r = requests_close(s->requests, problem);
    if (r >= 0)
        r = open_history(s, &s->history, problem);
    char *document = r >= 0 ? dump_report(&report, analysis) : NULL;
    if (r >= 0 && !document)
        r = -ENOMEM;
    if (r >= 0 && !s->temporary && (stat(states, &st) < 0 || (uint64_t)st.st_size < KEPT_MAX))
        if (write_file(s, "report.json", document) == 0)
            write_file(s, "key", s->key);
    set_document(s, document);
    report_done(&report);
    return r;
}

/* What the overview shows, from all rows or as it was kept. */
static int list_rows(struct source *s, struct problem *problem)
{
    char path[PATH_MAX + 32];
    in_folder(s, "groups", path);
    int r = rows_list(s->document, s->history, &s->rows, &s->row_count);
    if (r < 0 || !s->row_count || groups_read(path, s->history, s->rows, s->row_count, &s->groups) == 0)
        return r;
    r = groups_make(s->history, s->rows, s->row_count, &s->cancel, &s->groups, problem);
    if (r >= 0 && s->keep && !s->temporary)
        (void)groups_write(s->groups, path); /* else it is made again the next time */
    return r;
}

static int read_profile(struct source *s, struct problem *problem)
{
    _cleanup_(profile_freep) struct profile *profile = NULL;
    struct text text = {0};
    const char *name = strrchr(s->path, '/');
    int r = profile_read_file(s->path, &profile, problem);
    if (r >= 0)
        r = profile_document(profile, NULL, name ? name + 1 : s->path, &text);
    if (r >= 0)
        set_document(s, text_take(&text));
    text_done(&text);
    return r;
}

static void finish(struct source *s, int error, const struct problem *problem)
{
    bool cancelled = __atomic_load_n(&s->cancel, __ATOMIC_RELAXED);
    pthread_mutex_lock(&s->lock);
    s->status.problem = *problem;
    s->status.left_ns = 0;
    s->status.state = error >= 0 ? SOURCE_READY : cancelled ? SOURCE_CANCELLED : SOURCE_FAILED;
    s->status.version++;
    pthread_cond_broadcast(&s->done);
    pthread_mutex_unlock(&s->lock);
}

static void *read_source(void *context)
{
    struct source *s = context;
    struct problem problem = {0};
    int r;
    s->started_ns = s->previewed_ns = clock_monotonic_ns();
    if (s->kind == SOURCE_PROFILE) {
        r = read_profile(s, &problem);
    } else {
        make_key(s);
        r = s->keep ? open_kept(s) : -ENOENT;
        if (r < 0)
            r = read_recording(s, &problem);
        if (r >= 0)
            r = list_rows(s, &problem);
    }
    if (r < 0 && !problem.what[0])
        problem_set(&problem, r, "%s: %s", s->path, strerror(-r));
    finish(s, r, &problem);
    return NULL;
}

int source_new(const char *path, bool keep, struct source **ret_source, struct problem *problem)
{
    struct stat st;
    if (stat(path, &st) < 0)
        return problem_set(problem, -errno, "%s: %s", path, strerror(errno));
    struct source *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->done, NULL);
    s->keep = keep;
    s->kind = s->status.kind = S_ISDIR(st.st_mode) ? SOURCE_RECORDING : SOURCE_PROFILE;
    if (!realpath(path, s->path)) {
        int error = -errno;
        source_free(s);
        return problem_set(problem, error, "%s: %s", path, strerror(-error));
    }
    int r = -pthread_create(&s->thread, NULL, read_source, s);
    s->started = r == 0;
    if (r < 0) {
        source_free(s);
        return problem_set(problem, r, "a thread that reads %s: %s", path, strerror(-r));
    }
    *ret_source = s;
    return 0;
}

void source_free(struct source *s)
{
    if (!s)
        return;
    source_cancel(s);
    if (s->started)
        pthread_join(s->thread, NULL);
    requests_free(s->requests);
    history_free(s->history);
    for (size_t i = 0; i < s->row_count; i++)
        free(s->rows[i].path);
    free(s->rows);
    groups_free(s->groups);
    free(s->document);
    if (s->temporary) {
        remove_files(s);
        rmdir(s->folder);
    }
    pthread_cond_destroy(&s->done);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void source_get_status(struct source *s, struct source_status *ret_status)
{
    pthread_mutex_lock(&s->lock);
    *ret_status = s->status;
    pthread_mutex_unlock(&s->lock);
}

const char *source_path(const struct source *s)
{
    return s->path;
}

void source_cancel(struct source *s)
{
    __atomic_store_n(&s->cancel, true, __ATOMIC_RELAXED);
}

bool source_wait(struct source *s, unsigned timeout_ms)
{
    uint64_t end_ns = clock_realtime_ns() + timeout_ms * NS_PER_MS;
    const struct timespec end = {.tv_sec = (time_t)(end_ns / NS_PER_S), .tv_nsec = (long)(end_ns % NS_PER_S)};
    int r = 0;
    pthread_mutex_lock(&s->lock);
    while (s->status.state == SOURCE_READING && r != ETIMEDOUT)
        r = pthread_cond_timedwait(&s->done, &s->lock, &end);
    bool over = s->status.state != SOURCE_READING;
    pthread_mutex_unlock(&s->lock);
    return over;
}

static void add_document(struct source *s, struct text *to)
{
    pthread_mutex_lock(&s->lock);
    text_add(to, s->document ? s->document : "");
    pthread_mutex_unlock(&s->lock);
}

static bool is_ready(struct source *s)
{
    pthread_mutex_lock(&s->lock);
    bool ready = s->status.state == SOURCE_READY;
    pthread_mutex_unlock(&s->lock);
    return ready;
}

void source_document(struct source *s, struct text *to)
{
    if (s->kind == SOURCE_RECORDING)
        add_document(s, to);
}

void source_profile(struct source *s, struct text *to)
{
    char path[PATH_MAX + 32];
    _cleanup_(freep) char *document = NULL;
    if (s->kind == SOURCE_PROFILE) {
        add_document(s, to);
    } else if (is_ready(s)) {
        in_folder(s, "profile.json", path);
        if (file_read(path, DOCUMENT_MAX, &document, NULL) == 0)
            text_add(to, document);
    }
}

const struct requests *source_requests(struct source *s)
{
    return is_ready(s) ? s->requests : NULL;
}

struct history *source_history(struct source *s)
{
    return is_ready(s) ? s->history : NULL;
}

const struct source_row *source_rows(struct source *s, size_t *ret_count)
{
    *ret_count = is_ready(s) ? s->row_count : 0;
    return s->rows;
}

const struct groups *source_groups(struct source *s)
{
    return is_ready(s) ? s->groups : NULL;
}

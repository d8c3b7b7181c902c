/* See action.h. A line of the log is a JSON object; its member "hash" is SHA-256 of the line without it (keys
 * sorted, compact), which holds the hash of the line before as "previous". */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/action.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/text.h"

#define AUDIT_MAX  ((size_t)256 << 20)
#define HASH_TEXT  (2 * SHA256_DIGEST_SIZE + 1)
#define FIRST_HASH "0000000000000000000000000000000000000000000000000000000000000000"
#define HOUR_NS    (3600 * NS_PER_S)

extern char **environ;

const char *action_outcome_name(enum action_outcome outcome)
{
    static const char *const names[] = {"done", "failed", "timed out", "dry run", "too often"};
    return names[outcome];
}

/* ---- the log ---- */

static int hash_of(const json_t *line, char *hash)
{
    struct sha256_ctx context;
    uint8_t digest[SHA256_DIGEST_SIZE];
    char *text = json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return -ENOMEM;
    sha256_init(&context);
    sha256_update(&context, strlen(text), (const uint8_t *)text);
    sha256_digest(&context, sizeof(digest), digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(hash + 2 * i, 3, "%02x", digest[i]);
    free(text);
    return 0;
}

/* The hash of the last line of a log that holds together. */
static int check_chain(const char *path, const char *text, char *last, uint64_t *ret_lines,
                       struct problem *problem)
{
    uint64_t lines = 0;
    snprintf(last, HASH_TEXT, "%s", FIRST_HASH);
    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        char hash[HASH_TEXT] = "";
        end = strchrnul(at, '\n');
        json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL), *said = json_object_get(line, "hash");
        const char *previous = json_string_value(json_object_get(line, "previous"));
        json_incref(said);
        json_object_del(line, "hash");
        bool holds = line && said && previous && strcmp(previous, last) == 0 && hash_of(line, hash) == 0 &&
                     json_is_string(said) && strcmp(json_string_value(said), hash) == 0;
        json_decref(said);
        json_decref(line);
        if (!holds)
            return problem_set(problem, -EBADMSG, "%s: line %llu does not follow from the one before it",
                               path, (unsigned long long)lines + 1);
        snprintf(last, HASH_TEXT, "%s", hash);
        lines++;
    }
    *ret_lines = lines;
    return 0;
}

int action_audit_check(const char *path, uint64_t *ret_lines, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    char last[HASH_TEXT];
    int r = file_read(path, AUDIT_MAX, &text, NULL);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r))
                 : check_chain(path, text, last, ret_lines, problem);
}

/* Takes the reference of the line. */
static int write_line(const char *path, json_t *line, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    char last[HASH_TEXT], hash[HASH_TEXT];
    uint64_t lines;
    _cleanup_(file_closep) int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int r = fd < 0 || flock(fd, LOCK_EX) < 0 ? -errno : file_read(path, AUDIT_MAX, &text, NULL);
    if (r < 0)
        problem_set(problem, r, "%s: %s", path, strerror(-r));
    else
        r = check_chain(path, text, last, &lines, problem);
    if (r == 0)
        r = json_object_set_new(line, "previous", json_string(last)) < 0 ? -ENOMEM : hash_of(line, hash);
    if (r == 0)
        r = json_object_set_new(line, "hash", json_string(hash)) < 0 ? -ENOMEM : 0;
    char *words = r == 0 ? json_dumps(line, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (words) {
        struct text out = {0};
        text_addf(&out, "%s\n", words);
        if (write(fd, text_get(&out), out.length) != (ssize_t)out.length || fdatasync(fd) < 0)
            r = problem_set(problem, errno ? -errno : -EIO, "%s: %s", path, strerror(errno));
        text_done(&out);
    }
    free(words);
    json_decref(line);
    return r;
}

/* ---- the command ---- */

/* A file without a name that holds the evidence, to be read from its beginning. */
static int evidence_file(const struct alert *alert)
{
    json_t *json = alert_json(alert, NULL);
    char *text = json ? json_dumps(json, JSON_INDENT(1)) : NULL;
    int fd = text ? memfd_create("evidence", MFD_CLOEXEC) : -1, r = text ? fd : -ENOMEM;
    size_t length = text ? strlen(text) : 0;
    if (fd >= 0 && (write(fd, text, length) != (ssize_t)length || lseek(fd, 0, SEEK_SET) < 0)) {
        r = -errno;
        close(fd);
    } else if (text && fd < 0) {
        r = -errno;
    }
    free(text);
    json_decref(json);
    return r;
}

/* The environment with what a script most often asks for. Owned by the caller, with its four last strings. */
static char **make_environment(const struct alert *alert)
{
    static const char *const names[][2] = {{"SONDE_SERVICE", "service"},
                                           {"SONDE_VERSION", "version"},
                                           {"SONDE_BASE_VERSION", "base_version"},
                                           {"SONDE_BUCKET", "bucket"}};
    const json_t *evidence = json_object_get(alert->finding, "evidence");
    size_t n = 0;
    while (environ[n])
        n++;
    char **list = calloc(n + ARRAY_SIZE(names) + 1, sizeof(*list));
    if (!list)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = json_string_value(json_object_get(evidence, names[i][1]));
        if (asprintf(&list[i], "%s=%s", names[i][0], value ? value : "") < 0)
            list[i] = NULL;
    }
    for (size_t i = 0; list[ARRAY_SIZE(names) - 1] && i < n; i++)
        list[ARRAY_SIZE(names) + i] = environ[i];
    return list;
}

static void free_environment(char **list)
{
    for (int i = 0; list && i < 4; i++)
        free(list[i]);
    free(list);
}

static int start(const char *command, const struct alert *alert, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none, defaults;
    char shell[] = "/bin/sh", flag[] = "-c", *arguments[] = {shell, flag, (char *)(uintptr_t)command, NULL};
    _cleanup_(file_closep) int evidence = evidence_file(alert);
    if (evidence < 0)
        return evidence;
    char **environment = make_environment(alert);
    sigemptyset(&none);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, evidence, STDIN_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    int r = environment ? -posix_spawn(ret_pid, arguments[0], &files, &attributes, arguments, environment)
                        : -ENOMEM;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    free_environment(environment);
    return r;
}

/* Waits for the process; kills it and its children when its time is over. */
static enum action_outcome await(pid_t pid, double timeout_s, int *ret_status)
{
    _cleanup_(file_closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    bool late = fd >= 0 && poll(&poller, 1, (int)(timeout_s * 1000)) == 0;
    if (late)
        kill(-pid, SIGKILL);
    while (waitpid(pid, ret_status, 0) < 0 && errno == EINTR)
        continue;
    return late                                                      ? ACTION_TIMED_OUT
           : WIFEXITED(*ret_status) && WEXITSTATUS(*ret_status) == 0 ? ACTION_DONE
                                                                     : ACTION_FAILED;
}

static bool is_too_often(struct action *action, uint64_t now_ns)
{
    unsigned most = action->settings.per_hour ? action->settings.per_hour : ACTION_PER_HOUR, lately = 0;
    most = MIN(most, (unsigned)ARRAY_SIZE(action->runs_ns));
    for (size_t i = 0; i < ARRAY_SIZE(action->runs_ns); i++)
        lately += action->runs_ns[i] && now_ns - action->runs_ns[i] < HOUR_NS;
    if (lately >= most)
        return true;
    action->runs_ns[action->next++ % ARRAY_SIZE(action->runs_ns)] = MAX(now_ns, UINT64_C(1));
    return false;
}

int action_run(struct action *action, const struct alert *alert, uint64_t now_ns,
               enum action_outcome *ret_outcome, struct problem *problem)
{
    const struct action_settings *s = &action->settings;
    enum action_outcome outcome = ACTION_DRY;
    int r = 0, status = 0;
    pid_t pid;
    if (is_too_often(action, now_ns)) {
        outcome = ACTION_TOO_OFTEN;
    } else if (!s->dry_run) {
        r = start(s->command, alert, &pid);
        if (r < 0)
            problem_set(problem, r, "the action does not start: %s", strerror(-r));
        outcome =
            r < 0 ? ACTION_FAILED : await(pid, s->timeout_s > 0 ? s->timeout_s : ACTION_TIMEOUT_S, &status);
    }
    if (s->audit) {
        json_t *line =
            json_pack("{s:I, s:s, s:s, s:s, s:i, s:O?}", "at_ns", (json_int_t)clock_realtime_ns(), "title",
                      alert->title, "command", s->command, "outcome", action_outcome_name(outcome), "status",
                      WIFEXITED(status) ? WEXITSTATUS(status) : -1, "finding", alert->finding);
        int logged = line ? write_line(s->audit, line, problem) : -ENOMEM;
        r = r < 0 ? r : logged;
    }
    *ret_outcome = outcome;
    return r;
}

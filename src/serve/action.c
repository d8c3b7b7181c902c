/* See action.h. A line of the log is a JSON object; its member "hash" is SHA-256 of the line without it (keys
 * sorted, compact), which holds the hash of the line before as "previous". */
/* SPDX-License-Identifier: Apache-2.0 */
#include "serve/action.h"

#include <errno.h>
#include <fcntl.h>
#include <nettle/sha2.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/owner.h"
#include "base/text.h"
#include "serve/launcher.h"

#define AUDIT_MAX  ((size_t)256 << 20)
#define HASH_TEXT  (2 * SHA256_DIGEST_SIZE + 1)
#define FIRST_HASH "0000000000000000000000000000000000000000000000000000000000000000"

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
    _cleanup_(file_closep) int fd = owner_open(path, O_RDONLY);
    int r = fd < 0 ? fd : file_read_fd(fd, AUDIT_MAX, &text, NULL);
    return r < 0 ? problem_set(problem, r, "%s: %s", path, strerror(-r))
                 : check_chain(path, text, last, ret_lines, problem);
}

/* Takes the reference of the line. */
static int write_line(const char *path, json_t *line, struct problem *problem)
{
    _cleanup_(freep) char *text = NULL;
    char last[HASH_TEXT], hash[HASH_TEXT];
    uint64_t lines;
    _cleanup_(file_closep) int fd = owner_open(path, O_RDWR | O_CREAT | O_APPEND);
    int r = fd < 0 ? fd : flock(fd, LOCK_EX) < 0 ? -errno : file_read_fd(fd, AUDIT_MAX, &text, NULL);
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

/* What a script most often asks for, as launcher_run() takes it. */
static void add_variables(struct text *to, const struct alert *alert)
{
    static const char *const names[][2] = {{"SONDE_SERVICE", "service"},
                                           {"SONDE_VERSION", "version"},
                                           {"SONDE_BASE_VERSION", "base_version"},
                                           {"SONDE_BUCKET", "bucket"}};
    const json_t *evidence = json_object_get(alert->finding, "evidence");
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = json_string_value(json_object_get(evidence, names[i][1]));
        text_addf(to, "%s=%s", names[i][0], value ? value : "");
        text_add_bytes(to, "", 1);
    }
}

static int start(const struct alert *alert, enum action_outcome *ret_outcome, int *ret_status)
{
    struct text variables = {0};
    _cleanup_(file_closep) int evidence = evidence_file(alert);
    if (evidence < 0)
        return evidence;
    add_variables(&variables, alert);
    int r = variables.failed
                ? -ENOMEM
                : launcher_run(evidence, text_get(&variables), variables.length, ret_outcome, ret_status);
    text_done(&variables);
    return r;
}

int action_run(const struct action_settings *s, const struct alert *alert, enum action_outcome *ret_outcome,
               struct problem *problem)
{
    enum action_outcome outcome = ACTION_FAILED;
    int status = 0, r = start(alert, &outcome, &status);
    if (r < 0)
        problem_set(problem, r, "the action does not start: %s", strerror(-r));
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

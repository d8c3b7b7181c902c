/* The processes and threads that an analysis knows, and the strings that live as long as it. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "model/model.h"

/* The slot of the string, or, with NULL, the first free key after those it collides with. */
static const char *find_interned(const struct analysis *a, const char *string, size_t length,
                                 uint64_t *ret_key)
{
    uint64_t key = map_hash(string, length);
    for (;; key++) {
        const uint64_t *place = map_get(&a->interned, key);
        const char *known = place ? (const char *)(uintptr_t)*place : NULL;
        if (!known || (strncmp(known, string, length) == 0 && known[length] == '\0')) {
            *ret_key = key;
            return known;
        }
    }
}

static const char *intern_new(struct analysis *a, const char *string, size_t length, uint64_t key)
{
    const char *copy = arena_strndup(&a->arena, string, length);
    uint64_t *place = copy ? map_put(&a->interned, key, NULL) : NULL;
    if (!place) {
        a->failed = true;
        return "";
    }
    *place = (uint64_t)(uintptr_t)copy;
    return copy;
}

const char *intern(struct analysis *a, const char *string, size_t length)
{
    if (!length)
        return "";
    uint64_t key;
    const char *known = find_interned(a, string, length, &key);
    if (known)
        return known;
    if (text_is_utf8(string, length))
        return intern_new(a, string, length, key);
    struct text clean = {0};
    text_add_utf8(&clean, string, length);
    known = find_interned(a, text_get(&clean), clean.length, &key);
    if (!known)
        known = intern_new(a, text_get(&clean), clean.length, key);
    a->failed |= clean.failed;
    text_done(&clean);
    return known;
}

const char *intern_string(struct analysis *a, const char *string)
{
    return intern(a, string, strlen(string));
}

/* ---- processes and threads ---- */

const struct analyzer *analyzer_of(const struct analysis *a, const struct process *process)
{
    for (const struct analyzer *const *analyzer = a->analyzers; *analyzer; analyzer++)
        if (process->runtime && (*analyzer)->runtime == process->runtime)
            return *analyzer;
    return NULL;
}

/* What the targets keep of it; bytes_at: where struct analyzer says how much. */
static bool own_new(const struct analysis *a, void *own[static SONDE_RUNTIMES], size_t bytes_at)
{
    for (const struct analyzer *const *analyzer = a->analyzers; *analyzer; analyzer++) {
        size_t bytes;
        memcpy(&bytes, (const char *)*analyzer + bytes_at, sizeof(bytes));
        if (bytes && !(own[(*analyzer)->runtime] = calloc(1, bytes)))
            return false;
    }
    return true;
}

static void own_free(void *own[static SONDE_RUNTIMES])
{
    for (unsigned i = 0; i < SONDE_RUNTIMES; i++)
        free(own[i]);
}

struct process *process_new(struct analysis *a, int64_t pid)
{
    struct process *process = calloc(1, sizeof(*process));
    uint64_t *place = map_put(&a->processes, (uint64_t)pid, NULL);
    if (!process || !place || !own_new(a, process->own, offsetof(struct analyzer, process_bytes)) ||
        array_add(&a->all_processes, process) < 0) {
        a->failed = true;
        if (process)
            own_free(process->own);
        free(process);
        return NULL;
    }
    char name[32];
    snprintf(name, sizeof(name), "process %lld", (long long)pid);
    process->pid = pid;
    process->exit_status = -1;
    process->service = intern_string(a, name);
    *place = (uint64_t)(uintptr_t)process;
    a->counts.processes++;
    return process;
}

struct process *process_get(struct analysis *a, int64_t pid)
{
    uint64_t *known = map_get(&a->processes, (uint64_t)pid);
    return known ? (struct process *)(uintptr_t)*known : process_new(a, pid);
}

struct thread *thread_get(struct analysis *a, struct process *process, int64_t tid)
{
    uint64_t *known = map_get(&process->threads, (uint64_t)tid);
    if (known)
        return (struct thread *)(uintptr_t)*known;
    struct thread *thread = calloc(1, sizeof(*thread));
    uint64_t *place = map_put(&process->threads, (uint64_t)tid, NULL);
    if (!thread || !place || !own_new(a, thread->own, offsetof(struct analyzer, thread_bytes))) {
        a->failed = true;
        if (thread)
            own_free(thread->own);
        map_remove(&process->threads, (uint64_t)tid);
        free(thread);
        return NULL;
    }
    thread->process = process;
    thread->tid = tid;
    *place = (uint64_t)(uintptr_t)thread;
    return thread;
}

const char *process_name_of(const struct process *process, uint64_t name_id)
{
    const uint64_t *name = name_id ? map_get(&process->names, name_id) : NULL;
    return name ? (const char *)(uintptr_t)*name : NULL;
}

static void thread_free(struct analysis *a, struct thread *thread)
{
    ANALYZERS_CALL(a, thread_free, thread);
    activity_free(thread->activity);
    array_done(&thread->items);
    array_done(&thread->roots);
    array_done(&thread->answered);
    array_done(&thread->open);
    array_done(&thread->looks);
    map_done(&thread->async);
    map_done(&thread->contexts);
    free(thread->short_turns);
    own_free(thread->own);
    free(thread);
}

static void free_process(struct analysis *a, struct process *process)
{
    map_foreach (&process->threads, slot) {
        thread_free(a, (struct thread *)(uintptr_t)slot->value);
    }
    ANALYZERS_CALL(a, process_free, process);
    map_done(&process->names);
    map_done(&process->threads);
    map_done(&process->connections);
    map_done(&process->sessions);
    map_done(&process->endpoints);
    map_done(&process->submitters);
    map_done(&process->server_ports);
    free(process->encode_seen);
    own_free(process->own);
    free(process);
}

void processes_free(struct analysis *a)
{
    array_foreach (&a->all_processes, process)
        free_process(a, *process);
    array_done(&a->all_processes);
    map_done(&a->processes);
}

/* The processes that the sampler knows, and what it forgets, so that memory stays bounded. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "base/file.h"
#include "profile/busiest.h"
#include "profile/family.h"
#include "profile/outlier.h"

#define REFRESH_MIN_NS   (200 * NS_PER_MS)
#define REFRESH_YOUNG_NS (5 * NS_PER_MS)
#define COMPILED_REFRESH NS_PER_S
#define NOTED_LATE_NS    NS_PER_MS /* between what happens and the kernel's announcement of it */

bool sampler_in_cgroup(const char *wanted, pid_t pid)
{
    char path[64];
    _cleanup_(freep) char *text = NULL;
    snprintf(path, sizeof(path), "/proc/%d/cgroup", pid);
    return file_read(path, 1 << 16, &text, NULL) == 0 && strstr(text, wanted);
}

/* At first, its program alone may be mapped. */
static void note_unread(struct sampler *s, struct subject *process)
{
    for (unsigned language = 0; language < UNREAD_LANGUAGES; language++) {
        unsigned bit = 1u << language;
        if (process->unread & bit && !s->unread[language])
            s->unread[language] = process->pid;
        else if (process->noted & ~process->unread & bit && s->unread[language] == process->pid)
            s->unread[language] = 0;
    }
    process->noted = process->unread;
}

pid_t sampler_unread(const struct sampler *s, unsigned language)
{
    bool named = unread_languages[language].generates && !s->ends[END_UNKNOWN_CODE];
    return named ? 0 : s->unread[language];
}

/* What s->description has is told the kernel. */
static void publish_description(struct sampler *s, struct subject *process)
{
    note_unread(s, process);
    s->lacked_rows += process->lacks_rows && !process->lacked_rows;
    process->lacked_rows |= process->lacks_rows;
    s->description->serial = ++s->serial;
    s->description->pid = (uint32_t)process->pid;
    uint32_t key = (uint32_t)process->pid;
    int map = bpf_map__fd(s->bpf->maps.processes);
    if (bpf_map_update_elem(map, &key, s->description, BPF_ANY) < 0) /* an old one may be wrong */
        bpf_map_delete_elem(map, &key);
    process->published_ns = clock_monotonic_ns();
}

void sampler_publish(struct sampler *s, struct subject *process)
{
    if (subject_describe(s->namers, process, s->description) == 0)
        publish_description(s, process);
}

void sampler_ignore(struct sampler *s, pid_t pid)
{
    uint32_t key = (uint32_t)pid;
    memset(s->description, 0, sizeof(*s->description));
    s->description->ignored = 1;
    s->description->pid = key;
    bpf_map_update_elem(bpf_map__fd(s->bpf->maps.processes), &key, s->description, BPF_ANY);
}

void sampler_drop(struct sampler *s, pid_t pid)
{
    uint64_t *known = map_get(&s->processes, (uint64_t)pid);
    uint32_t key = (uint32_t)pid;
    bpf_map_delete_elem(bpf_map__fd(s->bpf->maps.processes), &key);
    if (!known)
        return;
    subject_free(s->namers, (struct subject *)(uintptr_t)*known);
    map_remove(&s->processes, (uint64_t)pid);
}

struct subject *sampler_known_process(struct sampler *s, pid_t pid)
{
    uint64_t *known = map_get(&s->processes, (uint64_t)pid);
    return known ? (struct subject *)(uintptr_t)*known : NULL;
}

static struct subject *keep(struct sampler *s, pid_t pid, struct subject *process)
{
    uint64_t *known = map_put(&s->processes, (uint64_t)pid, NULL);
    if (!known) {
        subject_free(s->namers, process);
        return NULL;
    }
    *known = (uintptr_t)process;
    if (process && !process->gone)
        publish_description(s, process);
    return process;
}

/* A process that could not be read, at time_ns: what the kernel announced of it, or, before it ran a program
 * of its own, its parent. */
static struct subject *ended_process(struct sampler *s, pid_t pid, uint64_t time_ns)
{
    struct sideband_process seen;
    struct mapping_note *notes;
    size_t count;
    struct subject *process;
    for (int i = 0; s->sideband && i < 4 && sideband_find(s->sideband, pid, &seen); i++) {
        bool own = seen.exec_ns && seen.exec_ns <= time_ns;
        if (own && sideband_notes(s->sideband, pid, &notes, &count) == 0) {
            int r = subject_open_ended(s->namers, pid, s->user, notes, count, &process);
            free(notes);
            return r < 0 ? NULL : keep(s, pid, process);
        }
        if (own || !seen.parent)
            return NULL;
        process = sampler_known_process(s, seen.parent);
        if (process)
            return process;
        pid = seen.parent;
    }
    return NULL;
}

struct subject *sampler_process_of(struct sampler *s, pid_t pid, uint64_t time_ns)
{
    struct sideband_process seen;
    struct subject *process = sampler_known_process(s, pid);
    if (process && !subject_is_lost(s->namers, process))
        return process;
    if (process)
        sampler_drop(s, pid);
    if (map_get(&s->processes, (uint64_t)pid) && !s->sideband)
        return NULL;
    /* What can be read is the program that it will run a moment later. */
    if (s->sideband && sideband_find(s->sideband, pid, &seen) && seen.next_exec_ns > time_ns)
        return ended_process(s, pid, time_ns);
    if (namers_has(s->namers, pid) || (s->options.cgroup && !sampler_in_cgroup(s->options.cgroup, pid))) {
        keep(s, pid, NULL);
        sampler_ignore(s, pid);
        return NULL;
    }
    if (subject_open(s->namers, pid, s->description, &process) == 0)
        return keep(s, pid, process);
    process = ended_process(s, pid, time_ns);
    if (!process)
        keep(s, pid, NULL);
    return process;
}

/* Is what can be read of it now what ran at time_ns, and is that wanted? */
static bool can_be_read(struct sampler *s, const struct sampler_newcomer *n)
{
    struct sideband_process seen;
    return !sampler_known_process(s, n->pid) && !namers_has(s->namers, n->pid) &&
           !(s->sideband && sideband_find(s->sideband, n->pid, &seen) && seen.next_exec_ns > n->time_ns) &&
           !(s->options.cgroup && !sampler_in_cgroup(s->options.cgroup, n->pid));
}

/* What was announced of a process is enough where all its files are known. The notes are for free(3). */
static bool was_announced(struct sampler *s, pid_t pid, struct mapping_note **ret_notes,
                          struct subject_seen *ret_seen)
{
    struct subject_seen seen = {.until_ns = s->announced_ns - MIN(s->announced_ns, (uint64_t)NOTED_LATE_NS)};
    if (!s->sideband || sideband_notes_ahead(s->sideband, pid, ret_notes, &seen.count) < 0)
        return false;
    seen.notes = *ret_notes;
    *ret_seen = seen;
    return true;
}

static int begin_open(struct sampler *s, const struct sampler_newcomer *n, struct subject **ret_subject)
{
    struct subject_seen seen;
    struct mapping_note *notes;
    char name[sizeof(n->sample->name) + 1] = "";
    if (!n->sample || !was_announced(s, n->pid, &notes, &seen))
        return subject_begin_open(s->namers, n->pid, NULL, ret_subject);
    memcpy(name, n->sample->name, sizeof(n->sample->name));
    seen.name = n->sample->tid == n->sample->pid && *name ? name : NULL;
    memcpy(seen.owner.users, n->sample->owner.users, sizeof(seen.owner.users));
    seen.owner.user_namespace = n->sample->owner.user_namespace;
    int r = subject_begin_open(s->namers, n->pid, &seen, ret_subject);
    free(notes);
    return r;
}

void sampler_meet(struct sampler *s, const struct sampler_newcomer *newcomers, size_t count)
{
    struct subject *begun[SAMPLER_NEWCOMERS] = {NULL};
    for (size_t i = 0; i < count; i++)
        if (!can_be_read(s, &newcomers[i]) || begin_open(s, &newcomers[i], &begun[i]) < 0)
            begun[i] = NULL;
    for (size_t i = 0; i < count; i++)
        if (begun[i] && subject_end_open(s->namers, begun[i], s->description) == 0)
            (void)keep(s, newcomers[i].pid, begun[i]);
    for (size_t i = 0; i < count; i++) {
        s->user = newcomers[i].user;
        if (!map_get(&s->processes, (uint64_t)newcomers[i].pid)) /* for another reason, or once more */
            (void)sampler_process_of(s, newcomers[i].pid, newcomers[i].time_ns);
    }
}

static void add_target(struct sampler *s, pid_t pid, uint32_t target)
{
    uint32_t key = (uint32_t)pid;
    bpf_map_update_elem(bpf_map__fd(s->bpf->maps.targets), &key, &target, BPF_ANY);
}

void sampler_add_command(struct sampler *s, pid_t pid)
{
    add_target(s, pid, TARGET_STARTS);
    s->command = pid;
}

const char *sampler_runtime(struct sampler *s, pid_t pid)
{
    struct subject *process = sampler_process_of(s, pid, clock_monotonic_ns());
    return process ? process->called : NULL;
}

/* What a process that has ended had mapped last, as the kernel has announced it until now. */
static void take_announced(struct sampler *s, struct subject *process)
{
    struct mapping_note *notes;
    size_t count;
    struct sideband_process seen;
    process->mapped = false;
    if (!s->sideband || !sideband_find(s->sideband, process->pid, &seen) || !seen.exec_ns ||
        sideband_notes(s->sideband, process->pid, &notes, &count) < 0)
        return;
    (void)subject_take(s->namers, process, notes, count);
    free(notes);
}

static void refresh(struct sampler *s, struct subject *process)
{
    struct subject_seen seen;
    struct mapping_note *notes = NULL;
    bool announced = was_announced(s, process->pid, &notes, &seen);
    int r = subject_refresh(s->namers, process, announced ? &seen : NULL, s->description);
    free(notes);
    if (r == 0)
        publish_description(s, process);
    if (r == 0 || r == -EPIPE) /* it is opened again when it is met again */
        return;
    take_announced(s, process); /* it ended since */
}

/* A young process loads its libraries: it is read again soon. An old one seldom changes. */
void sampler_refresh_if_due(struct sampler *s, struct subject *process)
{
    if (process->gone && process->mapped) /* it had ended when it was first seen; later samples know more */
        take_announced(s, process);
    if (process->gone)
        return;
    uint64_t now = clock_monotonic_ns(), age = now - process->loaded_ns, life = now - process->born_ns;
    if (process->mapped && process->loaded_ns < s->now_ns) { /* once in a batch of samples */
        refresh(s, process);
        return;
    }
    uint64_t pause = life / 4 < REFRESH_YOUNG_NS ? REFRESH_YOUNG_NS : MIN(life / 4, REFRESH_MIN_NS);
    if (process->compiles)
        pause = MIN(pause, REFRESH_MIN_NS / 4);
    if (!(process->refresh_wanted && age > pause) && !(process->compiles && age > COMPILED_REFRESH))
        return;
    refresh(s, process);
}

/* ---- the processes that are there already, read before the clock starts ---- */

/* The busiest of the whole machine: what is not known yet when it is met costs a copy of a stack for each
 * sample until then, which matters at high rates. */
#define READ_AHEAD_NS      NS_PER_S
#define READ_AHEAD_SLOW_NS (100 * NS_PER_MS)
#define READ_AHEAD_HZ      1000
#define READ_AHEAD_MAX     256

void sampler_read_ahead(struct sampler *s)
{
    bool fast = s->options.frequency > READ_AHEAD_HZ || s->options.event_period;
    uint64_t end = clock_monotonic_ns() + (fast ? READ_AHEAD_NS : READ_AHEAD_SLOW_NS);
    size_t count;
    pid_t *pids = busiest_processes(READ_AHEAD_MAX, &count);
    struct sampler_newcomer newcomers[SAMPLER_NEWCOMERS];
    for (size_t i = 0, some; pids && i < count && clock_monotonic_ns() < end; i += some) {
        for (some = 0; some < SAMPLER_NEWCOMERS && i + some < count; some++)
            newcomers[some] =
                (struct sampler_newcomer){.pid = pids[i + some], .time_ns = clock_monotonic_ns()};
        sampler_meet(s, newcomers, some);
    }
    free(pids);
}

int sampler_read_named(struct sampler *s, struct problem *problem)
{
    for (size_t i = 0; i < s->options.pid_count; i++) {
        pid_t pid = s->options.pids[i];
        if (sampler_process_of(s, pid, clock_monotonic_ns()))
            continue;
        bool gone = kill(pid, 0) < 0 && errno == ESRCH;
        return problem_set(problem, -ESRCH, "process %d: %s", pid,
                           gone ? strerror(ESRCH)
                                : "its mappings cannot be read: it is the kernel's, or not ours to see");
    }
    s->family = family_of(s->options.pids, s->options.pid_count, &s->family_count);
    if (!s->family)
        return problem_set(problem, -ENOMEM, "out of memory");
    for (size_t i = 0; i < s->family_count; i++)
        add_target(s, s->family[i], TARGET_RUNS);
    for (size_t i = s->options.pid_count; i < s->family_count && i < READ_AHEAD_MAX; i++)
        (void)sampler_process_of(s, s->family[i], clock_monotonic_ns());
    return 0;
}

/* Children that were forked before the kernel's half knew their parents. */
int sampler_add_newborn(struct sampler *s)
{
    size_t count;
    pid_t *family = family_of(s->family, s->family_count, &count);
    if (!family)
        return -ENOMEM;
    for (size_t i = s->family_count; i < count; i++) {
        add_target(s, family[i], TARGET_RUNS);
        (void)sampler_process_of(s, family[i], clock_monotonic_ns());
    }
    free(s->family);
    s->family = family;
    s->family_count = count;
    return 0;
}

/* ---- memory ---- */

#define TIDY_NS   (10 * NS_PER_S)
#define TRIM_KEEP (1u << 20)
#define SETTLE_NS NS_PER_S
#define ROOM_KEPT 8 /* that part of the room for rows is free for what comes next, where it can be */

/* Known although nothing has them mapped, so that their rows need not be read again. */
#define CLOSED_FILES 256

static bool has_ended(pid_t pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* The process or thread of a frame "NAME (NUMBER)" that ended: "NAME (ended)". */
static uint32_t ended_frame(void *context, struct profile *profile, uint32_t frame)
{
    struct sampler *s = context;
    char name[64], text[96];
    const char *old = profile_text(profile, profile->frames.at[frame].name);
    if (profile->frames.at[frame].kind != FRAME_GROUP)
        return frame;
    uint64_t number = profile_group_parts(old, name, sizeof(name));
    bool is_thread = strncmp(old, "thread ", 7) == 0;
    if (!number || !has_ended((pid_t)number))
        return frame;
    s->folded += !is_thread;
    snprintf(text, sizeof(text), "%s%s (" PROFILE_ENDED ")", is_thread ? "thread " : "", name);
    return profile_named_frame(profile, text, FRAME_GROUP);
}

static void fold_when_large(struct sampler *s, struct profile *profile)
{
    if (profile && profile->nodes.count > SAMPLER_NODES)
        (void)profile_fold(profile, SAMPLER_NODES / 2, ended_frame, s);
}

/* Their end may have been missed, or was met before their last sample. */
static void forget_ended(struct sampler *s)
{
    ARRAY(pid_t) pids = {0};
    map_foreach (&s->processes, slot)
        if (has_ended((pid_t)slot->key))
            (void)array_add(&pids, (pid_t)slot->key);
    array_foreach (&pids, pid)
        sampler_drop(s, *pid);
    array_done(&pids);
}

/* Whose namer has ended: what the kernel knows of them leads to rows that may be others' soon. */
static void forget_lost(struct sampler *s)
{
    ARRAY(pid_t) pids = {0};
    map_foreach (&s->processes, slot) {
        const struct subject *process = (const struct subject *)(uintptr_t)slot->value;
        if (process && subject_has_no_namer(s->namers, process))
            (void)array_add(&pids, (pid_t)slot->key);
    }
    array_foreach (&pids, pid)
        sampler_drop(s, *pid);
    array_done(&pids);
}

/* Children that were never met have their parent's description: of rows that may be others' soon. And nobody
 * would miss them when the news of their end was lost. */
static void forget_heirs(struct sampler *s)
{
    ARRAY(uint32_t) heirs = {0};
    int map = bpf_map__fd(s->bpf->maps.processes);
    uint32_t pid, *before = NULL;
    while (bpf_map_get_next_key(map, before, &pid) == 0) {
        before = &pid;
        if (!map_get(&s->processes, pid))
            (void)array_add(&heirs, pid);
    }
    array_foreach (&heirs, heir)
        bpf_map_delete_elem(map, heir);
    array_done(&heirs);
}

/* Files and processes come and go for hours, but the room for their rows is bounded: what was given back is
 * used again, and who found none gets what he lacked. */
void sampler_settle(struct sampler *s)
{
    bool lacked = s->tables.full && s->now_ns - s->made_room_ns > SAMPLER_ROOM_NS;
    uint32_t wanted = MAX(s->tables.row_limit / ROOM_KEPT, lacked ? s->tables.lacked : 0);
    /* Each process that the kernel's half knows is looked at then. */
    if (!lacked && s->now_ns - s->settled_ns < SETTLE_NS)
        return;
    s->settled_ns = s->now_ns;
    if (s->tables.given_rows.count || tables_room(&s->tables) < wanted) {
        forget_lost(s);
        forget_heirs(s);
    }
    tables_settle(&s->tables);
    while (tables_room(&s->tables) < wanted && namers_forget_oldest_rows(s->namers))
        tables_settle(&s->tables);
    if (!lacked)
        return;
    s->made_room_ns = s->now_ns;
    s->tables.full = false;
    s->tables.lacked = 0;
    map_foreach (&s->processes, slot) {
        struct subject *process = (struct subject *)(uintptr_t)slot->value;
        if (process && process->lacks_rows && !process->gone)
            sampler_publish(s, process);
    }
}

void sampler_tidy(struct sampler *s)
{
    fold_when_large(s, s->on);
    if (s->off != s->on)
        fold_when_large(s, s->off);
    if (s->now_ns - s->tidied_ns < TIDY_NS)
        return;
    s->tidied_ns = s->now_ns;
    forget_ended(s);
    forget_heirs(s);
    bool crowded = s->made_room_ns && s->now_ns - s->made_room_ns < TIDY_NS;
    namers_tidy(s->namers, crowded ? CLOSED_FILES / 8 : CLOSED_FILES);
    malloc_trim(TRIM_KEEP);
}

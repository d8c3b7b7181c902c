/* One sampled process, as the sampler knows it: what is asked of its namer. See namers.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namers_parts.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/proc.h"
#include "profile/runtime.h"

enum {
    STACKS_MAX = 2048, /* that are kept with their names */
    FRAMES_MAX = 16384,
    NOTES_MAX = 4096, /* bytes of what was announced of a process that is opened */
    ASK_MAX = 1 << 20 /* bytes: many copies of stacks; what is more than a message goes in a file */
};
#define MOVING_NS NS_PER_S /* how long names in a heap that moves are believed */

static void forget_stacks(struct subject *s)
{
    if (s->stacks.count)
        map_clear(&s->stacks);
    array_clear(&s->frames);
}

static void take_facts(struct subject *s, const struct answered *answered)
{
    memcpy(s->called, answered->head.called, sizeof(s->called));
    s->compiles = answered->head.compiles;
    s->unread = answered->head.unread;
}

static uid_t owner_of(pid_t pid)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", pid);
    return stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
}

static struct subject *new_subject(pid_t pid, struct namer *namer)
{
    struct subject *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->pid = pid;
    s->namer = namer;
    s->namer_number = namer->number;
    s->born_ns = s->loaded_ns = clock_monotonic_ns();
    return s;
}

void subject_free(struct namers *r, struct subject *s)
{
    if (!s)
        return;
    if (namers_numbered(r, s->namer_number)) {
        (void)array_add(&s->namer->dropped,
                        s->pid); /* else it stays known there until its number is used again */
        namers_give_rows(r, s->namer, s->rows.at, s->rows.count);
    }
    array_done(&s->rows);
    array_done(&s->frames);
    map_done(&s->stacks);
    free(s);
}

bool subject_has_no_namer(const struct namers *r, const struct subject *s)
{
    return !namers_numbered(r, s->namer_number);
}

bool subject_is_lost(const struct namers *r, struct subject *s)
{
    if (subject_has_no_namer(r, s))
        return true;
    if (s->gone || s->batch == r->batch)
        return false;
    uid_t owner = owner_of(s->pid);
    if (owner != s->owner && owner != (uid_t)-1)
        return true;
    s->batch = r->batch;
    return false;
}

static void add_notes(struct namers *r, const struct mapping_note *notes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *path = notes[i].path ? notes[i].path : "";
        const struct namer_note note = {.start = notes[i].start,
                                        .end = notes[i].end,
                                        .offset = notes[i].offset,
                                        .device = notes[i].device,
                                        .inode = notes[i].inode,
                                        .path_length = (uint32_t)strlen(path)};
        namers_add(r, &note, sizeof(note));
        namers_add(r, path, note.path_length);
    }
}

/* The questions of as many processes as may be begun fit into a socket together. */
static bool fits(const struct subject_seen *seen)
{
    size_t bytes = 0;
    for (size_t i = 0; i < seen->count; i++)
        bytes += sizeof(struct namer_note) + (seen->notes[i].path ? strlen(seen->notes[i].path) : 0);
    return bytes <= NOTES_MAX;
}

static int find_namer(struct namers *r, pid_t pid, struct namer **ret_namer)
{
    return kill(pid, 0) < 0 && errno == ESRCH ? -ESRCH : namers_find(r, pid, 0, ret_namer);
}

int subject_begin_open(struct namers *r, pid_t pid, const struct subject_seen *seen,
                       struct subject **ret_subject)
{
    bool noted = seen && seen->count && fits(seen);
    struct namer *namer = noted ? namers_of(r, &seen->owner) : NULL;
    bool known = namer;
    int result = known ? 0 : find_namer(r, pid, &namer);
    if (result < 0)
        return result;
    struct subject *s = new_subject(pid, namer);
    if (!s)
        return -ENOMEM;
    s->owner = known ? seen->owner.users[1] : owner_of(pid);
    s->batch = r->batch; /* that was looked at now */
    if (seen && seen->name) {
        snprintf(s->name, sizeof(s->name), "%.*s", (int)sizeof(s->name) - 1, seen->name);
        proc_make_printable(s->name);
    }
    if (noted)
        s->loaded_ns = seen->until_ns;
    namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_OPEN,
                                            .batch = r->batch,
                                            .count = noted ? (uint32_t)seen->count : 0});
    if (noted)
        add_notes(r, seen->notes, seen->count);
    result = namers_send(r, namer, pid);
    if (result < 0)
        subject_free(r, s);
    else
        *ret_subject = s;
    return result;
}

int subject_end_open(struct namers *r, struct subject *s, struct sampler_process *ret_description)
{
    struct answered answered;
    char name[PROC_NAME_BYTES];
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    int result =
        namers_numbered(r, s->namer_number) ? namers_receive(r, s->namer, s->pid, &answered) : -EPIPE;
    if (result == 0 && !answered.description)
        result = -EPROTO;
    if (result < 0) {
        subject_free(r, s);
        return result;
    }
    take_facts(s, &answered);
    if (!*s->name && proc_open(s->pid, &proc) == 0) {
        proc_read_name(proc, name);
        snprintf(s->name, sizeof(s->name), "%.*s", (int)sizeof(s->name) - 1, name);
    }
    namers_take_description(r, s, &answered, ret_description);
    return 0;
}

int subject_open(struct namers *r, pid_t pid, struct sampler_process *ret_description,
                 struct subject **ret_subject)
{
    struct subject *s;
    int result = subject_begin_open(r, pid, NULL, &s);
    if (result == 0)
        result = subject_end_open(r, s, ret_description);
    if (result == 0)
        *ret_subject = s;
    return result;
}

int subject_open_ended(struct namers *r, pid_t pid, uid_t user, const struct mapping_note *notes,
                       size_t count, struct subject **ret_subject)
{
    struct answered answered;
    struct namer *namer;
    int result = namers_find(r, 0, user, &namer);
    if (result < 0)
        return result;
    struct subject *s = new_subject(pid, namer);
    if (!s)
        return -ENOMEM;
    s->owner = owner_of(pid);
    s->gone = true;
    namers_begin_ask(
        r, &(struct namer_ask){.verb = NAMER_OPEN_ENDED, .batch = r->batch, .count = (uint32_t)count});
    add_notes(r, notes, count);
    result = namers_exchange(r, namer, pid, &answered);
    if (result < 0) {
        subject_free(r, s);
        return result;
    }
    take_facts(s, &answered);
    *ret_subject = s;
    return 0;
}

int subject_refresh(struct namers *r, struct subject *s, const struct subject_seen *seen,
                    struct sampler_process *ret_description)
{
    struct answered answered;
    bool noted = seen && seen->count && fits(seen);
    if (subject_is_lost(r, s))
        return -EPIPE;
    s->mapped = s->refresh_wanted = false;
    s->loaded_ns = noted ? seen->until_ns : clock_monotonic_ns();
    namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_REFRESH,
                                            .batch = r->batch,
                                            .count = noted ? (uint32_t)seen->count : 0});
    if (noted)
        add_notes(r, seen->notes, seen->count);
    int result = namers_exchange(r, s->namer, s->pid, &answered);
    if (result < 0)
        return result;
    forget_stacks(s);
    take_facts(s, &answered);
    if (!answered.description)
        return -ESRCH;
    namers_take_description(r, s, &answered, ret_description);
    return 0;
}

int subject_take(struct namers *r, struct subject *s, const struct mapping_note *notes, size_t count)
{
    struct answered answered;
    if (subject_is_lost(r, s))
        return -EPIPE;
    s->mapped = s->refresh_wanted = false;
    namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_TAKE, .batch = r->batch, .count = (uint32_t)count});
    add_notes(r, notes, count);
    int result = namers_exchange(r, s->namer, s->pid, &answered);
    if (result < 0)
        return result;
    forget_stacks(s);
    s->gone = true;
    return 0;
}

int subject_describe(struct namers *r, struct subject *s, struct sampler_process *ret_description)
{
    struct answered answered;
    if (subject_is_lost(r, s))
        return -EPIPE;
    namers_begin_ask(r, &(struct namer_ask){.verb = NAMER_DESCRIBE, .batch = r->batch});
    int result = namers_exchange(r, s->namer, s->pid, &answered);
    if (result < 0 || !answered.description)
        return result < 0 ? result : -ESRCH;
    namers_take_description(r, s, &answered, ret_description);
    return 0;
}

/* ---- stacks ---- */

/* A number of a frame as the id of one in the profile. */
static uint32_t frame_of(struct namer *namer, uint32_t number, struct profile *profile)
{
    if (number == 0 || number >= namer->frames.count)
        return 0;
    struct known_frame *known = &namer->frames.at[number];
    int place = known->of[0] == profile->serial ? 0 : 1;
    if (known->of[place] == profile->serial)
        return known->id[place];
    place = known->of[0] > known->of[1]; /* the older of the two: serials grow */
    const struct profile_frame frame = {
        .name = profile_string(profile, profile_text(namer->texts, known->name)),
        .file = profile_string(profile, profile_text(namer->texts, known->file)),
        .module = profile_string(profile, profile_text(namer->texts, known->module)),
        .line = known->line,
        .kind = (uint8_t)known->kind};
    known->of[place] = profile->serial;
    return known->id[place] = profile_add_frame(profile, &frame);
}

/* What a stack is called depends on all of its words, and how much the process had unloaded; how a copy is
 * walked, also on whose it is. */
static uint64_t stack_key(const struct namers_stack *stack)
{
    const struct sampler_sample *sample = stack->sample;
    size_t words = sample->user_words + (stack->walks ? 0 : (size_t)sample->python_words);
    const uint64_t parts[] = {map_hash(stack->words, words * 8),
                              (uint64_t)sample->user_words << 32 | sample->python_words, sample->unloads,
                              stack->walks ? (uint64_t)sample->tid << 1 | 1 : 0};
    return map_hash(parts, sizeof(parts));
}

/* Names of interpreters and of heaps that move are believed for a while; so are those of code that is
 * compiled. */
static bool passes(const struct namers_stack *stack)
{
    const struct sampler_sample *sample = stack->sample;
    if (stack->walks)
        return false;
    bool tagged = stack->subject->compiles || sample->python_words;
    for (uint32_t i = 0; i < sample->user_words && !tagged; i++)
        tagged = stack->words[i] >> SAMPLER_TAG_SHIFT;
    return tagged;
}

/* Before a stack is looked for among those that were named: what may be wrong is forgotten. */
static void forget_old(struct subject *s, const struct namers_stack *stack, uint64_t now_ns)
{
    bool full = s->stacks.count > STACKS_MAX || s->frames.count > FRAMES_MAX;
    if (!full && s->epoch == s->namer->epoch && !(now_ns - s->stacks_ns > MOVING_NS && passes(stack)))
        return;
    forget_stacks(s);
    s->epoch = s->namer->epoch;
    s->stacks_ns = now_ns;
}

/* What is kept of a stack: four numbers, and those of its frames. */
enum { KEPT_HEAD = 4 };

/* NULL: it has to be asked for. */
static const uint32_t *find_kept(const struct namers *r, const struct subject *s, uint64_t key)
{
    const uint64_t *at = map_get(&s->stacks, key);
    const uint32_t *kept = at ? &s->frames.at[*at] : NULL;
    bool unsettled = kept && kept[1];
    return unsettled && kept[2] != r->batch ? NULL : kept;
}

static void keep_stack(const struct namers *r, struct subject *s, uint64_t key,
                       const struct namer_stack *stack, const uint8_t *numbers)
{
    size_t at = s->frames.count, count = KEPT_HEAD + (size_t)stack->count;
    uint64_t *place = array_reserve(&s->frames, at + count) == 0 ? map_put(&s->stacks, key, NULL) : NULL;
    if (!place)
        return;
    uint32_t *kept = &s->frames.at[at];
    kept[0] = stack->runtime | (uint32_t)stack->end << 8 | (uint32_t)stack->walked << 16;
    kept[1] = stack->unsettled;
    kept[2] = r->batch;
    kept[3] = stack->count;
    memcpy(&kept[KEPT_HEAD], numbers, stack->count * sizeof(*kept));
    s->frames.count = at + count;
    *place = at;
}

/* ---- asking for many at once ---- */

struct wanted {
    struct subject *subject;
    uint64_t key;
};

static size_t item_words(const struct namers_stack *stack)
{
    return stack->sample->user_words + (stack->walks ? 0 : (size_t)stack->sample->python_words);
}

static void add_item(struct namers *r, const struct namers_stack *stack)
{
    size_t bytes = item_words(stack) * sizeof(*stack->words);
    const struct namer_item item = {.pid = stack->subject->pid,
                                    .walks = stack->walks,
                                    .length = (uint32_t)(sizeof(*stack->sample) + bytes)};
    namers_add(r, &item, sizeof(item));
    namers_add(r, stack->sample, sizeof(*stack->sample));
    namers_add(r, stack->words, bytes);
}

/* Adds those that come next to the question, as far as they are for the same namer and not known yet. How
 * many there are then. */
static uint32_t add_next(struct namers *r, const struct namer *namer, uint64_t now_ns,
                         struct wanted wanted[NAMER_STACKS_MAX])
{
    struct namers_stack next;
    uint32_t count = 1;
    size_t at = 0;
    bool added = true;
    map_clear(&r->asked);
    (void)map_put(&r->asked, wanted[0].key ^ (uint64_t)wanted[0].subject->pid << 32, NULL);
    while (count < NAMER_STACKS_MAX && r->next && r->next(r->context, &at, &next)) {
        if (next.subject->namer_number != namer->number)
            continue;
        size_t bytes =
            sizeof(struct namer_item) + sizeof(*next.sample) + item_words(&next) * sizeof(*next.words);
        if (r->ask.length + bytes > ASK_MAX)
            break;
        const struct wanted one = {next.subject, stack_key(&next)};
        forget_old(one.subject, &next, now_ns);
        if (find_kept(r, one.subject, one.key))
            continue;
        if (!map_put(&r->asked, one.key ^ (uint64_t)one.subject->pid << 32, &added))
            break;
        if (!added)
            continue;
        add_item(r, &next);
        wanted[count++] = one;
    }
    return count;
}

/* The namer's stacks are kept with their processes. */
static void keep_answers(struct namers *r, const struct wanted *wanted, uint32_t count)
{
    const uint8_t *at = (const uint8_t *)r->stacks.at;
    for (uint32_t i = 0; i < count; i++) {
        struct namer_stack stack;
        struct subject *s = wanted[i].subject;
        memcpy(&stack, at, sizeof(stack)); /* take_answer() has found them whole */
        at += sizeof(stack);
        if (stack.known) {
            s->refresh_wanted |= stack.refresh_wanted;
            if (s->epoch != s->namer->epoch) {
                forget_stacks(s);
                s->epoch = s->namer->epoch;
            }
            keep_stack(r, s, wanted[i].key, &stack, at);
        }
        at += stack.count * sizeof(uint32_t);
    }
}

static int ask_for(struct namers *r, const struct namers_stack *stack, uint64_t key, uint64_t now_ns)
{
    struct wanted wanted[NAMER_STACKS_MAX] = {{stack->subject, key}};
    struct namer *namer = stack->subject->namer;
    struct answered answered;
    struct namer_ask ask = {.verb = NAMER_NAME, .batch = r->batch, .now_ns = now_ns};
    namers_begin_ask(r, &ask);
    add_item(r, stack);
    ask.count = add_next(r, namer, now_ns, wanted);
    if (r->ask.failed)
        return -ENOMEM;
    memcpy(r->ask.at, &ask, sizeof(ask));
    int result = namers_exchange(r, namer, 0, &answered);
    if (result < 0)
        return result;
    text_clear(&r->stacks);
    text_add_bytes(&r->stacks, (const char *)answered.stacks, answered.stacks_length);
    if (namer->frames.count < answered.head.frames)
        result = namers_take_more(r, namer, 0);
    if (result == 0 && r->stacks.failed)
        result = -ENOMEM;
    if (result == 0)
        keep_answers(r, wanted, MIN(answered.head.stacks, ask.count));
    return result;
}

/* False: nothing is known of it. */
static bool name_stack(struct namers *r, const struct namers_stack *stack, struct profile *profile,
                       uint64_t now_ns, struct process_stack *ret_stack, enum sampler_end *ret_walked)
{
    struct subject *s = stack->subject;
    if (subject_is_lost(r, s))
        return false;
    forget_old(s, stack, now_ns);
    uint64_t key = stack_key(stack);
    const uint32_t *kept = find_kept(r, s, key);
    if (!kept && ask_for(r, stack, key, now_ns) == 0)
        kept = find_kept(r, s, key);
    if (!kept)
        return false;
    ret_stack->runtime = (enum profile_frame_kind)(kept[0] & 0xff);
    ret_stack->end = (enum sampler_end)(kept[0] >> 8 & 0xff);
    *ret_walked = (enum sampler_end)(kept[0] >> 16);
    for (uint32_t i = 0; i < kept[3]; i++) {
        uint32_t frame = frame_of(s->namer, kept[KEPT_HEAD + i], profile);
        if (frame) /* else it is none that the namer has named */
            process_put(ret_stack, frame);
    }
    return true;
}

void subject_name(struct namers *r, struct subject *s, struct profile *profile,
                  const struct sampler_sample *sample, const uint64_t *user, uint64_t now_ns,
                  struct process_stack *ret_stack)
{
    const struct namers_stack stack = {s, sample, user, false};
    enum sampler_end walked;
    if (!name_stack(r, &stack, profile, now_ns, ret_stack, &walked))
        ret_stack->end = END_GONE;
}

void subject_walk(struct namers *r, struct subject *s, struct profile *profile,
                  const struct sampler_sample *sample, const uint64_t *words, uint64_t now_ns,
                  struct process_stack *ret_stack, enum sampler_end *ret_end)
{
    const struct namers_stack stack = {s, sample, words, true};
    if (!name_stack(r, &stack, profile, now_ns, ret_stack, ret_end))
        *ret_end = END_GONE;
}

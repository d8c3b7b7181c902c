/* What the sampler takes of who names stacks, who may have been taken over: nothing that breaks the rules,
 * and nothing of another one's processes. The liar is a process of its own here, as the worker is. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/namers.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "broker/protocol.h"
#include "test.h"

enum { ROWS = 4096 };

/* Two processes that there are. */
#define OF_A getpid()
#define OF_B getppid()

/* What it answers to the question of that verb: an answer with what comes behind it. */
struct lie {
    struct namer_answer head;
    struct namer_stack stack;
    struct namer_frame frame;
    char name[32], module[8];
    struct sampler_process description;
    struct unwind_row rows[4];
    bool silent; /* it ends instead */
    bool hangs;  /* it never answers */
    int result;  /* of its work */
};

static struct lie lies[2]; /* of the one for A and the one for B */
static int ended, failed;

/* How often each was asked for names, and for how many at last; how many messages came, and which process the
 * last question said to forget, of how many. Shared with them. */
static struct {
    unsigned questions, stacks, messages, dropped;
    int32_t last_dropped;
} * asked;

static _Noreturn void answer(int socket, struct lie *lie)
{
    static char bytes[BROKER_BYTES_MAX];
    struct broker_head head = {.verb = BROKER_RESULT};
    struct unwind_row *rows = NULL;
    int fd = -1;
    bool said = false;
    (void)broker_send(socket, head, NULL, 0, -1);
    while (broker_receive(socket, &head, bytes, sizeof(bytes), &fd) >= 0) {
        asked[lie - lies].messages++;
        if (head.verb == BROKER_GRANT) {
            rows = mmap(NULL, ROWS * sizeof(*rows), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
            memcpy(rows + 1, lie->rows, sizeof(lie->rows));
        }
        if (head.verb != BROKER_WORK)
            continue;
        if (lie->silent)
            break;
        if (lie->hangs)
            continue;
        struct namer_ask ask;
        char out[sizeof(struct lie) + 8 * sizeof(struct namer_stack)];
        size_t length = 0;
        uint32_t number = 1;
        struct namer_answer now = lie->head;
        memcpy(&ask, bytes, sizeof(ask));
        asked[lie - lies].dropped = ask.dropped;
        if (ask.dropped)
            memcpy(&asked[lie - lies].last_dropped, bytes + head.length - sizeof(int32_t), sizeof(int32_t));
        bool names = ask.verb == NAMER_NAME, opens = ask.verb == NAMER_OPEN || ask.verb == NAMER_REFRESH;
        now.stacks = !names ? 0 : lie->head.stacks == 1 ? MIN(ask.count, 4u) : lie->head.stacks;
        if (names) {
            asked[lie - lies].questions++;
            asked[lie - lies].stacks = ask.count;
        }
        if (!names || said) {
            now.count = 0;
            now.first = said ? now.frames : 1;
            now.frames = now.first;
        }
        now.described = opens;
        memcpy(out, &now, sizeof(now));
        length += sizeof(now);
        for (uint32_t i = 0; i < now.stacks && i < 4; i++) {
            memcpy(out + length, &lie->stack, sizeof(lie->stack));
            memcpy(out + length + sizeof(lie->stack), &number, sizeof(number));
            length += sizeof(lie->stack) + sizeof(number);
        }
        if (now.count) {
            const void *const parts[] = {&lie->frame, lie->name, lie->module};
            const size_t sizes[] = {sizeof(lie->frame), strlen(lie->name), strlen(lie->module)};
            for (int i = 0; i < 3; length += sizes[i++])
                memcpy(out + length, parts[i], sizes[i]);
            said = true;
        }
        if (opens) {
            memcpy(out + length, &lie->description, sizeof(lie->description));
            length += sizeof(lie->description);
        }
        const struct broker_head result = {
            .verb = BROKER_RESULT, .target = head.target, .result = lie->result};
        (void)broker_send(socket, result, out, length, -1);
    }
    _exit(0);
}

static int begin(uint32_t number, struct lent_worker *ret_worker)
{
    static bool there[3];
    int pair[2];
    *ret_worker = (struct lent_worker){.number = number, .socket = -1, .owner = {{1, 1, 1, 1}, 4 + number}};
    if (there[number] && !(ended & 1 << number))
        return 0;
    if (ended & 1 << number) {
        ended &= ~(1 << number);
        there[number] = false;
        return -EAGAIN;
    }
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        answer(pair[1], &lies[number - 1]);
    }
    close(pair[1]);
    there[number] = true;
    ret_worker->pid = pid;
    ret_worker->socket = pair[0];
    return 0;
}

static int worker(pid_t pid, struct lent_worker *ret_worker)
{
    return begin(pid == OF_A ? 1 : 2, ret_worker);
}

static int worker_of_ended(uid_t user, struct lent_worker *ret_worker)
{
    return -EUSERS;
}

static void end(uint32_t number, bool has_failed)
{
    ended |= 1 << number;
    failed += has_failed;
}

static const struct namers_source source = {worker, worker_of_ended, end};

static struct tables tables;
static struct namers *namers;
static struct profile *profile;

/* Both say the truth: a frame, two rows that a mapping leads to. */
static void tell_the_truth(struct lie *lie, const char *name, short offset)
{
    *lie = (struct lie){
        .head = {.epoch = 1, .frames = 2, .first = 1, .count = 1, .stacks = 1},
        .stack = {.count = 1, .known = 1},
        .frame = {.name_length = (uint16_t)strlen(name), .module_length = 3},
        .module = "mod",
        .description =
            {.count = 1,
             .mappings[0] = {.start = 0x1000, .end = 0x2000, .rows_low = 1, .rows_high = 3, .serial = 7}},
        .rows = {{.pc = 0, .cfa_offset = offset}, {.pc = 64, .cfa_offset = offset}}};
    strcpy(lie->name, name);
}

static void begin_where(bool lazy)
{
    const struct namer_options options = {.row_limit = ROWS, .lazy = lazy};
    tables = (struct tables){.row_limit = ROWS, .page_limit = ROWS};
    tables_init(&tables, calloc(ROWS, sizeof(struct unwind_row)), calloc(ROWS, sizeof(uint64_t)));
    assert_int_equal(namers_new(&options, &tables, &namers), 0);
    namers_take_from(namers, &source);
    assert_int_equal(profile_new(&profile), 0);
    tell_the_truth(&lies[0], "of_a", 16);
    tell_the_truth(&lies[1], "of_b", 32);
    failed = 0;
}

static void begin_both(void)
{
    begin_where(false);
}

static void end_both(struct subject *a, struct subject *b)
{
    subject_free(namers, a);
    subject_free(namers, b);
    namers_free(namers);
    profile_free(profile);
    free(tables.rows);
    free(tables.pages);
    tables_done(&tables);
    ended = 6; /* the next one begins afresh */
    struct lent_worker none;
    (void)begin(1, &none);
    (void)begin(2, &none);
}

/* What the sample's one frame is called; NULL: it has no name. */
static const char *named(struct subject *s, uint64_t pc)
{
    static struct process_stack stack;
    const struct sampler_sample sample = {.pid = (uint32_t)s->pid, .user_words = 1};
    stack.count = 0;
    subject_name(namers, s, profile, &sample, &pc, 1, &stack);
    return stack.count ? profile_text(profile, profile->frames.at[stack.frames[0]].name) : NULL;
}

static void the_truth_is_taken(void **state)
{
    static struct sampler_process of_a, of_b;
    struct subject *a, *b;
    begin_both();
    assert_int_equal(subject_open(namers, OF_A, &of_a, &a), 0);
    assert_int_equal(subject_open(namers, OF_B, &of_b, &b), 0);
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_string_equal(named(b, 0x1010), "of_b");
    assert_string_equal(named(a, 0x1010), "of_a");
    /* Each has rows of its own, although both call them the same. */
    assert_int_equal(of_a.count, 1);
    assert_int_not_equal(of_a.mappings[0].rows_low, of_b.mappings[0].rows_low);
    assert_int_equal(tables.rows[of_a.mappings[0].rows_low].cfa_offset, 16);
    assert_int_equal(tables.rows[of_b.mappings[0].rows_low].cfa_offset, 32);
    assert_int_equal(tables.rows_used, 4);
    end_both(a, b);
    assert_int_equal(failed, 0);
}

static void run_out_of_memory(struct lie *lie);

/* Of A is said what breaks the rules: its namer is ended, and B's goes on. */
static void ends_a(void (*change)(struct lie *lie), bool opens)
{
    struct subject *a = NULL, *b;
    static struct sampler_process of_b;
    begin_both();
    change(&lies[0]);
    assert_int_equal(subject_open(namers, OF_B, &of_b, &b), 0);
    int r = subject_open(namers, OF_A, NULL, &a);
    assert_int_equal(r < 0, opens);
    if (!opens) {
        assert_null(named(a, 0x1010));
        assert_true(subject_is_lost(namers, a));
    }
    assert_int_equal(failed, 1);
    const struct namers_counts counts = namers_counts(namers);
    assert_int_equal(counts.short_of_memory, change == run_out_of_memory);
    assert_int_equal(counts.failed, change != run_out_of_memory);
    assert_false(subject_is_lost(namers, b));
    assert_string_equal(named(b, 0x1010), "of_b");
    assert_int_equal(tables.rows[of_b.mappings[0].rows_low].cfa_offset, 32);
    end_both(a, b);
}

static void claim_a_process(struct lie *lie)
{
    lie->frame.kind = FRAME_GROUP;
}
static void claim_the_kernel(struct lie *lie)
{
    lie->frame.kind = FRAME_KERNEL;
}
static void claim_a_long_stack(struct lie *lie)
{
    lie->stack.count = UINT32_MAX;
}
static void claim_many_stacks(struct lie *lie)
{
    lie->head.stacks = UINT32_MAX;
}
static void claim_more_stacks_than_follow(struct lie *lie)
{
    lie->head.stacks = 7;
}
static void claim_a_runtime(struct lie *lie)
{
    lie->stack.runtime = FRAME_KINDS;
}
static void claim_many_frames(struct lie *lie)
{
    lie->head.frames = lie->head.count = UINT32_MAX;
}
static void claim_a_long_name(struct lie *lie)
{
    lie->frame.name_length = UINT16_MAX;
}
static void claim_an_end(struct lie *lie)
{
    lie->stack.end = END_REASONS;
}
static void claim_an_end_of_walking(struct lie *lie)
{
    lie->stack.walked = END_KERNEL;
}
static void run_out_of_memory(struct lie *lie)
{
    lie->result = -ENOMEM;
}
static void end_itself(struct lie *lie)
{
    lie->silent = true;
}

static void what_breaks_the_rules_ends_it(void **state)
{
    ends_a(claim_a_process, false);
    ends_a(claim_the_kernel, false);
    ends_a(claim_a_long_stack, false);
    ends_a(claim_many_frames, false);
    ends_a(claim_a_long_name, false);
    ends_a(claim_many_stacks, false);
    ends_a(claim_more_stacks_than_follow, false);
    ends_a(claim_a_runtime, false);
    ends_a(claim_an_end, false);
    ends_a(claim_an_end_of_walking, false);
    ends_a(run_out_of_memory, true);
    ends_a(end_itself, true);
}

/* Who wants to end waits for no answer that does not come, and that is no fault of who was asked. */
static void an_end_is_not_waited_for(void **state)
{
    struct subject *a, *b, *none;
    begin_both();
    assert_int_equal(subject_open(namers, OF_B, NULL, &b), 0);
    lies[0].hangs = true;
    namers_end_soon(namers);
    assert_string_equal(named(b, 0x1010), "of_b"); /* an answer that comes is taken */
    assert_true(subject_open(namers, OF_A, NULL, &a) < 0);
    const struct namers_counts counts = namers_counts(namers);
    assert_int_equal(counts.too_late, 1);
    assert_int_equal(counts.failed, 0);
    assert_int_equal(failed, 0);
    while (subject_open(namers, OF_B, NULL, &none) == 0) /* until all of the time is over */
        subject_free(namers, none);
    assert_true(namers_counts(namers).too_late >= 2);
    end_both(NULL, b);
}

/* Rows out of the memory that is shared, rows that end before they begin, more mappings than there may be. */
static void rows_of_others_are_not_reached(void **state)
{
    const struct sampler_mapping claims[] = {{.rows_low = 1, .rows_high = ROWS + 1, .serial = 8},
                                             {.rows_low = 5, .rows_high = 3, .serial = 9},
                                             {.rows_low = UINT32_MAX - 1, .rows_high = UINT32_MAX},
                                             {.page_base = 1, .page_first = 77}};
    static struct sampler_process of_a, of_b;
    struct subject *a, *b;
    begin_both();
    assert_int_equal(subject_open(namers, OF_B, &of_b, &b), 0);
    lies[0].description.count = UINT32_MAX;
    lies[0].description.ignored = lies[0].description.serial = 1;
    memcpy(lies[0].description.mappings, claims, sizeof(claims));
    assert_int_equal(subject_open(namers, OF_A, &of_a, &a), 0);
    assert_int_equal(of_a.count, SAMPLER_MAPPINGS);
    assert_int_equal(of_a.ignored + of_a.serial, 0);
    for (uint32_t i = 0; i < of_a.count; i++) {
        assert_int_equal(of_a.mappings[i].rows_low, 0);
        assert_int_equal(of_a.mappings[i].rows_high, 0);
        assert_int_equal(of_a.mappings[i].page_base, 0);
    }
    assert_int_equal(tables.rows_used, 2); /* B's */
    end_both(a, b);
}

static void rows_are_given_back(void **state)
{
    static struct sampler_process of_a, as_before;
    struct subject *a, *again;
    begin_both();
    assert_int_equal(subject_open(namers, OF_A, &of_a, &a), 0);
    assert_int_equal(subject_open(namers, OF_A, NULL, &again), 0);
    assert_int_equal(tables.rows_used, 2); /* shared by processes of one domain */
    subject_free(namers, a);
    assert_int_equal(tables.rows_used, 2);
    assert_false(namers_forget_oldest_rows(namers)); /* they are used */
    assert_int_equal(tables.rows_used, 2);
    subject_free(namers, again);
    assert_int_equal(tables.rows_used, 2); /* for the next process that maps the file */
    assert_int_equal(subject_open(namers, OF_A, &as_before, &again), 0);
    assert_int_equal(tables.rows_used, 2);
    assert_int_equal(tables.given_rows.count, 0);
    assert_int_equal(as_before.mappings[0].rows_low, of_a.mappings[0].rows_low);
    assert_true(as_before.mappings[0].rows_high > as_before.mappings[0].rows_low);
    subject_free(namers, again);
    assert_true(namers_forget_oldest_rows(namers));
    assert_int_equal(tables.rows_used, 0);
    assert_int_equal(tables.given_rows.count, 1); /* until nobody in the kernel reads them */
    end_both(NULL, NULL);
}

/* What was not used for the longest time, whoever it is of. */
static void the_oldest_rows_go_first(void **state)
{
    static struct sampler_process of_a, again;
    struct subject *a, *b;
    begin_both();
    assert_int_equal(subject_open(namers, OF_A, &of_a, &a), 0);
    assert_int_equal(subject_open(namers, OF_B, NULL, &b), 0);
    subject_free(namers, a);
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    subject_free(namers, b);
    subject_free(namers, a);
    assert_true(namers_forget_oldest_rows(namers));
    assert_int_equal(subject_open(namers, OF_A, &again, &a), 0);
    assert_int_equal(again.mappings[0].rows_low, of_a.mappings[0].rows_low);
    assert_int_equal(tables.rows_used, 2);
    end_both(a, NULL);
}

/* How code is walked whose rows find no room. */
static enum sampler_code without_room(bool lazy, uint64_t key_address)
{
    static struct sampler_process of_a;
    struct subject *a;
    begin_where(lazy);
    lies[0].description.python.key_address = key_address;
    assert_int_not_equal(tables_take(&tables, ROWS - 2), 0);
    assert_int_equal(subject_open(namers, OF_A, &of_a, &a), 0);
    assert_true(a->lacks_rows);
    assert_int_equal(of_a.mappings[0].rows_low, 0);
    assert_int_equal(tables.lacked, 2);
    end_both(a, NULL);
    return (enum sampler_code)of_a.mappings[0].code;
}

static void without_room_few_stacks_are_copied(void **state)
{
    assert_int_equal(without_room(true, 0), CODE_UNMET);
    assert_int_equal(without_room(true, 0x1000), CODE_POINTER); /* a copy would lack Python's frames */
    assert_int_equal(without_room(false, 0), CODE_POINTER);
}

/* ---- what comes next ---- */

static struct {
    struct subject *subject;
    uint64_t pc;
} coming[8];
static size_t coming_count;

static bool next(void *context, size_t *at, struct namers_stack *ret_stack)
{
    static struct sampler_sample samples[ARRAY_SIZE(coming)];
    if (*at >= coming_count)
        return false;
    struct subject *s = coming[*at].subject;
    samples[*at] = (struct sampler_sample){.pid = (uint32_t)s->pid, .user_words = 1};
    *ret_stack = (struct namers_stack){s, &samples[*at], &coming[*at].pc, false};
    ++*at;
    return true;
}

static void what_comes_next_is_asked_for_at_once(void **state)
{
    struct subject *a, *b;
    begin_both();
    namers_look_ahead(namers, next, NULL, NULL);
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    assert_int_equal(subject_open(namers, OF_B, NULL, &b), 0);
    memset(asked, 0, 2 * sizeof(*asked));
    coming_count = 0;
    const uint64_t of_a[] = {0x1010, 0x1020, 0x1030, 0x1020};
    for (size_t i = 0; i < ARRAY_SIZE(of_a); i++) {
        coming[coming_count].subject = a;
        coming[coming_count++].pc = of_a[i];
    }
    coming[coming_count].subject = b;
    coming[coming_count++].pc = 0x1040;
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_int_equal(asked[0].questions, 1);
    assert_int_equal(asked[0].stacks, 3); /* each once, and none of B's */
    assert_string_equal(named(a, 0x1020), "of_a");
    assert_string_equal(named(a, 0x1030), "of_a");
    assert_int_equal(asked[0].questions, 1);
    assert_int_equal(asked[1].questions, 0);
    assert_string_equal(named(b, 0x1040), "of_b");
    assert_int_equal(asked[1].stacks, 1); /* A's are known */
    /* What was read of it before is old: it is asked for again. */
    assert_int_equal(subject_refresh(namers, a, NULL, NULL), 0);
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_int_equal(asked[0].questions, 2);
    assert_int_equal(asked[0].stacks, 3);
    end_both(a, b);
    assert_int_equal(failed, 0);
}

/* It would be woken for each otherwise. */
static void an_end_is_told_with_the_next_question(void **state)
{
    struct subject *a, *other;
    begin_both();
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    memset(asked, 0, 2 * sizeof(*asked));
    subject_free(namers, a);
    assert_int_equal(subject_open(namers, OF_A, NULL, &other), 0);
    assert_int_equal(asked[0].messages, 1);
    assert_int_equal(asked[0].dropped, 1);
    assert_int_equal(asked[0].last_dropped, OF_A);
    assert_string_equal(named(other, 0x1010), "of_a");
    assert_int_equal(asked[0].dropped, 0); /* once is enough */
    subject_free(namers, other);
    namers_tidy(namers, 0); /* where nothing else is asked */
    assert_int_equal(asked[0].dropped, 1);
    end_both(NULL, NULL);
    assert_int_equal(failed, 0);
}

/* A name that is another one soon is the present batch's alone. */
static void what_is_not_settled_is_asked_for_again(void **state)
{
    struct subject *a;
    begin_both();
    lies[0].stack.unsettled = 1;
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    memset(asked, 0, 2 * sizeof(*asked));
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_int_equal(asked[0].questions, 1);
    namers_begin_batch(namers);
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_int_equal(asked[0].questions, 2);
    end_both(a, NULL);
}

/* The namer does not know the process (any more): its stack has no name. */
static void what_is_not_known_has_no_name(void **state)
{
    struct subject *a;
    begin_both();
    lies[0].stack.known = 0;
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    assert_null(named(a, 0x1010));
    assert_false(subject_is_lost(namers, a));
    end_both(a, NULL);
    assert_int_equal(failed, 0);
}

/* ---- many at once ---- */

static void several_are_begun_before_one_has_answered(void **state)
{
    static struct sampler_process of_a, of_b;
    struct subject *a, *b, *other;
    begin_both();
    assert_int_equal(subject_begin_open(namers, OF_A, NULL, &a), 0);
    assert_int_equal(subject_begin_open(namers, OF_B, NULL, &b), 0);
    assert_int_equal(subject_begin_open(namers, 1, NULL, &other), 0); /* of B's domain */
    assert_int_equal(subject_end_open(namers, a, &of_a), 0);
    assert_int_equal(subject_end_open(namers, b, &of_b), 0);
    assert_int_equal(subject_end_open(namers, other, NULL), 0);
    assert_int_equal(tables.rows[of_a.mappings[0].rows_low].cfa_offset, 16);
    assert_int_equal(tables.rows[of_b.mappings[0].rows_low].cfa_offset, 32);
    assert_string_equal(named(a, 0x1010), "of_a");
    assert_string_equal(named(other, 0x1010), "of_b");
    subject_free(namers, other);
    end_both(a, b);
    assert_int_equal(failed, 0);
}

/* Who runs a program of known files need not be there any more; whose it is, the kernel has said. */
static void what_was_seen_of_a_process_goes_to_its_domain(void **state)
{
    enum { NOBODY = 0x7fffff00 }; /* no process has such a number */
    struct mapping_note note = {
        .start = 0x1000, .end = 0x2000, .device = 1, .inode = 2, .path = "/bin/program"};
    struct subject_seen seen = {{{1, 1, 1, 1}, 6}, "seen", &note, 1, 17};
    struct subject *a, *b, *other;
    char path[8192];
    begin_both();
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other),
                     -ESRCH); /* there is no namer of it yet */
    assert_int_equal(subject_open(namers, OF_A, NULL, &a), 0);
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other), -ESRCH);
    assert_int_equal(subject_open(namers, OF_B, NULL, &b), 0);
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other), 0);
    assert_int_equal(subject_end_open(namers, other, NULL), 0);
    assert_string_equal(named(other, 0x1010), "of_b");
    assert_string_equal(other->name, "seen");
    assert_int_equal(other->loaded_ns, 17);
    subject_free(namers, other);
    seen.owner.users[2] = 0;
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other), -ESRCH);
    seen.owner.users[2] = 1;
    seen.count = 0;
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other), -ESRCH);
    seen.count = 1;
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    note.path = path; /* more than fits beside others */
    assert_int_equal(subject_begin_open(namers, NOBODY, &seen, &other), -ESRCH);
    end_both(a, b);
    assert_int_equal(failed, 0);
}

/* The first answer does not come: none of its other processes has one, and another namer's has its own. */
static void those_of_one_that_ends_are_lost_together(void **state)
{
    struct subject *a, *b, *other;
    begin_both();
    lies[1].silent = true;
    assert_int_equal(subject_begin_open(namers, OF_B, NULL, &b), 0);
    assert_int_equal(subject_begin_open(namers, OF_A, NULL, &a), 0);
    if (subject_begin_open(namers, 1, NULL, &other) < 0) /* it may have ended by then */
        other = NULL;
    assert_true(subject_end_open(namers, b, NULL) < 0);
    assert_int_equal(subject_end_open(namers, a, NULL), 0);
    assert_true(!other || subject_end_open(namers, other, NULL) < 0);
    assert_string_equal(named(a, 0x1010), "of_a");
    end_both(a, NULL);
    assert_int_equal(failed, 1);
}

/* ---- rows that are read when a stack leads into the file ---- */

static void begin_lazily(struct subject **ret_a, struct sampler_process *ret_description)
{
    begin_where(true);
    lies[0].description.mappings[0] =
        (struct sampler_mapping){.start = 0x1000, .end = 0x2000, .code = CODE_UNMET};
    assert_int_equal(subject_open(namers, OF_A, ret_description, ret_a), 0);
}

static void after_a_copy_was_walked_more_may_be_known(void **state)
{
    static struct sampler_process of_a;
    static struct process_stack stack;
    struct subject *a;
    begin_lazily(&a, &of_a);
    assert_int_equal(of_a.count, 1);
    assert_int_equal(of_a.mappings[0].code, CODE_UNMET);
    assert_string_equal(named(a, 0x1010), "of_a");
    const uint64_t words[] = {0x1010, 0x7000, 0x7100, 0};
    const struct sampler_sample copy = {.pid = (uint32_t)a->pid, .user_words = 4, .kind = SAMPLE_COPY};
    enum sampler_end end;
    stack.count = 0;
    subject_walk(namers, a, profile, &copy, words, 1, &stack, &end);
    assert_int_equal(stack.count, 1);
    end_both(a, NULL);
    assert_int_equal(failed, 0);
}

/* Where few samples are taken, a namer that is not asked only takes memory. */
static void one_that_is_idle_is_ended(void **state)
{
    struct subject *a, *again;
    static struct sampler_process of_a;
    begin_lazily(&a, &of_a);
    namers_tidy(namers, 0);
    assert_int_equal(namers_counts(namers).namers, 1);
    assert_false(subject_has_no_namer(namers, a));
    namers_end_idle_after(namers, 0);
    namers_tidy(namers, 0);
    assert_int_equal(namers_counts(namers).namers, 0);
    assert_int_equal(failed, 0);
    assert_true(subject_has_no_namer(namers, a));
    assert_true(subject_is_lost(namers, a));
    subject_free(namers, a);
    assert_int_equal(subject_open(namers, OF_A, &of_a, &again), -EAGAIN); /* as this source has it */
    assert_int_equal(subject_open(namers, OF_A, &of_a, &again), 0);
    assert_string_equal(named(again, 0x1010), "of_a");
    end_both(again, NULL);
}

int main(void)
{
    asked = mmap(NULL, 2 * sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    signal(SIGCHLD, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_truth_is_taken),
        cmocka_unit_test(what_breaks_the_rules_ends_it),
        cmocka_unit_test(an_end_is_not_waited_for),
        cmocka_unit_test(rows_of_others_are_not_reached),
        cmocka_unit_test(rows_are_given_back),
        cmocka_unit_test(the_oldest_rows_go_first),
        cmocka_unit_test(without_room_few_stacks_are_copied),
        cmocka_unit_test(what_comes_next_is_asked_for_at_once),
        cmocka_unit_test(an_end_is_told_with_the_next_question),
        cmocka_unit_test(what_is_not_settled_is_asked_for_again),
        cmocka_unit_test(what_is_not_known_has_no_name),
        cmocka_unit_test(several_are_begun_before_one_has_answered),
        cmocka_unit_test(what_was_seen_of_a_process_goes_to_its_domain),
        cmocka_unit_test(those_of_one_that_ends_are_lost_together),
        cmocka_unit_test(after_a_copy_was_walked_more_may_be_known),
        cmocka_unit_test(one_that_is_idle_is_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Accounts of locks: who waited, who held meanwhile, and what a program that lies about its locks can do. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/locks.h"

#include <string.h>

#include "test.h"

enum { MS = 1000000, PID = 100 };

struct fixture {
    struct profile *profile;
    struct locks *locks;
    uint32_t process, mutex[2], condition[2];
    unsigned asked;
};

/* Threads 101 to 104 are the process's. */
static bool name_thread(void *context, uint32_t pid, uint32_t tid, char ret_name[16])
{
    struct fixture *f = context;
    f->asked++;
    if (pid != PID || tid < 101 || tid > 104)
        return false;
    snprintf(ret_name, 16, "thread%u", tid);
    return true;
}

static uint32_t native(struct profile *p, const char *name, const char *module)
{
    return profile_add_frame(p, &(struct profile_frame){.name = profile_string(p, name),
                                                        .module = profile_string(p, module),
                                                        .kind = FRAME_NATIVE});
}

static void begin(struct fixture *f, uint64_t least_ns)
{
    *f = (struct fixture){0};
    assert_int_equal(profile_new(&f->profile), 0);
    f->process = profile_named_frame(f->profile, "shop (100)", FRAME_GROUP);
    f->mutex[0] = native(f->profile, "pthread_mutex_lock", "libc.so.6");
    f->condition[0] = native(f->profile, "pthread_cond_wait", "libc.so.6");
    f->mutex[1] = f->condition[1] = native(f->profile, "books", "shop");
    assert_int_equal(locks_new(f->profile, least_ns, name_thread, f, &f->locks), 0);
}

static void done(struct fixture *f)
{
    locks_free(f->locks);
    profile_free(f->profile);
}

static void starts(struct fixture *f, const uint32_t *frames, uint32_t tid, uint64_t ms, uint64_t address,
                   uint32_t owner)
{
    struct sampler_sample head = {.time_ns = ms * MS, .pid = PID, .tid = tid, .kind = SAMPLE_LOCK};
    struct sampler_lock lock = {
        .address = address, .operation = 128, .expected = 2, .words = {2, 0, owner, 1, 0}, .known = 5};
    if (frames == f->condition)
        lock = (struct sampler_lock){.address = address, .operation = 128 + 9};
    locks_began(f->locks, &head, &lock,
                &(struct lock_stack){.groups = &f->process, .group_count = 1, .frames = frames, .count = 2});
}

static void wakes(struct fixture *f, uint32_t tid, uint32_t waiter)
{
    struct sampler_sample head = {.pid = PID, .tid = tid, .weight = waiter, .kind = SAMPLE_LOCK_WAKER};
    uint32_t frame = native(f->profile, "rebuilds", "shop");
    locks_woke(f->locks, &head,
               &(struct lock_stack){.groups = &f->process, .group_count = 1, .frames = &frame, .count = 1});
}

/* Of a wait that began at from: let go on at woken by a thread (0: by a timer), on a CPU at to. */
static void ends(struct fixture *f, uint32_t tid, uint64_t from, uint64_t woken, uint64_t to, uint32_t by)
{
    struct sampler_sample head = {.time_ns = from * MS,
                                  .weight = (to - from) * MS,
                                  .ready_ns = (to - woken) * MS,
                                  .pid = PID,
                                  .tid = tid,
                                  .kind = SAMPLE_LOCK_END};
    struct sampler_lock_end end = {.tid = by, .pid = PID, .woken = by ? WOKEN_FUTEX : WOKEN_OTHER};
    snprintf(end.name, sizeof(end.name), "thread%u", by);
    locks_ended(f->locks, &head, &end);
}

static uint64_t held_ms(const struct lock_site *site, uint32_t tid)
{
    for (size_t i = 0; i < site->holder_count; i++)
        if (site->holders[i].tid == tid)
            return site->holders[i].held_ns / MS;
    return 0;
}

static uint64_t weight_of(const struct profile *p)
{
    uint64_t sum = 0;
    array_foreach (&p->nodes, n)
        sum += n->weight;
    return sum / MS;
}

static void who_lets_go_had_it(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 10, 0x1000, 104);
    wakes(&f, 104, 101);
    ends(&f, 101, 10, 25, 25, 104);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 1);
    assert_true(list[0].is_lock);
    assert_int_equal(list[0].address, 0x1000);
    assert_int_equal(list[0].site_count, 1);
    const struct lock_site *s = &list[0].sites[0];
    assert_string_equal(profile_text(f.profile, f.profile->frames.at[s->frame].name), "books");
    assert_int_equal(s->waited_ns, 15 * MS);
    assert_int_equal(s->count, 1);
    assert_int_equal(s->threads, 1);
    assert_int_equal(held_ms(s, 104), 15);
    assert_string_equal(s->holders[0].name, "thread104");
    assert_string_equal(profile_text(f.profile, f.profile->frames.at[s->holders[0].where].name), "rebuilds");
    locks_accounts_free(list, count);
    locks_into_profile(f.locks);
    assert_int_equal(weight_of(f.profile), 15);
    done(&f);
}

/* Two wait for the one that has it; the first of them then has it for 5 ms, after 2 ms without a CPU. */
static void it_passes_from_one_to_the_next(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 0, 0x1000, 104);
    starts(&f, f.mutex, 102, 1, 0x1000, 104);
    ends(&f, 101, 0, 10, 12, 104);
    ends(&f, 102, 1, 17, 17, 101);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 1);
    const struct lock_site *s = &list[0].sites[0];
    assert_int_equal(s->waited_ns, 28 * MS);
    assert_int_equal(held_ms(s, 104), 10 + 9);
    assert_int_equal(held_ms(s, 101), 5);
    assert_int_equal(s->no_cpu_ns, (2 + 2) * MS);
    assert_int_equal(s->unknown_ns, 0);
    locks_accounts_free(list, count);
    done(&f);
}

/* Who has it takes it from the one that was woken, and the wake-up is not its own. */
static void an_owner_is_believed_within_its_process(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 0, 0x1000, 103);
    ends(&f, 101, 0, 10, 10, 104);
    starts(&f, f.mutex, 101, 20, 0x2000, 1); /* the program says that init has it */
    ends(&f, 101, 20, 30, 30, 104);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(held_ms(&list[i].sites[0], 1), 0);
        assert_int_equal(held_ms(&list[i].sites[0], list[i].address == 0x1000 ? 103 : 104), 10);
    }
    locks_accounts_free(list, count);
    assert_int_equal(f.asked, 2);
    starts(&f, f.mutex, 101, 40, 0x2000, 1);
    ends(&f, 101, 40, 50, 50, 104);
    assert_int_equal(f.asked, 2); /* it is asked once for each */
    done(&f);
}

static void conditions_are_apart(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.condition, 101, 0, 0x1000, 0);
    ends(&f, 101, 0, 500, 500, 104);
    starts(&f, f.mutex, 101, 600, 0x2000, 0);
    ends(&f, 101, 600, 601, 601, 104);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    assert_true(list[0].is_lock);
    assert_false(list[1].is_lock);
    assert_int_equal(held_ms(&list[1].sites[0], 104), 500);
    locks_accounts_free(list, count);
    locks_into_profile(f.locks);
    assert_int_equal(weight_of(f.profile), 1);
    done(&f);
}

/* A futex of unknown use is a lock if those who let others go on wait for it, too. */
static void turns(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    const uint32_t frames[] = {native(f.profile, "my_wait", "shop"), f.mutex[1]};
    for (uint32_t i = 0; i < 4; i++) {
        struct sampler_sample head = {.time_ns = 10ull * i * MS, .pid = PID, .tid = 101 + i % 2};
        for (uint64_t address = 0x1000; address <= 0x2000; address += 0x1000) {
            struct sampler_lock lock = {.address = address, .operation = 128 + 9};
            head.time_ns += address == 0x2000 ? 5 * MS : 0;
            locks_began(
                f.locks, &head, &lock,
                &(struct lock_stack){.groups = &f.process, .group_count = 1, .frames = frames, .count = 2});
            ends(&f, head.tid, head.time_ns / MS, head.time_ns / MS + 3, head.time_ns / MS + 3,
                 address == 0x1000 ? 101 + (i + 1) % 2 : 104);
        }
    }
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    assert_true(list[0].is_lock);
    assert_int_equal(list[0].address, 0x1000);
    assert_false(list[1].is_lock);
    locks_accounts_free(list, count);
    done(&f);
}

static void without_an_end(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 10, 0x1000, 103);
    starts(&f, f.condition, 102, 10, 0x3000, 0); /* it may wait as long as it likes */
    locks_finish(f.locks, 60ull * MS);
    locks_finish(f.locks, 90ull * MS);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 1);
    assert_int_equal(list[0].sites[0].open, 1);
    assert_int_equal(list[0].sites[0].waited_ns, 50 * MS);
    assert_int_equal(held_ms(&list[0].sites[0], 103), 50);
    locks_accounts_free(list, count);
    done(&f);
}

/* It tries again after a timer; who lets it go on had it all the time. One that nobody lets go on: unknown.
 */
static void timed_tries(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 0, 0x1000, 0);
    ends(&f, 101, 0, 5, 5, 0);
    starts(&f, f.mutex, 101, 5, 0x1000, 0);
    ends(&f, 101, 5, 8, 8, 104);
    starts(&f, f.mutex, 102, 20, 0x2000, 0);
    ends(&f, 102, 20, 25, 25, 0);
    locks_finish(f.locks, 30ull * MS);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    assert_int_equal(held_ms(&list[0].sites[0], 104), 8);
    assert_int_equal(list[0].sites[0].count, 2);
    assert_int_equal(list[1].sites[0].unknown_ns, 5 * MS);
    locks_accounts_free(list, count);
    done(&f);
}

/* Records that are missing or belong to no wait, and waits that are too short. */
static void torn_and_short(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 2 * MS);
    ends(&f, 101, 0, 5, 5, 104);
    wakes(&f, 104, 101);
    starts(&f, f.mutex, 101, 10, 0x1000, 0);
    starts(&f, f.mutex, 101, 20, 0x1000, 0);
    ends(&f, 101, 10, 15, 15, 104);
    ends(&f, 101, 20, 21, 21, 104);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 0);
    locks_accounts_free(list, count);
    assert_int_equal(locks_counts(f.locks).torn, 3);
    assert_int_equal(locks_counts(f.locks).waits, 0);
    done(&f);
}

/* A program with more locks than are told apart: those that were there first stay right, and the rest is
 * counted. */
static void crowds(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    starts(&f, f.mutex, 101, 0, 0x1000, 0);
    ends(&f, 101, 0, 1, 1, 104);
    for (uint32_t i = 0; i < 20000; i++) {
        starts(&f, f.mutex, 102, 10 + i, 0x100000 + 64ull * i, i);
        ends(&f, 102, 10 + i, 11 + i, 11 + i, 103);
    }
    starts(&f, f.mutex, 101, 30000, 0x1000, 0);
    ends(&f, 101, 30000, 31000, 31000, 104);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(list[0].address, 0x1000);
    assert_int_equal(held_ms(&list[0].sites[0], 104), 1001);
    assert_true(count < 20000);
    assert_int_equal(locks_counts(f.locks).crowded, 20000 - (count - 1));
    locks_accounts_free(list, count);
    done(&f);
}

/* Many threads have one lock, each twice and for a time of its own; and others of the same numbers another.
 */
static void many_holders_of_one_place(void **state)
{
    enum { HOLDERS = 20000, FIRST = 1000 };
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    uint64_t now = 0, *held = calloc(2 * HOLDERS, sizeof(*held));
    assert_non_null(held);
    for (uint32_t i = 0; i < 4 * HOLDERS; i++) {
        uint32_t holder = (i * 7919u) % HOLDERS, ms = 1 + (holder * 31 + i) % 97;
        uint32_t lock = i / HOLDERS % 2;
        starts(&f, f.mutex, 101, now, 0x1000 + 0x1000 * lock, 0);
        ends(&f, 101, now, now + ms, now + ms, FIRST + holder);
        held[lock * HOLDERS + holder] += ms;
        now += ms + 1;
    }
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        const struct lock_site *s = &list[i].sites[0];
        const uint64_t *own = held + (list[i].address == 0x1000 ? 0 : HOLDERS);
        uint8_t *seen = calloc(HOLDERS, 1);
        assert_non_null(seen);
        assert_int_equal(list[i].site_count, 1);
        assert_int_equal(s->holder_count, HOLDERS);
        for (size_t k = 0; k < s->holder_count; k++) {
            uint32_t holder = s->holders[k].tid - FIRST;
            assert_true(holder < HOLDERS && !seen[holder]);
            seen[holder] = 1;
            assert_int_equal(s->holders[k].held_ns, own[holder] * MS);
            assert_int_equal(s->holders[k].count, 2);
            assert_true(k == 0 || s->holders[k - 1].held_ns >= s->holders[k].held_ns);
        }
        free(seen);
    }
    locks_accounts_free(list, count);
    free(held);
    done(&f);
}

/* ---- goroutines ---- */

static void goroutine_starts(struct fixture *f, uint32_t goroutine, uint64_t ms, uint64_t address)
{
    const uint32_t frames[] = {native(f->profile, "sync.(*Mutex).lockSlow", "shop"), f->mutex[1]};
    struct sampler_sample head = {
        .time_ns = ms * MS, .pid = PID, .tid = 101, .goroutine = goroutine, .kind = SAMPLE_LOCK};
    locks_began(f->locks, &head, &(struct sampler_lock){.address = address},
                &(struct lock_stack){.groups = &f->process, .group_count = 1, .frames = frames, .count = 2});
}

static void goroutine_releases(struct fixture *f, uint32_t goroutine, uint64_t ms, uint64_t address)
{
    const uint32_t frames[] = {native(f->profile, "sync.(*Mutex).unlockSlow", "shop"),
                               native(f->profile, "rebuilds", "shop")};
    struct sampler_sample head = {.time_ns = ms * MS,
                                  .weight = address,
                                  .pid = PID,
                                  .tid = 102,
                                  .goroutine = goroutine,
                                  .kind = SAMPLE_LOCK_RELEASE};
    locks_released(
        f->locks, &head,
        &(struct lock_stack){.groups = &f->process, .group_count = 1, .frames = frames, .count = 2});
}

static void goroutine_is_back(struct fixture *f, uint32_t goroutine, uint64_t from, uint64_t to)
{
    struct sampler_sample head = {.time_ns = from * MS,
                                  .weight = (to - from) * MS,
                                  .pid = PID,
                                  .tid = 103,
                                  .goroutine = goroutine,
                                  .kind = SAMPLE_LOCK_END};
    locks_ended(f->locks, &head, &(struct sampler_lock_end){0});
}

/* Whoever lets others go on while one waits had it, also where that one then finds it taken again. Goroutine
 * 102 and thread 102 have nothing in common. */
static void goroutines(void **state)
{
    (void)state;
    struct fixture f;
    size_t count;
    begin(&f, 0);
    goroutine_releases(&f, 5, 1, 0x4000); /* nobody waits */
    starts(&f, f.mutex, 102, 5, 0x1000, 0);
    goroutine_starts(&f, 102, 10, 0x4000);
    goroutine_releases(&f, 5, 20, 0x4000);
    goroutine_releases(&f, 6, 35, 0x4000);
    goroutine_is_back(&f, 102, 10, 36);
    goroutine_starts(&f, 5, 40, 0x4000);
    goroutine_releases(&f, 102, 50, 0x4000);
    goroutine_is_back(&f, 5, 40, 50 + 1);
    goroutine_starts(&f, 7, 60, 0x4000); /* who had it let it go before anybody could see that */
    goroutine_is_back(&f, 7, 60, 62);
    goroutine_starts(&f, 7, 70, 0x4000); /* it lasts */
    wakes(&f, 104, 102);
    ends(&f, 102, 5, 80, 80, 104);
    locks_finish(f.locks, 90 * MS);
    struct lock_account *list = locks_accounts(f.locks, &count);
    assert_int_equal(count, 2);
    const struct lock_account *go = &list[list[0].address != 0x4000];
    assert_int_equal(go->address, 0x4000);
    assert_string_equal(go->kind->name, "Go mutex");
    assert_int_equal(go->site_count, 1);
    const struct lock_site *s = &go->sites[0];
    assert_int_equal(s->count, 4);
    assert_int_equal(s->open, 1);
    assert_int_equal(s->threads, 3);
    assert_int_equal(s->waited_ns, (26 + 11 + 2 + 20) * MS);
    assert_int_equal(held_ms(s, 5), 10);
    assert_int_equal(held_ms(s, 6), 15);
    assert_int_equal(held_ms(s, 102), 10);
    assert_int_equal(s->no_cpu_ns, 2 * MS);
    assert_int_equal(s->unknown_ns, 22 * MS);
    for (size_t i = 0; i < s->holder_count; i++) {
        assert_true(s->holders[i].goroutine);
        assert_string_equal(profile_text(f.profile, f.profile->frames.at[s->holders[i].where].name),
                            "rebuilds");
    }
    const struct lock_account *other = &list[list[0].address == 0x4000];
    assert_int_equal(held_ms(&other->sites[0], 104), 75);
    locks_accounts_free(list, count);
    done(&f);
}

/* A process whose goroutines' waits are seen hides none. */
static void what_is_hidden(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t hidden[2];
    begin(&f, 0);
    const uint32_t sleeps[] = {native(f.profile, "runtime.notesleep", "shop"), f.mutex[1]};
    starts(&f, sleeps, 101, 10, 0x1000, 0);
    assert_int_equal(locks_hidden(f.locks, hidden, 2), 1);
    assert_int_equal(hidden[0], f.process);
    locks_see(f.locks, PID);
    assert_int_equal(locks_hidden(f.locks, hidden, 2), 0);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_lets_go_had_it),
        cmocka_unit_test(it_passes_from_one_to_the_next),
        cmocka_unit_test(an_owner_is_believed_within_its_process),
        cmocka_unit_test(conditions_are_apart),
        cmocka_unit_test(turns),
        cmocka_unit_test(without_an_end),
        cmocka_unit_test(timed_tries),
        cmocka_unit_test(torn_and_short),
        cmocka_unit_test(crowds),
        cmocka_unit_test(many_holders_of_one_place),
        cmocka_unit_test(goroutines),
        cmocka_unit_test(what_is_hidden),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

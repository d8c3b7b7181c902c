/* What tracing costs while it goes on: measured once a second, told in the manifest, and held within the
 * budget (budget.h): the dearest family of events goes first, and in the end tracing. The programs go on
 * untouched either way. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/proc.h"
#include "broker/broker.h"
#include "collect/level.h"
#include "event/families.h"

#define TICK_NS NS_PER_S
/* Moving one record from a ring to a file. Measured here, rounded. */
enum { COLLECT_EVENT_NS = 300 };

static const char *const PROBE_FAMILIES[] = {
#define F(ident, level, needed, price, name) name,
    SONDE_PROBE_FAMILIES(F)
#undef F
};

static const bool NEEDED[] = {
#define F(ident, level, needed, price, name) needed,
    SONDE_PROBE_FAMILIES(F)
#undef F
};

static const unsigned PRICES[] = {
#define F(ident, level, needed, price, name) price,
    SONDE_PROBE_FAMILIES(F)
#undef F
};

uint64_t session_cpu_ns(const struct session *session)
{
    return clock_process_cpu_ns() + broker_cpu_ns(stall_broker(session->sampler)) +
           broker_cpu_ns(session->plans);
}

/* ---- measuring ---- */

/* What is ours alone, and the rings: not the pages of files that symbols are read from. */
static uint64_t memory_bytes(const struct session *session)
{
    uint64_t bytes = proc_own_memory();
    array_foreach (&session->programs, p)
        bytes += ring_memory_resident((*p)->rings);
    return bytes + session->kernel_cost.memory_bytes;
}

/* What the kernel's programs took so far. */
static uint64_t kernel_ns(struct session *session)
{
    uint64_t sum = 0;
    if (!session->kernel)
        return 0;
    kernel_cost(session->kernel, &session->kernel_cost);
    for (int i = 0; i < SONDE_FAMILY_COUNT; i++)
        sum += session->kernel_cost.run_ns[i];
    return sum;
}

static void count_events(const struct session *session, uint64_t counts[static SONDE_EVENT_COUNT])
{
    memcpy(counts, session->ended.events, SONDE_EVENT_COUNT * sizeof(*counts));
    array_foreach (&session->programs, p)
        for (int i = 0; i < SONDE_EVENT_COUNT; i++)
            counts[i] += (*p)->events[i];
}

/* What a record of an event costs the program that makes it. */
static double price_ns(const struct session *session, enum sonde_event_id event)
{
    uint32_t bit = sonde_family_bit(event);
    return session->record_ns / 10 * (bit ? PRICES[__builtin_ctz(bit)] : SONDE_OTHER_PRICE);
}

static struct budget_sample measure(struct session *session, uint64_t now_ns)
{
    uint64_t counts[SONDE_EVENT_COUNT], cpu_ns = session_cpu_ns(session);
    double probe_ns = 0;
    struct ctf_totals totals;
    count_events(session, counts);
    for (int i = 0; i < SONDE_EVENT_COUNT; i++)
        probe_ns += (double)counts[i] * price_ns(session, (enum sonde_event_id)i);
    ctf_writer_totals(session->writer, &totals);
    struct budget_sample sample = {.time_ns = now_ns,
                                   .probe_ns = (uint64_t)probe_ns,
                                   .collector_ns = cpu_ns - MIN(cpu_ns, session->setup_ns),
                                   .kernel_ns = kernel_ns(session),
                                   .memory_bytes = memory_bytes(session),
                                   .disk_bytes = totals.bytes};
    session->memory_worst_bytes = MAX(session->memory_worst_bytes, sample.memory_bytes);
    return sample;
}

/* ---- acting ---- */

_Static_assert(FAMILIES == sizeof(((struct session *)0)->family_costs) / sizeof(double), "each has a place");

static const char *family_text(int family)
{
    static const char *const KERNEL[] = {"system calls",  "scheduling",    "wake-ups",
                                         "TCP transfers", "disk requests", "TCP connections"};
    _Static_assert(ARRAY_SIZE(KERNEL) == SONDE_FAMILY_COUNT, "each has its words");
    return family < SONDE_FAMILY_COUNT ? KERNEL[family] : PROBE_FAMILIES[family - SONDE_FAMILY_COUNT];
}

/* What each family has cost since the beginning, ns. */
static void family_costs(const struct session *session, double costs[static FAMILIES])
{
    uint64_t counts[SONDE_EVENT_COUNT];
    const struct kernel_cost *kernel = &session->kernel_cost;
    for (int i = 0; i < FAMILIES; i++)
        costs[i] = 0;
    for (int i = 0; i < SONDE_FAMILY_COUNT; i++)
        costs[i] = (double)kernel->events[i] * COLLECT_EVENT_NS + (double)kernel->run_ns[i];
    count_events(session, counts);
    for (int i = 0; i < SONDE_EVENT_COUNT; i++) {
        uint32_t bit = sonde_family_bit((enum sonde_event_id)i);
        if (bit)
            costs[SONDE_FAMILY_COUNT + __builtin_ctz(bit)] +=
                (double)counts[i] * (COLLECT_EVENT_NS + price_ns(session, (enum sonde_event_id)i));
    }
}

static uint64_t families_on(const struct session *session)
{
    uint64_t on = session->kernel ? kernel_families(session->kernel) : 0;
    uint64_t probe = ((1ull << SONDE_PROBE_FAMILY_COUNT) - 1) & ~(uint64_t)session->families_off;
    return on | probe << SONDE_FAMILY_COUNT;
}

void session_apply_families(struct session *session)
{
    array_foreach (&session->programs, p)
        for (uint32_t i = 0; i < (*p)->thread_count && !(*p)->ended_ns; i++)
            session_apply_families_to(session, &(*p)->threads[i]);
}

/* Into the trace, to the user, and to the manifest's list of what is missing. */
static void tell(struct session *session, const struct budget_sample *now, const char *what, bool stopped,
                 bool incomplete)
{
    struct budget_step *step = &session->steps[MIN(session->step_count, ARRAY_SIZE(session->steps) - 1)];
    session->step_count = MIN(session->step_count + 1, ARRAY_SIZE(session->steps));
    step->stopped = stopped;
    step->at_ns = now->time_ns - session->started_ns;
    const struct budget *budget = &session->budget;
    bool memory = now->memory_bytes > budget->limits.memory_bytes;
    snprintf(step->what, sizeof(step->what), "%s", what);
    if (budget_disk_is_full(budget, now))
        snprintf(step->why, sizeof(step->why),
                 "left out from %.1f s on: the recording takes %.1f MB on disk, its budget is %.1f MB",
                 (double)step->at_ns / 1e9, (double)now->disk_bytes / (1 << 20),
                 (double)budget->limits.disk_bytes / (1 << 20));
    else if (memory)
        snprintf(step->why, sizeof(step->why),
                 "left out from %.1f s on: sonde used %.0f MB of memory, its budget is %.0f MB",
                 (double)step->at_ns / 1e9, (double)now->memory_bytes / (1 << 20),
                 (double)session->budget.limits.memory_bytes / (1 << 20));
    else if (budget->own_share > BUDGET_OWN_SHARE && budget->share <= budget->limits.cpu_share)
        snprintf(step->why, sizeof(step->why),
                 "left out from %.1f s on: sonde itself took %.0f %% of a CPU, and can use no more than one",
                 (double)step->at_ns / 1e9, budget->own_share * 100);
    else
        snprintf(step->why, sizeof(step->why),
                 "left out from %.1f s on: tracing took %.3g %% of all CPUs, its budget is %.3g %%",
                 (double)step->at_ns / 1e9, session->budget.share * 100,
                 session->budget.limits.cpu_share * 100);
    session_note(session, "%s: %s", what, step->why);
    struct record_budget record = {.cpu_ppm = (uint64_t)(session->budget.share * 1e6),
                                   .memory = now->memory_bytes,
                                   .step = stopped,
                                   .incomplete = incomplete,
                                   .what_length = (uint16_t)strlen(step->what)};
    if (session->own)
        ctf_stream_write(session->own, SONDE_EVENT_budget, now->time_ns, 0, &record, step->what);
}

static void stop(struct session *session)
{
    session->stopped = true;
    session_kernel_finish(session);
    if (session->kernel)
        kernel_stop(session->kernel);
    session_detach_all(session);
    array_foreach (&session->programs, p)
        if (!(*p)->ended_ns)
            session_end_program(session, *p, false);
}

/* Whether what is concluded from the programs' events rests on this family. */
static bool rests_on(int family)
{
    return family >= SONDE_FAMILY_COUNT && NEEDED[family - SONDE_FAMILY_COUNT];
}

static void stop_all(struct session *session, const struct budget_sample *now)
{
    tell(session, now, "everything: tracing has stopped", true, true);
    stop(session);
}

static void degrade(struct session *session, const struct budget_sample *now)
{
    double costs[FAMILIES], recent[FAMILIES];
    if (budget_disk_is_full(&session->budget, now)) {
        stop_all(session, now);
        return;
    }
    family_costs(session, costs);
    /* Since the last step, and worth it: the last hundredth is not in the events. */
    double least_ns = 0.01 * session->budget.share * session->budget.processors *
                      (double)(now->time_ns - session->stepped_ns);
    for (int i = 0; i < FAMILIES; i++) {
        recent[i] = costs[i] - session->family_costs[i];
        recent[i] = recent[i] < least_ns ? 0 : recent[i];
        session->family_costs[i] = costs[i];
    }
    session->stepped_ns = now->time_ns;
    int family = budget_dearest(recent, FAMILIES, families_on(session));
    if (family < 0) {
        stop_all(session, now);
        return;
    }
    tell(session, now, family_text(family), false, rests_on(family));
    if (family < SONDE_FAMILY_COUNT) {
        kernel_switch(session->kernel, kernel_families(session->kernel) & ~(1u << family));
    } else {
        session->families_off |= 1u << (family - SONDE_FAMILY_COUNT);
        session_apply_families(session);
    }
}

/* ---- levels ---- */

/* The kernel's families of a level, as far as they were not ruled out. */
static uint32_t kernel_families_of(const struct session *session, enum sonde_level level)
{
    return session->options.no_kernel ? 0 : level_kernel_families(level);
}

static void switch_kernel(struct session *session, uint32_t families)
{
    if (!session->kernel && families && !session->kernel_problem.what[0]) {
        session->options.families = families;
        if (session_kernel_begin(session) < 0 || !session->kernel)
            return;
        array_foreach (&session->programs, p)
            if (!(*p)->ended_ns)
                session_kernel_follow(session, *p);
    } else if (session->kernel) {
        session->options.families |= kernel_switch(session->kernel, families);
    }
}

static void set_level(struct session *session, enum sonde_level level)
{
    session->level = level;
    session->least_level = MIN(level, session->least_level);
    session->families_off = level_families_off(level);
}

static void tell_level(struct session *session, uint64_t at_ns)
{
    struct record_level record = {.at_ns = at_ns, .level = (uint8_t)session->level};
    ctf_stream_write(session->own, SONDE_EVENT_level, clock_monotonic_ns(), 0, &record, NULL);
}

void session_change_level(struct session *session, int by)
{
    int next = (int)session->level + by;
    uint64_t at_ns = clock_monotonic_ns();
    if (session->stopped || next < 0 || next >= SONDE_LEVELS)
        return;
    set_level(session, (enum sonde_level)next);
    switch_kernel(session, kernel_families_of(session, session->level));
    session_apply_families(session);
    tell_level(session, at_ns);
    session_note(session, "from now on the level is '%s'", level_name(session->level));
}

void session_overhead_begin(struct session *session)
{
    session->level = session->least_level = SONDE_level_usual;
    if (session->options.level != session->level) {
        set_level(session, session->options.level);
        tell_level(session, clock_monotonic_ns());
    }
    session->record_ns = budget_record_ns();
    session->budget.limits = session->options.budget;
    session->budget.processors = (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1);
    if (session->budget.limits.cpu_share <= 0)
        session->budget.limits = BUDGET_DEFAULTS;
    session->setup_ns = session_cpu_ns(session);
    session->stepped_ns = clock_monotonic_ns();
}

void session_overhead_tick(struct session *session, uint64_t now_ns)
{
    if (session->stopped || now_ns - session->measured_ns < TICK_NS)
        return;
    session->measured_ns = now_ns;
    bool traced = false;
    array_foreach (&session->programs, p)
        traced |= !(*p)->ended_ns;
    if (!traced)
        return;
    struct budget_sample sample = measure(session, now_ns);
    if (budget_add(&session->budget, &sample))
        degrade(session, &sample);
}

/* ---- telling ---- */

json_t *session_overhead_object(struct session *session)
{
    struct budget_sample now = measure(session, clock_monotonic_ns());
    return json_pack("{s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:I, s:I}", "processors",
                     session->budget.processors, "probe_cpu_ns", (json_int_t)now.probe_ns, "kernel_cpu_ns",
                     (json_int_t)now.kernel_ns, "collector_cpu_ns", (json_int_t)now.collector_ns,
                     "setup_cpu_ns", (json_int_t)session->setup_ns, "memory_bytes",
                     (json_int_t)session->memory_worst_bytes, "record_ns", session->record_ns,
                     "budget_cpu_share", session->budget.limits.cpu_share, "budget_memory_bytes",
                     (json_int_t)session->budget.limits.memory_bytes, "budget_disk_bytes",
                     (json_int_t)session->budget.limits.disk_bytes);
}

void session_add_dropped(const struct session *session, json_t *missing)
{
    for (size_t i = 0; i < session->step_count; i++)
        json_array_append_new(
            missing, json_pack("{s:o, s:o, s:s}", "what", json_text(session->steps[i].what), "why",
                               json_text(session->steps[i].why), "remedy",
                               "--budget PERCENT,MB,MB allows more; --kernel=FAMILY,... records less."));
}

static void add_reason(struct session_summary *s, uint8_t reason, uint64_t count)
{
    if (count)
        s->loss_reasons |= 1u << reason;
}

static void add_loss(struct session_summary *s, uint8_t reason, uint64_t count)
{
    s->lost += count;
    add_reason(s, reason, count);
}

void session_summarise(const struct session *session, struct session_summary *ret_summary)
{
    struct ctf_totals totals;
    ctf_writer_totals(session->writer, &totals);
    struct session_summary s = {.programs = (unsigned)(session->programs.count + session->ended.count),
                                .events = totals.events,
                                .bytes = totals.bytes,
                                .write_error = totals.write_error};
    s.collector_cpu_ns = session_cpu_ns(session);
    s.lost = session->ended.lost;
    array_foreach (&session->ended.losses, loss)
        add_reason(&s, loss->reason, loss->count);
    add_loss(&s, SONDE_loss_reason_disk_write_failed, totals.lost_events);
    for (uint32_t i = 0; i < ARRAY_SIZE(session->kernel_lost); i++)
        add_loss(&s, session_kernel_loss_reason(i), session->kernel_lost[i]);
    array_foreach (&session->programs, p) {
        s.alive += !(*p)->ended_ns;
        for (size_t i = 0; i < ARRAY_SIZE((*p)->losses); i++)
            add_loss(&s, (uint8_t)i, (*p)->losses[i]);
    }
    *ret_summary = s;
}

/* The kernel's side within a session: what it follows is what is traced, its losses stand with the others. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/session_internal.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"

int session_kernel_begin(struct session *session)
{
    if (!session->options.families)
        return 0;
    int r = kernel_new(session->options.families, &session->kernel, &session->kernel_problem);
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        return 0; /* the rest works; the manifest says why */
    return ctf_stream_open(session->writer, (uint32_t)getpid(), (uint32_t)getpid(), &session->kernel_stream);
}

void session_kernel_follow(struct session *session, struct program *program)
{
    if (!session->kernel)
        return;
    program->followed = kernel_add(session->kernel, program->pid) == 0;
    if (!proc_exists(program->proc)) /* whom would it follow? */
        kernel_remove(session->kernel, program->pid);
    if (!program->followed)
        target_miss(program->target, "the kernel's side: scheduling, TCP, disks",
                    "more processes are traced than the kernel's side follows", NULL);
}

unsigned session_kernel_drain(struct session *session)
{
    if (!session->kernel)
        return 0;
    return kernel_drain(session->kernel, session->kernel_stream, false);
}

uint8_t session_kernel_loss_reason(uint32_t count)
{
    static const uint8_t REASONS[] = {
#define F(ident, name, level, text) [SONDE_FAMILY_##ident] = SONDE_loss_reason_kernel_ring_full_##ident,
        SONDE_FAMILIES(F)
#undef F
            [SONDE_COUNT_NOT_FOLLOWED] = SONDE_loss_reason_kernel_not_followed,
        [SONDE_COUNT_THREADS_LOST] = SONDE_loss_reason_kernel_not_followed,
        [SONDE_COUNT_MISSED_RUNS] = SONDE_loss_reason_kernel_program_missed,
    };
    return REASONS[count];
}

void session_kernel_tell_losses(struct session *session)
{
    uint64_t lost[SONDE_KERNEL_COUNTS];
    uint64_t now_ns = clock_monotonic_ns();
    if (!session->kernel || !session->kernel_stream ||
        (!session->finished && now_ns - session->kernel_asked_ns < NS_PER_S))
        return;
    session->kernel_asked_ns = now_ns;
    kernel_losses(session->kernel, lost);
    for (uint32_t i = 0; i < SONDE_KERNEL_COUNTS; i++) {
        uint64_t new = lost[i] - session->kernel_lost[i];
        if (!new)
            continue;
        session->kernel_lost[i] = lost[i];
        session->kernel_lost_ns = clock_monotonic_ns();
        ctf_stream_discarded(session->kernel_stream, new);
        struct record_loss record = {.count = new, .reason = session_kernel_loss_reason(i)};
        ctf_stream_write(session->own, SONDE_EVENT_loss, clock_monotonic_ns(), 0, &record, NULL);
    }
}

void session_kernel_finish(struct session *session)
{
    if (!session->kernel || !kernel_families(session->kernel))
        return;
    kernel_tell_unfinished(session->kernel);
    (void)kernel_drain(session->kernel, session->kernel_stream, true);
}

/* The programs of a session: how one joins it, and how it leaves. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "collect/exit_status.h"
#include "collect/session_internal.h"
#include "collect/silent.h"

int session_add_program(struct session *session, struct program *program)
{
    int r = session_news_add(session, program->proc->pidfd, program);
    if (r >= 0) {
        r = array_add(&session->programs, program);
        if (r < 0)
            session_news_remove(session, program->proc->pidfd);
    }
    if (r >= 0)
        session_program_runs(program, false, clock_monotonic_ns());
    return r;
}

static void tell_exit(struct session *session, struct program *program)
{
    struct record_process_exit record = {.pid = (uint32_t)program->pid,
                                         .status = exit_status_of(program->proc)};
    ctf_stream_write(session->own, SONDE_EVENT_process_exit, clock_monotonic_ns(), 0, &record, NULL);
}

void session_end_program(struct session *session, struct program *program, bool gone)
{
    const char *what;
    char why[SILENT_WORDS];
    program_drain(program, session->writer, &session->fit);
    for (unsigned n = 0; silent_hook(program, n, &what, why); n++)
        session_note(session, "%s (%d): not seen: %s: %s", program->name, program->pid, what, why);
    session_tell_open(session, program, true);
    session_tell_losses(session, program);
    session_tell_quota(session, program, clock_monotonic_ns(), true);
    program->ended_ns = clock_monotonic_ns();
    session_news_remove(session, program->proc->pidfd);
    if (gone) {
        tell_exit(session, program);
        if (session->kernel)
            kernel_remove(session->kernel, program->pid);
        stall_forget(session->sampler, program->proc);
    }
    for (uint32_t i = 0; i < program->thread_count; i++) {
        ctf_stream_free(program->threads[i].stream);
        program->threads[i].stream = NULL;
    }
}

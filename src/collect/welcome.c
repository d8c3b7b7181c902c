/* A probe says hello: sonde looks at its program from outside, plans, writes settings and patches while the
 * probe's constructor waits, and lets it go on. See src/event/config.h for what is exchanged. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/hand_over.h"
#include "attach/inject.h"
#include "attach/owner.h"
#include "collect/session_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"

enum { ANSWER_MS = 2000 };

struct guest {
    int socket;
    struct proc *proc;
    struct sonde_message hello;
};

static int receive_hello(struct guest *guest)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (getsockopt(guest->socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
        return -errno;
    int r = proc_open(credentials.pid, &guest->proc);
    if (r < 0)
        return r;
    struct pollfd wait = {.fd = guest->socket, .events = POLLIN};
    if (poll(&wait, 1, ANSWER_MS) <= 0)
        return -ETIMEDOUT;
    if (recv(guest->socket, &guest->hello, sizeof(guest->hello), 0) != sizeof(guest->hello))
        return -EPROTO;
    return guest->hello.verb == SONDE_HELLO || guest->hello.verb == SONDE_FORKED ? 0 : -EPROTO;
}

static int send_verb(const struct guest *guest, enum sonde_verb verb)
{
    struct sonde_message message = {.verb = verb};
    return send(guest->socket, &message, sizeof(message), MSG_NOSIGNAL) == sizeof(message) ? 0 : -errno;
}

/* The answer to what was sent: the same verb, and a result. */
static int receive_result(const struct guest *guest, enum sonde_verb verb, uint64_t *ret_result)
{
    struct sonde_message message;
    struct pollfd wait = {.fd = guest->socket, .events = POLLIN};
    if (poll(&wait, 1, ANSWER_MS) <= 0)
        return -ETIMEDOUT;
    if (recv(guest->socket, &message, sizeof(message), 0) != sizeof(message) || message.verb != verb)
        return -EPROTO;
    *ret_result = message.a;
    int64_t result = (int64_t)message.a;
    return result < 0 && result > -4096 ? (int)result : 0;
}

/* patch_map_fn: the probe maps. */
static int map_in_guest(void *context, uint64_t address, uint64_t size)
{
    const struct guest *guest = context;
    const struct sonde_message message = {.verb = SONDE_MAP, .a = address, .b = size};
    uint64_t mapped = 0;
    if (send(guest->socket, &message, sizeof(message), MSG_NOSIGNAL) != sizeof(message))
        return -EPIPE;
    int r = receive_result(guest, SONDE_MAP, &mapped);
    return r < 0 ? r : mapped == address ? 0 : -EEXIST;
}

/* The probe maps the rings. */
static int hand_rings_over(const struct guest *guest, struct ring_memory *rings, struct problem *problem)
{
    const struct sonde_message message = {.verb = SONDE_MEMORY, .b = ring_memory_size(rings)};
    uint64_t ignored;
    int r = hand_over_send(guest->socket, &message, sizeof(message), ring_memory_fd(rings));
    if (r >= 0)
        r = receive_result(guest, SONDE_MEMORY, &ignored);
    if (r < 0)
        return session_no_memory(guest->proc->pid, r, problem);
    ring_memory_handed(rings);
    return 0;
}

void session_tell_start(struct session *session, struct program *program)
{
    struct record_process_start record = {.start_ns = program->started_ns,
                                          .pid = (uint32_t)program->pid,
                                          .parent = (uint32_t)program->parent,
                                          .runtime = program->runtime,
                                          .name_length = (uint16_t)strlen(program->name),
                                          .command_length = (uint16_t)strlen(program->command)};
    struct text strings = {0};
    text_addf(&strings, "%s%s", program->name, program->command);
    if (!strings.failed)
        ctf_stream_write(session->own, SONDE_EVENT_process_start, clock_monotonic_ns(), 0, &record,
                         text_get(&strings));
    text_done(&strings);
    session_kernel_follow(session, program);
}

static int patch(struct session *session, struct guest *guest, struct target *target,
                 struct patch_set *ret_patches, struct problem *problem)
{
    struct target_module probe = {0};
    int r = inject_find_probe(target, session->probe_path, &probe, problem);
    if (r < 0)
        return r;
    struct sonde_config config;
    target_layout(target, session->options.request_context, &config);
    snprintf(config.functions, sizeof(config.functions), "%s", session->options.functions);
    r = owner_claim(target, &probe, true, problem);
    if (r >= 0) {
        r = target_write(target, guest->hello.a, &config, sizeof(config));
        if (r >= 0)
            r = patch_plan(target, &probe, map_in_guest, guest, ret_patches, problem);
        if (r >= 0)
            r = patch_apply(target, ret_patches, problem);
        if (r < 0)
            owner_release(target, &probe);
    }
    elf_free(probe.elf);
    return r;
}

/* A forked child has the patches, the settings and the trampolines of its parent, which may be gone. */
static int inherit(const struct session *session, const struct target *target, struct patch_set *ret_patches)
{
    const struct program *parent = NULL;
    for (size_t i = session->programs.count; i-- > 0 && !parent;)
        if (program_forked(session->programs.at[i], target->proc))
            parent = session->programs.at[i];
    if (!parent)
        return -ESRCH;
    array_foreach (&parent->patches.patches, p)
        if (array_add(&ret_patches->patches, *p) < 0)
            return -ENOMEM;
    return 0;
}

/* Everything between hello and go. */
static int admit(struct session *session, struct guest *guest, struct problem *problem)
{
    _cleanup_(target_freep) struct target *target = NULL;
    int r = target_open(guest->proc, &session->files, &target, problem);
    if (r < 0)
        return r;
    if (!target->kind)
        return -ENOTSUP;
    struct patch_set patches = {0};
    struct ring_memory *rings = NULL;
    r = program_rings_new(guest->proc->pid, &rings, problem);
    if (r >= 0)
        r = hand_rings_over(guest, rings, problem);
    if (r >= 0)
        r = guest->hello.verb == SONDE_FORKED ? inherit(session, target, &patches)
                                              : patch(session, guest, target, &patches, problem);
    if (r < 0) {
        ring_memory_free(rings);
        patch_set_done(&patches);
        return r;
    }
    struct program *program;
    r = program_new(target, &patches, rings, guest->hello.b, &program);
    if (r < 0) {
        ring_memory_free(rings);
        patch_remove(target, &patches);
        patch_set_done(&patches);
        return r;
    }
    target = NULL;
    program->forked = guest->hello.verb == SONDE_FORKED;
    r = session_add_program(session, program);
    if (r < 0) {
        program_free(program);
        return r;
    }
    session_tell_start(session, program);
    return 0;
}

int session_no_memory(pid_t pid, int error, struct problem *problem)
{
    return problem_set(problem, error, "process %d: it cannot map the memory for the rings: %s", pid,
                       strerror(-error));
}

void session_remember_untraced(struct session *session, const struct proc *proc,
                               const struct problem *problem)
{
    char name[PROC_NAME_BYTES], *line = NULL;
    proc_read_name(proc, name);
    if (!name[0])
        snprintf(name, sizeof(name), "?");
    if (asprintf(&line, "%s (%d): %s", name, proc->pid, problem->what) > 0 &&
        array_add(&session->untraced, line) < 0)
        free(line);
    session_note(session, "%s (%d) runs untraced: %s", name, proc->pid, problem->what);
}

void session_welcome(struct session *session)
{
    _cleanup_(file_closep) int socket = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC);
    if (socket < 0)
        return;
    struct guest guest = {.socket = socket};
    struct problem problem = {0};
    int r = receive_hello(&guest);
    if (r == 0 && session->stopped) {
        (void)send_verb(&guest, SONDE_LEAVE);
    } else if (r == 0) {
        r = admit(session, &guest, &problem);
        (void)send_verb(&guest, r == 0 ? SONDE_GO : SONDE_LEAVE);
        /* A library user of libuv that is not Node is met without a word; so is who has ended meanwhile. */
        if (r < 0 && r != -ENOTSUP && !proc_has_ended(guest.proc))
            session_remember_untraced(session, guest.proc, &problem);
    }
    proc_unref(guest.proc);
    session->manifest_wanted = true;
}

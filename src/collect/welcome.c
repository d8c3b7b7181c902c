/* A probe says hello: sonde looks at its program from outside, plans, writes settings and patches while the
 * probe's constructor waits, and lets it go on. See src/event/config.h for what is exchanged. Probes that
 * come together have their turns one after the other, while rings are drained between; those that wait are
 * told so, since a probe that hears nothing for some seconds gives sonde up. */
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

enum {
    ANSWER_MS = 2000,
    GUESTS_MAX = 1024, /* of whom we hold descriptors; others wait in the listener's queue */
    STILL_THERE_MS = 1000
};

static int receive_hello(const struct guest *guest, struct sonde_message *ret_hello)
{
    struct sonde_message hello;
    ssize_t n = recv(guest->socket, &hello, sizeof(hello), MSG_DONTWAIT);
    if (n < 0)
        return -errno;
    if (n != sizeof(hello) || (hello.verb != SONDE_HELLO && hello.verb != SONDE_FORKED))
        return -EPROTO;
    *ret_hello = hello;
    return 0;
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

static int patch(struct session *session, struct guest *guest, const struct sonde_message *hello,
                 struct target *target, struct patch_set *ret_patches, struct problem *problem)
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
        r = target_write(target, hello->a, &config, sizeof(config));
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
    struct session_parent parent;
    if (!session_find_parent(session, target->proc, &parent))
        return -ESRCH;
    for (size_t i = 0; i < parent.patch_count; i++)
        if (array_add(&ret_patches->patches, parent.patches[i]) < 0)
            return -ENOMEM;
    return 0;
}

bool session_find_parent(const struct session *session, const struct proc *proc,
                         struct session_parent *ret_parent)
{
    enum { GENERATIONS_MAX = 64 };
    uint64_t rings[GENERATIONS_MAX];
    size_t count = program_rings_mapped(proc, rings, GENERATIONS_MAX);
    for (size_t i = session->programs.count; i-- > 0;) {
        const struct program *program = session->programs.at[i];
        for (size_t k = 0; k < count; k++)
            if (program->pid != proc->pid && ring_memory_inode(program->rings) == rings[k]) {
                *ret_parent = (struct session_parent){program->exe, program->patches.patches.at,
                                                      program->patches.patches.count};
                return true;
            }
    }
    const struct ended_parent *parent = ended_parent_of(&session->ended, rings, count);
    if (parent)
        *ret_parent = (struct session_parent){parent->exe, parent->patches.at, parent->patches.count};
    return parent;
}

/* Everything between hello and go. */
static int admit(struct session *session, struct guest *guest, const struct sonde_message *hello,
                 struct problem *problem)
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
        r = hello->verb == SONDE_FORKED ? inherit(session, target, &patches)
                                        : patch(session, guest, hello, target, &patches, problem);
    if (r < 0) {
        ring_memory_free(rings);
        patch_set_done(&patches);
        return r;
    }
    struct program *program;
    r = program_new(target, &patches, rings, hello->b, &program);
    if (r < 0) {
        ring_memory_free(rings);
        patch_remove(target, &patches);
        patch_set_done(&patches);
        return r;
    }
    target = NULL;
    program->forked = hello->verb == SONDE_FORKED;
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

static void guest_done(struct guest *guest)
{
    close(guest->socket);
    proc_unref(guest->proc);
}

void session_welcome(struct session *session)
{
    while (session->guests.count < GUESTS_MAX) {
        struct ucred credentials;
        socklen_t size = sizeof(credentials);
        uint64_t now_ns = clock_monotonic_ns();
        struct guest guest = {accept4(session->listener, NULL, NULL, SOCK_CLOEXEC), NULL, now_ns, now_ns};
        if (guest.socket < 0)
            return;
        if (getsockopt(guest.socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0 ||
            proc_open(credentials.pid, &guest.proc) < 0 || array_add(&session->guests, guest) < 0)
            guest_done(&guest);
    }
}

/* Whether it has had its turn: a probe says hello as soon as it has connected, others may say nothing. */
static bool have_turn(struct session *session, struct guest *guest, uint64_t now_ns)
{
    struct sonde_message hello = {0};
    struct problem problem = {0};
    int r = receive_hello(guest, &hello);
    if (r == -EAGAIN)
        return now_ns - guest->since_ns > ANSWER_MS * NS_PER_MS;
    if (r < 0)
        return true;
    if (session->stopped) {
        (void)send_verb(guest, SONDE_LEAVE);
        return true;
    }
    r = admit(session, guest, &hello, &problem);
    (void)send_verb(guest, r == 0 ? SONDE_GO : SONDE_LEAVE);
    /* A program that uses libuv but is not Node, or one that has ended by now, is passed over without a note.
     */
    if (r < 0 && r != -ENOTSUP && !proc_has_ended(guest->proc))
        session_remember_untraced(session, guest->proc, &problem);
    session->manifest_wanted = true;
    return true;
}

void session_admit(struct session *session, uint64_t now_ns)
{
    const struct sonde_message wait = {.verb = SONDE_WAIT};
    size_t turn = 0;
    while (turn < session->guests.count && !have_turn(session, &session->guests.at[turn], now_ns))
        turn++;
    if (turn < session->guests.count) {
        guest_done(&session->guests.at[turn]);
        session->guests.count--;
        memmove(&session->guests.at[turn], &session->guests.at[turn + 1],
                (session->guests.count - turn) * sizeof(struct guest));
    }
    now_ns = clock_monotonic_ns();
    array_foreach (&session->guests, guest)
        if (now_ns - guest->told_ns > STILL_THERE_MS * NS_PER_MS) {
            guest->told_ns = now_ns;
            (void)send(guest->socket, &wait, sizeof(wait), MSG_NOSIGNAL | MSG_DONTWAIT);
        }
}

void session_dismiss(struct session *session)
{
    array_foreach (&session->guests, guest) {
        struct problem problem = {0};
        problem_set(&problem, -EINTR, "sonde was about to end when it came");
        (void)send_verb(guest, SONDE_LEAVE);
        session_remember_untraced(session, guest->proc, &problem);
        guest_done(guest);
    }
    array_done(&session->guests);
}

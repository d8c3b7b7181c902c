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
#include <fcntl.h>
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
    STILL_THERE_MS = 1000,
    SLOW_FILES_MS = 15000, /* nobody waits for longer while files are read */
    TURNS_MS = 2           /* at a time; the rings are drained between */
};

static int receive_hello(int socket, struct sonde_message *ret_hello)
{
    struct sonde_message hello;
    ssize_t n = recv(socket, &hello, sizeof(hello), MSG_DONTWAIT);
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

static int patch(struct session *session, struct guest *guest, struct target *target,
                 struct patch_set *ret_patches, struct problem *problem)
{
    struct probe probe = {0};
    int r = inject_find_probe(target, &session->probes, &probe, problem);
    if (r < 0)
        return r;
    struct sonde_config config;
    target_layout(target, &config);
    snprintf(config.functions, sizeof(config.functions), "%s", session->options.functions);
    config.statements = session->options.sql;
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
    target_forget_plan(target);
    return r;
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
                *ret_parent =
                    (struct session_parent){program, program->exe, program->target,
                                            program->patches.patches.at, program->patches.patches.count};
                return true;
            }
    }
    const struct ended_parent *parent = ended_parent_of(&session->ended, rings, count);
    if (parent)
        *ret_parent = (struct session_parent){NULL, parent->exe, parent->target, parent->patches.at,
                                              parent->patches.count};
    return parent;
}

/* What is done to a guest's program. */
struct welcome {
    struct target *target;
    struct patch_set patches;
    const struct program *like; /* whose worker it is */
};

/* A worker is called what its server is called. A daemon has left its parent's session, and is looked at
 * anew: by now it listens maybe. */
static const struct program *server_of(const struct session_parent *parent, pid_t worker)
{
    return parent->program && getsid(worker) == getsid(parent->program->pid) ? parent->program : NULL;
}

/* A forked child has the patches, the settings and the trampolines of its parent, which may be gone. Its
 * memory is opened first: whoever executes another program later is out of our reach, and who has done so by
 * now has no rings of a parent's. */
static int inherit(const struct session *session, struct proc *proc, struct welcome *welcome,
                   struct problem *problem)
{
    struct session_parent parent;
    _cleanup_(file_closep) int memory = proc_file_open(proc, "mem", O_RDWR);
    if (memory < 0)
        return problem_set(problem, memory, "its memory cannot be written: %s", strerror(-memory));
    if (!session_find_parent(session, proc, &parent))
        return problem_set(problem, -ESRCH, "it is not known whose child it is");
    int r = array_reserve(&welcome->patches.patches, parent.patch_count);
    for (size_t i = 0; r >= 0 && i < parent.patch_count; i++)
        r = array_add(&welcome->patches.patches, parent.patches[i]);
    if (r >= 0)
        r = target_inherit(parent.target, proc, memory, &welcome->target);
    if (r < 0)
        return r;
    memory = -1;
    welcome->like = server_of(&parent, proc->pid);
    return 0;
}

static int look_at(struct session *session, const struct guest *guest, struct welcome *welcome,
                   struct problem *problem)
{
    if (guest->hello.verb == SONDE_FORKED)
        return inherit(session, guest->proc, welcome, problem);
    int r = target_open(guest->proc, session->plans, TARGET_WHOLE, session->options.request_context,
                        &welcome->target, problem);
    return r >= 0 && !welcome->target->kind ? -ENOTSUP : r;
}

/* Everything between hello and go. */
static int admit(struct session *session, struct guest *guest, struct problem *problem)
{
    struct welcome welcome = {0};
    struct ring_memory *rings = NULL;
    struct program *program = NULL;
    const bool forked = guest->hello.verb == SONDE_FORKED;
    int r = look_at(session, guest, &welcome, problem);
    if (r >= 0)
        r = program_rings_new(guest->pid, forked, &rings, problem);
    if (r >= 0)
        r = hand_rings_over(guest, rings, problem);
    if (r >= 0 && !forked)
        r = patch(session, guest, welcome.target, &welcome.patches, problem);
    if (r >= 0) {
        r = program_new(welcome.target, &welcome.patches, rings, guest->hello.b, welcome.like, &program);
        if (r < 0)
            patch_remove(welcome.target, &welcome.patches);
    }
    if (r < 0) {
        ring_memory_free(rings);
        patch_set_done(&welcome.patches);
        target_free(welcome.target);
        return r;
    }
    program->forked = forked;
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

/* ---- who is not traced ---- */

/* Reasons that many may share: they bear no number. */
static const char ENDED[] = "it ended before its turn came";
static const char GAVE_UP[] = "it waited too long for sonde, which had others before it";
static const char TOO_MANY[] = "too many others waited for sonde already";
static const char NO_DESCRIPTORS[] = "sonde has no more descriptors (LimitNOFILE=, ulimit -n)";
static const char AT_THE_END[] = "sonde was about to end when it came";
static const char STOPPED[] = "tracing had stopped by then, to stay within the budget";

void session_remember_untraced(struct session *session, const char *name, pid_t pid, const char *why)
{
    enum { NOTED = 3 };
    int alike = untraced_add(&session->untraced, name[0] ? name : "?", pid, why);
    session->manifest_wanted = true;
    if (why == ENDED || alike > NOTED) /* the manifest has all of them */
        return;
    session_note(session, "%s (%d) runs untraced: %s%s", name[0] ? name : "?", pid, why,
                 alike == NOTED ? " (and so may more: see the report)" : "");
}

/* Tells it to go on without us, and remembers it. Only probes say hello; others are nobody's business. */
static void turn_away(struct session *session, const struct guest *guest, const char *why)
{
    bool has_ended = guest->proc && proc_has_ended(guest->proc); /* before it goes on, and ends maybe */
    (void)send_verb(guest, SONDE_LEAVE);
    if (guest->hello.verb)
        session_remember_untraced(session, guest->name, guest->pid, has_ended ? ENDED : why);
}

/* ---- turns ---- */

static void guest_done(struct guest *guest)
{
    close(guest->socket);
    proc_unref(guest->proc);
}

/* Turns it away by means of the one descriptor that is kept for that. */
static bool turn_away_without_descriptors(struct session *session)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    if (session->spare < 0)
        return false;
    close(session->spare);
    struct guest guest = {.socket = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC)};
    if (guest.socket >= 0) {
        (void)send_verb(&guest, SONDE_LEAVE);
        if (getsockopt(guest.socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0)
            session_remember_untraced(session, "", credentials.pid, NO_DESCRIPTORS);
        close(guest.socket);
    }
    session->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return guest.socket >= 0;
}

/* Who can be told nothing more: it has ended, or waits no longer. */
static bool has_left(const struct guest *guest)
{
    char byte;
    ssize_t n = recv(guest->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN);
}

/* Takes in who knocks next. False: nobody. */
static bool take_in(struct session *session)
{
    struct ucred credentials;
    socklen_t size = sizeof(credentials);
    struct guest guest = {.socket = accept4(session->listener, NULL, NULL, SOCK_CLOEXEC)};
    if (guest.socket < 0)
        return (errno == EMFILE || errno == ENFILE) && turn_away_without_descriptors(session);
    guest.since_ns = guest.told_ns = clock_monotonic_ns();
    if (getsockopt(guest.socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0) {
        close(guest.socket);
        return true;
    }
    guest.pid = credentials.pid;
    int r = proc_open(guest.pid, &guest.proc);
    if (r >= 0)
        proc_read_name(guest.proc, guest.name);
    if (r < 0 || array_add(&session->guests, guest) < 0) {
        (void)receive_hello(guest.socket, &guest.hello);
        turn_away(session, &guest, r == -ESRCH ? ENDED : NO_DESCRIPTORS);
        guest_done(&guest);
    }
    return true;
}

void session_welcome(struct session *session)
{
    enum { AT_ONCE_MAX = 1024 }; /* there is other work: who knocks on is taken in at the next step */
    for (int i = 0; i < AT_ONCE_MAX && take_in(session); i++)
        ;
}

static struct guest take_out(struct session *session, struct guest *guest)
{
    struct guest taken = *guest;
    memmove(guest, guest + 1,
            (size_t)(session->guests.at + session->guests.count - guest - 1) * sizeof(*guest));
    session->guests.count--;
    return taken;
}

/* How many wait. */
struct crowd {
    size_t silent, new, forked;
};

/* Whether the guest stays: a probe says hello as soon as it has connected, others may say nothing. Nobody
 * waits behind very many: a new program's start is put off until its turn comes, a forked child stands still
 * amid its work. */
static bool stays(struct session *session, struct guest *guest, const struct crowd *before, uint64_t now_ns)
{
    enum { MAX_OF_A_KIND = 256, FORKED_MAX = 64 };
    if (!guest->hello.verb) {
        int r = receive_hello(guest->socket, &guest->hello);
        if (r == -EAGAIN)
            return now_ns - guest->since_ns <= ANSWER_MS * NS_PER_MS && before->silent < MAX_OF_A_KIND;
        if (r < 0)
            return false;
    }
    if (session->stopped)
        turn_away(session, guest, STOPPED);
    else if (guest->hello.verb == SONDE_FORKED ? before->forked >= FORKED_MAX : before->new >= MAX_OF_A_KIND)
        turn_away(session, guest, TOO_MANY);
    else
        return true;
    return false;
}

/* Hears what they say; who does not stay is gone. */
static void hear(struct session *session, uint64_t now_ns)
{
    struct crowd crowd = {0};
    size_t kept = 0;
    array_foreach (&session->guests, guest) {
        if (!stays(session, guest, &crowd, now_ns)) {
            guest_done(guest);
            continue;
        }
        crowd.silent += !guest->hello.verb;
        crowd.new += guest->hello.verb == SONDE_HELLO;
        crowd.forked += guest->hello.verb == SONDE_FORKED;
        session->guests.at[kept++] = *guest;
    }
    session->guests.count = kept;
}

/* A probe that hears nothing for some seconds goes on without us. */
static void tell_to_wait(struct guest *guest, uint64_t now_ns)
{
    const struct sonde_message wait = {.verb = SONDE_WAIT};
    if (now_ns - guest->told_ns <= STILL_THERE_MS * NS_PER_MS)
        return;
    guest->told_ns = now_ns;
    (void)send(guest->socket, &wait, sizeof(wait), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void session_tell_guests_to_wait(struct session *session)
{
    if (!session->admitted)
        return;
    session_welcome(session); /* who comes now waits, too */
    const uint64_t now_ns = clock_monotonic_ns(), longest_ns = SLOW_FILES_MS * NS_PER_MS;
    if (now_ns - session->admitted->since_ns < longest_ns)
        tell_to_wait(session->admitted, now_ns);
    array_foreach (&session->guests, guest)
        if (now_ns - guest->since_ns < longest_ns)
            tell_to_wait(guest, now_ns);
}

static void give_turn(struct session *session, struct guest *next)
{
    struct problem problem = {0};
    struct guest guest = take_out(session, next);
    if (has_left(&guest)) {
        turn_away(session, &guest, GAVE_UP);
    } else {
        session->admitted = &guest;
        int r = admit(session, &guest, &problem);
        session->admitted = NULL;
        if (r == -ENOTSUP) /* it uses libuv, but is not Node: passed over without a note */
            (void)send_verb(&guest, SONDE_LEAVE);
        else if (r < 0)
            turn_away(session, &guest, problem.what[0] ? problem.what : strerror(-r));
        else
            (void)send_verb(&guest, SONDE_GO);
    }
    session->manifest_wanted = true;
    guest_done(&guest);
}

/* NULL: nobody is next. */
static struct guest *next_guest(struct session *session, bool forked)
{
    array_foreach (&session->guests, guest)
        if (guest->hello.verb == SONDE_FORKED || (guest->hello.verb && !forked))
            return guest;
    return NULL;
}

void session_admit(struct session *session, uint64_t now_ns)
{
    /* CPU time: while others have the CPU, their rings fill no slower for our doing less. */
    const uint64_t end_ns = clock_thread_cpu_ns() + TURNS_MS * NS_PER_MS;
    hear(session, now_ns);
    /* Who has waited longest; then forked children, with whom it takes a fraction of a millisecond. */
    struct guest *guest = next_guest(session, false);
    while (guest) {
        give_turn(session, guest);
        guest = clock_thread_cpu_ns() < end_ns ? next_guest(session, true) : NULL;
    }
    now_ns = clock_monotonic_ns();
    array_foreach (&session->guests, g)
        tell_to_wait(g, now_ns);
}

void session_dismiss(struct session *session)
{
    if (session->listener >= 0)
        session_welcome(session);
    array_foreach (&session->guests, guest) {
        if (!guest->hello.verb)
            (void)receive_hello(guest->socket, &guest->hello);
        turn_away(session, guest, AT_THE_END);
        guest_done(guest);
    }
    array_done(&session->guests);
}

/* See profile_hits.h. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_hits.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/proc.h"
#include "base/process_file.h"
#include "cli/cli.h"
#include "cli/confine.h"
#include "cli/hooked.h"
#include "profile/family.h"
#include "profile/follow.h"
#include "symbol/elf.h"
#include "symbol/modules.h"
#include "symbol/usdt.h"

enum { PLACES_MOST = 64, PARTS = 4 };

/* What a stack, and counting at a tracepoint, take of the program's time (bench/event-price.mjs). */
#define STACK_NS      2000
#define TRACEPOINT_NS 400

bool profile_hits_is_event(const char *event)
{
    const char *colon = strchr(event, ':');
    return colon && colon != event && colon[1];
}

/* ---- files ---- */

/* Looked for in a file, by a process without rights. */
struct wanted {
    const char *function, *provider; /* the latter only of USDT, whose name is the function */
    bool is_data, is_chosen_late;    /* there is such a symbol, which cannot be probed */
    size_t count;
    struct usdt_place places[PLACES_MOST];
    struct place_code codes[PLACES_MOST]; /* what the file has there */
};

static int find_in_file(int fd, struct wanted *w)
{
    _cleanup_(elf_freep) struct elf *elf = NULL;
    struct elf_symbol symbol;
    int r = elf_open_fd(fd, "", &elf, NULL);
    if (r < 0)
        return r;
    if (w->provider) {
        w->count = usdt_find(elf, w->provider, w->function, w->places, PLACES_MOST);
        return 0;
    }
    if (elf_find(elf, w->function, &symbol) < 0)
        return 0;
    w->is_chosen_late = symbol.type == STT_GNU_IFUNC;
    w->is_data = symbol.type != STT_FUNC && !w->is_chosen_late;
    if (!w->is_chosen_late && !w->is_data)
        w->count = elf_address_to_offset(elf, symbol.value, &w->places[0].offset) == 0;
    return 0;
}

static int find_places(int fd, void *result)
{
    struct wanted *w = result;
    int r = find_in_file(fd, w);
    for (size_t i = 0; i < w->count && i < PLACES_MOST; i++)
        w->codes[i] = place_code_read(fd, w->places[i].offset);
    return r;
}

/* The file of this name that a process has mapped; negative: none. */
static int open_mapped(pid_t pid, const char *name)
{
    _cleanup_(proc_unrefp) struct proc *proc = NULL;
    _cleanup_(modules_done) struct modules modules = {0};
    struct problem ignored;
    int r = proc_open(pid, &proc);
    if (r >= 0)
        r = modules_list(proc, &modules, &ignored);
    if (r < 0)
        return r;
    array_foreach (&modules.mappings, m)
        if (m->executable && m->module != UINT32_MAX &&
            strcmp(basename(modules.list.at[m->module].path), name) == 0)
            return process_mapped_open(proc, m->start, m->end);
    return -ENOENT;
}

static int open_binary(const char *binary, const struct sampler_options *o, const char *command)
{
    size_t count = 0;
    int fd = -1;
    if (strchr(binary, '/'))
        return open(binary, O_RDONLY | O_CLOEXEC);
    if (command && strcmp(basename(command), binary) == 0)
        return file_open_program(command);
    if (command || o->whole_machine) /* a library: the one that is used here */
        fd = open_mapped(getpid(), binary);
    if (fd < 0 && (command || o->whole_machine))
        return file_open_program(binary);
    _cleanup_(freep) pid_t *family = command ? NULL : family_of(o->pids, o->pid_count, &count);
    for (size_t i = 0; i < count && fd < 0; i++)
        fd = open_mapped(family[i], binary);
    return fd;
}

/* ---- events ---- */

/* Divides at colons, from the end, so that a path may have some; how many parts. */
static size_t divide(char *text, char *ret_parts[PARTS])
{
    bool usdt = strncmp(text, "usdt:", 5) == 0, uprobe = strncmp(text, "uprobe:", 7) == 0;
    size_t count = usdt ? 4 : uprobe ? 3 : 2, n = count;
    char *first = strchr(text, ':') + 1;
    for (; n > 1; n--) {
        char *colon = n == 2 ? first - 1 : strrchr(first, ':');
        if (!colon || !colon[1])
            return 0;
        *colon = '\0';
        ret_parts[n - 1] = colon + 1;
    }
    ret_parts[0] = text;
    return count;
}

static int no_place(const char *binary, const struct wanted *w, const char *function, const char *provider,
                    struct problem *problem)
{
    if (provider) {
        problem_set(problem, -ENOENT, "%s has no probe %s:%s", binary, provider, function);
        problem_remedy(problem, "readelf -n %s lists those it has (stapsdt): provider and name.", binary);
    } else if (w->is_chosen_late) {
        problem_set(problem, -ENOENT,
                    "%s in %s is a choice of several functions, made when the program starts", function,
                    binary);
        problem_remedy(problem, "Name the one that is chosen, as in `sonde profile` lists it.");
    } else if (w->is_data) {
        problem_set(problem, -ENOENT, "%s in %s is not a function", function, binary);
    } else {
        problem_set(problem, -ENOENT, "%s has no function %s", binary, function);
        problem_remedy(problem,
                       "Names are those of the symbol table (nm -D %s, nm %s; of C++ the mangled ones); "
                       "a file that is stripped has only what it exports.",
                       binary, binary);
    }
    return -ENOENT;
}

/* Those that run already, but for the command. */
static int check_hooks(int fd, const struct wanted *w, const char *binary, const char *function,
                       const struct sampler_options *o, const char *command, struct problem *problem)
{
    size_t count = 0;
    uint64_t offset;
    _cleanup_(freep) pid_t *pids = command            ? NULL
                                   : o->whole_machine ? proc_all(&count)
                                                      : family_of(o->pids, o->pid_count, &count);
    pid_t pid = hooked_process(fd, w->codes, MIN(w->count, (size_t)PLACES_MOST), pids, count, &offset);
    if (!pid)
        return 0;
    problem_set(problem, -EBUSY,
                "process %d: another tool has changed the code of %s in %s, so that a breakpoint there could "
                "kill the process",
                (int)pid, function, binary);
    problem_remedy(problem,
                   "If it is being traced by sonde, `sonde detach %d` restores the code; else watch "
                   "another function, such as one that calls it.",
                   (int)pid);
    return -EBUSY;
}

static int find_in_binary(char **parts, size_t count, const struct sampler_options *o, const char *command,
                          struct profile_hits *hits, struct problem *problem)
{
    const char *binary = parts[1], *provider = count == 4 ? parts[2] : NULL, *function = parts[count - 1];
    struct wanted wanted = {.function = function, .provider = provider};
    hits->file = open_binary(binary, o, command);
    if (hits->file < 0) {
        hits->file = 0;
        problem_set(problem, -ENOENT,
                    strchr(binary, '/') ? "%s cannot be opened" : "no file called %s is mapped there",
                    binary);
        problem_remedy(problem, "Name it by its path.");
        return -ENOENT;
    }
    int r = confine_parse(hits->file, find_places, &wanted, sizeof(wanted));
    if (r < 0)
        return problem_set(problem, r, "%s: %s", binary,
                           r == -ENOEXEC ? "no program or library" : strerror(-r));
    if (!wanted.count)
        return no_place(binary, &wanted, function, provider, problem);
    if ((r = check_hooks(hits->file, &wanted, binary, function, o, command, problem)) < 0)
        return r;
    snprintf(hits->path, sizeof(hits->path), "/proc/self/fd/%d", hits->file);
    for (size_t i = 0; i < MIN(wanted.count, (size_t)PLACES_MOST); i++) {
        struct sampler_hit hit = {
            .path = hits->path, .offset = wanted.places[i].offset, .semaphore = wanted.places[i].semaphore};
        if (array_add(&hits->list, hit) < 0)
            return problem_set(problem, -ENOMEM, "out of memory");
    }
    return 0;
}

int profile_hits_find(const char *event, const struct sampler_options *o, const char *command,
                      struct profile_hits *hits, struct problem *problem)
{
    char *parts[PARTS];
    hits->text = strdup(event);
    if (!hits->text)
        return problem_set(problem, -ENOMEM, "out of memory");
    size_t count = divide(hits->text, parts);
    if (!count) {
        problem_set(problem, -EINVAL, "'%s' is not an event", event);
        problem_remedy(problem,
                       "CATEGORY:NAME of a tracepoint, uprobe:BINARY:FUNCTION, usdt:BINARY:PROVIDER:NAME.");
        return -EINVAL;
    }
    if (count > 2)
        return find_in_binary(parts, count, o, command, hits, problem);
    struct sampler_hit hit = {.category = parts[0], .name = parts[1]};
    return array_add(&hits->list, hit) < 0 ? problem_set(problem, -ENOMEM, "out of memory") : 0;
}

void profile_hits_done(struct profile_hits *hits)
{
    array_done(&hits->list);
    free(hits->text);
    if (hits->file > 0)
        close(hits->file);
}

/* ---- words ---- */

void profile_hits_print_price(const char *event, const struct sampler_options *o,
                              const struct sampler *sampler)
{
    bool tracepoint = o->hit_places[0].category != NULL;
    uint64_t ns = tracepoint ? TRACEPOINT_NS : sampler_trap_ns(sampler);
    cli_printf(
        stderr,
        "sonde: each hit of %s takes about %.1f us of the program's time%s, and %d us more with a stack; ",
        event, (double)ns / 1e3, tracepoint ? "" : " (a trap into the kernel, measured here)",
        STACK_NS / 1000);
    fprintf(stderr, "with more than %llu hits a second it stops (--hit-limit)\n",
            (unsigned long long)sampler_hits_most(o));
}

void profile_hits_print_counts(const char *event, const struct sampler_options *o,
                               const struct sampler_counts *c, uint64_t start_ns)
{
    char after[32];
    fprintf(stderr, "sonde: %llu hits", (unsigned long long)c->hits);
    if (c->samples < c->hits)
        fprintf(stderr,
                ", of which %llu had their stacks taken, each for those since the one before on its CPU",
                (unsigned long long)c->samples);
    fputc('\n', stderr);
    if (c->hits_stopped_ns)
        cli_printf(
            stderr,
            "sonde: stopped after %s: more than %llu hits a second of %s; --every N takes fewer stacks, a "
            "larger --hit-limit bears more\n",
            clock_format_duration(c->hits_stopped_ns - start_ns, after, sizeof(after)),
            (unsigned long long)sampler_hits_most(o), event);
}

void profile_hits_print_followed(const struct sampler *sampler, const struct sampler_counts *counts)
{
    const struct follow_counts c = follow_counts(sampler);
    uint64_t not_watched = counts->births - MIN(counts->births, c.followed);
    if (!counts->births)
        return;
    fprintf(stderr, "sonde: started later: %llu process%s", (unsigned long long)counts->births,
            counts->births == 1 ? "" : "es");
    if (c.followed)
        fprintf(stderr, ", %llu watched from %.1f ms after their start on average (%.1f ms at most)",
                (unsigned long long)c.followed, (double)c.sum_ns / (double)c.followed / 1e6,
                (double)c.latest_ns / 1e6);
    uint64_t over = not_watched - MIN(not_watched, c.busy + c.failed);
    if (not_watched)
        fprintf(stderr, ", %llu not watched (%llu had ended, %llu were too many, %llu failed)",
                (unsigned long long)not_watched, (unsigned long long)over, (unsigned long long)c.busy,
                (unsigned long long)c.failed);
    fputc('\n', stderr);
}

/* What the sampler makes of requests (bpf/io.h): attached, stacks with names, and the account of what
 * came of them (io.h). */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/sampler_parts.h"

#include <errno.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/clock.h"

enum { OPEN_MOST = 65536, PROGRAMS = 5 };

static void block_programs(const struct sampler *s, struct bpf_program *ret_programs[PROGRAMS])
{
    struct bpf_program *const programs[PROGRAMS] = {
        s->bpf->progs.on_block_complete, s->bpf->progs.on_block_merge, s->bpf->progs.on_block_issue,
        s->bpf->progs.on_block_insert, s->bpf->progs.on_block_start};
    memcpy(ret_programs, programs, sizeof(programs));
}

void sampler_configure_io(struct sampler *s)
{
    struct bpf_program *programs[PROGRAMS];
    block_programs(s, programs);
    for (size_t i = 0; i < ARRAY_SIZE(programs); i++)
        bpf_program__set_autoload(programs[i], s->options.io == IO_BLOCK);
    bpf_program__set_autoload(s->bpf->progs.on_connect, s->options.io == IO_CONNECT);
    bpf_map__set_max_entries(s->bpf->maps.requests, s->options.io ? OPEN_MOST : 1);
}

static int attach(struct sampler *s, struct bpf_program *program)
{
    struct bpf_link *link = bpf_program__attach(program);
    if (!link)
        return -errno;
    if (array_add(&s->hit_links, link) == 0)
        return 0;
    bpf_link__destroy(link);
    return -ENOMEM;
}

/* The end before the beginning, so that no end is missed. */
int sampler_attach_io(struct sampler *s)
{
    struct bpf_program *programs[PROGRAMS];
    if (s->options.io == IO_CONNECT)
        return attach(s, s->bpf->progs.on_connect);
    block_programs(s, programs);
    for (size_t i = 0; i < PROGRAMS; i++) {
        int r = attach(s, programs[i]);
        if (programs[i] == s->bpf->progs.on_block_start && r < 0) /* Linux 6.5 */
            s->bpf->bss->requests_seen_late = 1;
        else if (r < 0 && programs[i] != s->bpf->progs.on_block_merge)
            return r;
    }
    return 0;
}

const struct io *sampler_io(struct sampler *s)
{
    struct sampler_request request;
    uint64_t key, *at = NULL;
    int map = bpf_map__fd(s->bpf->maps.requests);
    if (!s->io)
        return NULL;
    for (; bpf_map_get_next_key(map, at, &key) == 0; at = &key) {
        if (bpf_map_lookup_elem(map, &key, &request) < 0)
            continue;
        request.took_ns = s->stopped_ns > request.begun_ns ? s->stopped_ns - request.begun_ns : 0;
        io_unfinished(s->io, &request);
    }
    return s->io;
}

static bool ready(struct sampler *s)
{
    return s->io || (s->on && io_new(s->on, s->options.io, &s->io) == 0);
}

uint32_t sampler_trace_frames(struct sampler *s, const uint64_t *kernel, uint32_t count)
{
    static const char *const OURS[] = {"bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"};
    uint32_t first = 0;
    for (uint32_t i = 0; i + 1 < count && i < 8; i++) {
        const char *name = kernel_names_at(s->kernel, kernel[i] - (i > 0));
        for (size_t k = 0; name && k < ARRAY_SIZE(OURS); k++)
            if (strncmp(name, OURS[k], strlen(OURS[k])) == 0)
                first = i + 1;
    }
    return first;
}

/* Why threads of the kernel make requests: for others, who did not ask for this one. */
static const char *reason_of(const struct profile *p, const uint32_t *frames, size_t count)
{
    static const struct {
        const char *function, *reason;
    } REASONS[] = {{"wb_workfn", "[write-back of buffered data]"},
                   {"kjournald2", "[journal of a file system]"},
                   {"xlog_ioend_work", "[journal of a file system]"},
                   {"loop_process_work", "[loop device]"},
                   {"kswapd", "[memory is reclaimed]"},
                   {"io_wq_worker", "[io_uring worker]"},
                   {"io_sq_thread", "[io_uring worker]"}};
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < ARRAY_SIZE(REASONS); k++)
            if (strcmp(profile_text(p, p->frames.at[frames[i]].name), REASONS[k].function) == 0)
                return REASONS[k].reason;
    return "[thread of the kernel]";
}

void sampler_io_began(struct sampler *s, const struct sampler_sample *sample, const uint32_t *groups,
                      size_t group_count, uint32_t *frames, size_t count)
{
    if (!ready(s))
        return;
    if (!sample->user_words) /* outermost */
        frames[count] = profile_named_frame(s->on, reason_of(s->on, frames, count), FRAME_KERNEL);
    struct io_stack stack = {.groups = groups,
                             .frames = frames,
                             .group_count = group_count,
                             .count = count + !sample->user_words,
                             .has_program = sample->end != END_KERNEL};
    io_began(s->io, sample->weight, &stack);
}

void sampler_on_io_end(struct sampler *s, const struct sampler_sample *sample, const uint64_t *words,
                       size_t count)
{
    if (s->io && count * sizeof(*words) >= sizeof(struct sampler_request))
        io_ended(s->io, (const struct sampler_request *)words);
}

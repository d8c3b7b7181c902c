/* See io.h. Below the node of each stack is one for what was asked of whom, whose frame says so
 * ("[write vda]", "[to 127.0.0.1:5432]"): there the account is kept. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/io.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NODES_MOST = 50000, /* each with an account of 1.5 KB at most */
    PEERS_MOST = 4096,
    STEPS = 8, /* of the histogram, in each power of two */
    BUCKETS = 42 * STEPS,
};

struct account {
    uint32_t node;
    bool by_kernel;
    const char *what, *where; /* constants, or the profile's */
    struct io_amount amount;
    uint32_t took[BUCKETS];
};

/* For timelines, while the profile wants samples. */
struct kept {
    struct sampler_request request;
    uint32_t account;
};

struct io {
    struct profile *profile;
    struct profile *stacks;
    enum io_kind kind;
    struct map open;       /* number -> the stack's node << 1, with 1 for the kernel's own threads */
    struct map account_of; /* node -> place in accounts */
    struct map peers;      /* that are told apart: the frames' names */
    ARRAY(struct account) accounts;
    ARRAY(struct kept) kept;
};

int io_new(struct profile *profile, enum io_kind kind, struct io **ret_io)
{
    _cleanup_(io_freep) struct io *io = calloc(1, sizeof(*io));
    if (!io || profile_new(&io->stacks) < 0)
        return -ENOMEM;
    io->profile = profile;
    io->kind = kind;
    io->stacks->node_limit = NODES_MOST;
    *ret_io = io;
    io = NULL;
    return 0;
}

void io_free(struct io *io)
{
    if (!io)
        return;
    profile_free(io->stacks);
    map_done(&io->open);
    map_done(&io->account_of);
    map_done(&io->peers);
    array_done(&io->accounts);
    array_done(&io->kept);
    free(io);
}

enum io_kind io_kind_of(const struct io *io)
{
    return io->kind;
}

const struct profile *io_stacks(const struct io *io)
{
    return io->stacks;
}

/* ---- one at a time ---- */

void io_began(struct io *io, uint64_t id, const struct io_stack *stack)
{
    uint32_t node = 0;
    for (size_t i = 0; i < stack->group_count; i++)
        node = profile_child(io->stacks, node, stack->groups[i]);
    for (size_t i = stack->count; i > 0; i--)
        node = profile_child(io->stacks, node, stack->frames[i - 1]);
    uint64_t *place = node ? map_put(&io->open, id, NULL) : NULL;
    if (place)
        *place = (uint64_t)node << 1 | !stack->has_program;
    else
        io->profile->failed = true;
}

static const char *operation_of(uint32_t operation)
{
    static const char *const NAMES[] = {"read", "write", "flush", "discard"};
    return operation < ARRAY_SIZE(NAMES) ? NAMES[operation] : "request";
}

const char *io_outcome(enum io_kind kind, int result)
{
    if (kind == IO_BLOCK)
        return result ? "failed" : "";
    switch (-result) {
    case 0:
        return "established";
    case ECONNREFUSED:
        return "refused";
    case ETIMEDOUT:
        return "timed out";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "unreachable";
    case ECANCELED:
        return "closed before it was established";
    case EINPROGRESS:
        return "not established yet";
    default:
        return "failed";
    }
}

/* "127.0.0.1:5432", "[::1]:5432" */
static void peer_text(const struct sampler_request *request, char *text, size_t size)
{
    struct in6_addr address;
    char host[INET6_ADDRSTRLEN];
    for (int i = 0; i < 8; i++) {
        address.s6_addr[i] = (uint8_t)(request->peer_high >> (56 - 8 * i));
        address.s6_addr[8 + i] = (uint8_t)(request->peer_low >> (56 - 8 * i));
    }
    if (IN6_IS_ADDR_V4MAPPED(&address))
        snprintf(text, size, "%s:%u", inet_ntop(AF_INET, address.s6_addr + 12, host, sizeof(host)),
                 request->peer_port);
    else
        snprintf(text, size, "[%s]:%u", inet_ntop(AF_INET6, &address, host, sizeof(host)),
                 request->peer_port);
}

static const char *where_of(struct io *io, const struct sampler_request *request)
{
    char text[INET6_ADDRSTRLEN + 16];
    if (io->kind == IO_BLOCK) {
        snprintf(text, sizeof(text), "%.*s", SAMPLER_DISK_NAME, request->disk);
        return profile_text(io->profile, profile_string(io->profile, text));
    }
    peer_text(request, text, sizeof(text));
    uint64_t key = map_hash(text, strlen(text));
    if (!map_get(&io->peers, key)) {
        if (io->peers.count >= PEERS_MOST)
            return "other peers";
        (void)map_put(&io->peers, key, NULL);
    }
    return profile_text(io->profile, profile_string(io->profile, text));
}

static struct account *account_of(struct io *io, uint64_t open, const struct sampler_request *request)
{
    char text[128];
    bool is_new, established = io->kind == IO_CONNECT && !request->result;
    struct account fresh = {.by_kernel = open & 1, .where = where_of(io, request)};
    const char *outcome = io_outcome(io->kind, request->result);
    if (io->kind == IO_BLOCK) {
        fresh.what = operation_of(request->operation);
        snprintf(text, sizeof(text), "[%s %s%s%s]", fresh.what, fresh.where, *outcome ? " " : "", outcome);
    } else {
        fresh.what = outcome;
        snprintf(text, sizeof(text), established ? "[to %s]" : "[to %s: %s]", fresh.where, outcome);
    }
    fresh.node = profile_child(io->stacks, (uint32_t)(open >> 1),
                               profile_named_frame(io->profile, text, FRAME_KERNEL));
    uint64_t *place = map_put(&io->account_of, fresh.node, &is_new);
    if (!place)
        return NULL;
    if (is_new) {
        *place = io->accounts.count;
        if (array_add(&io->accounts, fresh) < 0) {
            map_remove(&io->account_of, fresh.node);
            return NULL;
        }
    }
    return &io->accounts.at[*place];
}

/* In steps of an eighth to a quarter of an octave. */
static size_t bucket_of(uint64_t ns)
{
    unsigned octave = ns < STEPS ? 0 : 61u - (unsigned)__builtin_clzll(ns); /* of ns / STEPS */
    size_t bucket = ns < STEPS ? ns : octave * STEPS + (ns >> (octave - 1)) - STEPS;
    return MIN(bucket, (size_t)BUCKETS - 1);
}

/* The first that belongs to the next one. */
static uint64_t bucket_end(size_t bucket)
{
    uint64_t octave = bucket / STEPS, step = bucket % STEPS;
    return octave == 0 ? step + 1 : (STEPS + step + 1) << (octave - 1);
}

static void add(struct io *io, const struct sampler_request *request, bool unfinished)
{
    uint64_t *open = map_get(&io->open, request->id), n = MAX(request->stands_for, 1ull);
    struct account *a = open ? account_of(io, *open, request) : NULL;
    if (!a) {
        io->profile->failed |= open != NULL;
        return;
    }
    map_remove(&io->open, request->id);
    a->amount.count += n;
    a->amount.bytes += n * request->bytes;
    a->amount.total_ns += n * request->took_ns;
    a->amount.longest_ns = MAX(a->amount.longest_ns, (uint64_t)request->took_ns);
    a->amount.failed += request->result && !unfinished ? n : 0;
    a->amount.unfinished += unfinished ? n : 0;
    uint32_t *took = &a->took[bucket_of(request->took_ns)];
    *took = (uint32_t)MIN(*took + n, (uint64_t)UINT32_MAX);
    if (io->kept.count < io->profile->sample_limit &&
        array_add(&io->kept, (struct kept){*request, (uint32_t)(a - io->accounts.at)}) < 0)
        io->profile->failed = true;
}

void io_ended(struct io *io, const struct sampler_request *request)
{
    add(io, request, false);
}

void io_unfinished(struct io *io, const struct sampler_request *request)
{
    struct sampler_request goes_on = *request;
    goes_on.result = io->kind == IO_CONNECT ? -EINPROGRESS : 0;
    add(io, &goes_on, true);
}

/* ---- what came out ---- */

/* The innermost frame of the application, where it has a language with a runtime in that; else the innermost
 * of the program, or the outermost of the kernel's (which says why, of its own threads). */
static uint32_t site_of(const struct io *io, const struct business_rules *rules, uint32_t node)
{
    uint32_t outermost = 0, innermost = 0, in_language = 0, native = 0;
    for (uint32_t at = io->stacks->nodes.at[node].parent; at; at = io->stacks->nodes.at[at].parent) {
        uint32_t frame = io->stacks->nodes.at[at].frame;
        uint8_t kind = io->profile->frames.at[frame].kind;
        if (kind == FRAME_GROUP || kind == FRAME_TRUNCATED)
            break;
        outermost = frame;
        if (kind == FRAME_KERNEL)
            continue;
        innermost = innermost ? innermost : frame;
        bool has_runtime =
            kind == FRAME_JS || kind == FRAME_PYTHON || kind == FRAME_RUBY || kind == FRAME_JAVA;
        bool is_library = business_is_library(io->profile, rules, frame);
        if (has_runtime && !is_library)
            return frame;
        if (has_runtime && !in_language)
            in_language = frame;
        if (!native && !is_library)
            native = frame;
    }
    return in_language ? in_language : native ? native : innermost ? innermost : outermost;
}

static void add_amount(struct io_amount *to, const struct io_amount *a)
{
    to->count += a->count;
    to->bytes += a->bytes;
    to->total_ns += a->total_ns;
    to->longest_ns = MAX(to->longest_ns, a->longest_ns);
    to->failed += a->failed;
    to->unfinished += a->unfinished;
}

typedef uint64_t histogram[BUCKETS];

static void add_histogram(histogram to, const struct account *a)
{
    for (size_t i = 0; i < BUCKETS; i++)
        to[i] += a->took[i];
}

static void set_most(struct io_amount *amount, const histogram took)
{
    uint64_t all = 0, seen = 0;
    size_t i = 0;
    for (; i < BUCKETS; i++)
        all += took[i];
    for (i = 0; i + 1 < BUCKETS && (seen += took[i]) < all - all / 100;)
        i++;
    amount->most_ns = MIN(bucket_end(i), amount->longest_ns);
}

static int by_time(const void *a, const void *b)
{
    const struct io_site *x = a, *y = b;
    if (x->amount.total_ns != y->amount.total_ns)
        return x->amount.total_ns < y->amount.total_ns ? 1 : -1;
    return (x->frame > y->frame) - (x->frame < y->frame);
}

static int parts_by_time(const void *a, const void *b)
{
    const struct io_part *x = a, *y = b;
    if (x->amount.total_ns != y->amount.total_ns)
        return x->amount.total_ns < y->amount.total_ns ? 1 : -1;
    int order = strcmp(x->where, y->where);
    return order ? order : strcmp(x->what, y->what);
}

/* Of the same site and words: one, with the histograms in step. */
static int add_part(struct io_site *site, const struct account *a)
{
    for (size_t i = 0; i < site->part_count; i++)
        if (strcmp(site->parts[i].what, a->what) == 0 && strcmp(site->parts[i].where, a->where) == 0) {
            add_amount(&site->parts[i].amount, &a->amount);
            return 0;
        }
    struct io_part *parts = realloc(site->parts, (site->part_count + 1) * sizeof(*parts));
    if (!parts)
        return -ENOMEM;
    site->parts = parts;
    parts[site->part_count++] = (struct io_part){a->what, a->where, a->amount};
    return 0;
}

static struct io_site *site_for(const struct io *io, const struct business_rules *rules,
                                const struct account *a, struct map *by_frame, struct io_sites *sites)
{
    bool is_new;
    uint32_t frame = site_of(io, rules, a->node);
    uint64_t *place = map_put(by_frame, (uint64_t)frame << 1 | a->by_kernel, &is_new);
    if (!place)
        return NULL;
    if (is_new) {
        *place = sites->count;
        sites->at[sites->count++] = (struct io_site){.frame = frame, .by_kernel = a->by_kernel};
    }
    return &sites->at[*place];
}

int io_sites(const struct io *io, const struct business_rules *rules, struct io_sites *ret_sites)
{
    struct io_sites sites = {.at = calloc(io->accounts.count + 1, sizeof(*sites.at))};
    histogram *took = calloc(io->accounts.count + 2, sizeof(*took)); /* behind those of sites: all, kernel */
    uint64_t *most = calloc(io->accounts.count + 1, sizeof(*most));
    struct map by_frame = {0};
    size_t n = io->accounts.count;
    bool failed = !sites.at || !took || !most;
    for (size_t i = 0; i < n && !failed; i++) {
        const struct account *a = &io->accounts.at[i];
        struct io_site *site = site_for(io, rules, a, &by_frame, &sites);
        failed = !site || add_part(site, a) < 0;
        if (failed)
            break;
        size_t at = (size_t)(site - sites.at);
        if (!site->stack || a->amount.total_ns > most[at]) {
            site->stack = a->node;
            most[at] = a->amount.total_ns;
        }
        add_amount(&site->amount, &a->amount);
        add_amount(&sites.all, &a->amount);
        add_histogram(took[at], a);
        add_histogram(took[n], a);
        if (a->by_kernel) {
            add_amount(&sites.by_kernel, &a->amount);
            add_histogram(took[n + 1], a);
        }
    }
    for (size_t i = 0; i < sites.count && !failed; i++) {
        set_most(&sites.at[i].amount, took[i]);
        qsort(sites.at[i].parts, sites.at[i].part_count, sizeof(*sites.at[i].parts), parts_by_time);
    }
    if (!failed) {
        set_most(&sites.all, took[n]);
        set_most(&sites.by_kernel, took[n + 1]);
        qsort(sites.at, sites.count, sizeof(*sites.at), by_time);
    }
    map_done(&by_frame);
    free(took);
    free(most);
    if (failed) {
        io_sites_done(&sites);
        return -ENOMEM;
    }
    *ret_sites = sites;
    return 0;
}

void io_sites_done(struct io_sites *sites)
{
    for (size_t i = 0; sites->at && i < sites->count; i++)
        free(sites->at[i].parts);
    free(sites->at);
    *sites = (struct io_sites){0};
}

static uint64_t weight_of(enum io_weight weight, uint64_t count, uint64_t bytes, uint64_t ns)
{
    return weight == IO_BYTES ? bytes : weight == IO_TIME ? ns : count;
}

void io_into_profile(const struct io *io, enum io_weight weight)
{
    uint32_t *nodes = calloc(io->stacks->nodes.count, sizeof(*nodes)); /* in the profile, by ours */
    if (!nodes) {
        io->profile->failed = true;
        return;
    }
    for (uint32_t node = 1; node < io->stacks->nodes.count; node++) { /* parents come first */
        const struct profile_node *n = &io->stacks->nodes.at[node];
        const uint64_t *place = map_get(&io->account_of, node);
        nodes[node] = profile_child(io->profile, nodes[n->parent], n->frame);
        if (!place)
            continue;
        const struct io_amount *a = &io->accounts.at[*place].amount;
        profile_count(io->profile, nodes[node], a->count, weight_of(weight, a->count, a->bytes, a->total_ns));
    }
    array_foreach (&io->kept, k) {
        uint64_t each = weight_of(weight, 1, k->request.bytes, k->request.took_ns);
        struct profile_sample sample = {k->request.begun_ns, each * MAX(k->request.stands_for, 1ull),
                                        k->request.pid, k->request.tid,
                                        nodes[io->accounts.at[k->account].node]};
        profile_keep(io->profile, &sample);
    }
    free(nodes);
}

/* Names of kernel functions, as the kernel itself prints them. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/kernel_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/map.h"
#include "sampler.skel.h"

/* Addresses that are kept; there are some hundred thousand functions, but a profile meets few of them. */
#define KEPT 65536

struct kernel_names {
    struct sampler_bpf *bpf;
    struct map known; /* address -> char *, or 0: it has no name */
};

int kernel_names_new(struct sampler_bpf *bpf, struct kernel_names **ret_names)
{
    struct kernel_names *n = calloc(1, sizeof(*n));
    if (!n)
        return -ENOMEM;
    n->bpf = bpf;
    *ret_names = n;
    return 0;
}

static void forget(struct kernel_names *n)
{
    map_foreach (&n->known, slot)
        free((char *)(uintptr_t)slot->value);
    map_clear(&n->known);
}

void kernel_names_free(struct kernel_names *n)
{
    if (!n)
        return;
    forget(n);
    map_done(&n->known);
    free(n);
}

/* "name" or "name [module]"; an address that belongs to nothing is printed as a number. */
static char *ask(struct kernel_names *n, uint64_t address)
{
    LIBBPF_OPTS(bpf_test_run_opts, run);
    char *name = n->bpf->bss->kernel_name;
    n->bpf->bss->kernel_address = address;
    if (bpf_prog_test_run_opts(bpf_program__fd(n->bpf->progs.on_name), &run) < 0 || run.retval ||
        strncmp(name, "0x", 2) == 0)
        return NULL;
    return strndup(name, strcspn(name, " "));
}

const char *kernel_names_at(struct kernel_names *n, uint64_t address)
{
    bool added;
    if (n->known.count >= KEPT)
        forget(n);
    uint64_t *slot = map_put(&n->known, address, &added);
    if (!slot)
        return NULL;
    if (added)
        *slot = (uintptr_t)ask(n, address);
    return (const char *)(uintptr_t)*slot;
}

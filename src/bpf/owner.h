/* Whose a process is, for the sampler (struct sampler_owner). Included by sampler.bpf.c. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_OWNER_H
#define BPF_OWNER_H

#include "bpf/kernel.h"
#include "unwind/sampler.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
    u32 val;
} kuid_t;

struct user_namespace {
    struct ns_common ns;
};

struct cred {
    kuid_t uid;
    kuid_t suid;
    kuid_t euid;
    kuid_t fsuid;
    struct user_namespace *user_ns;
};

struct task_struct___owned {
    const struct cred *real_cred;
};

struct mm_struct___number { /* before Linux 6.18 */
    unsigned long flags;
};

struct mm_struct___bits {
    struct {
        unsigned long __mm_flags[1];
    } flags;
};

#pragma clang attribute pop

/* May its user trace it? Not, where it runs a program with more rights than its user's, or has asked for
 * that. */
static __always_inline int is_dumpable(struct task_struct *task)
{
    enum { DUMPABLE = 3, BY_ITS_USER = 1 };
    struct mm_struct *mm = BPF_CORE_READ(task, mm);
    struct mm_struct___number *number = (void *)mm;
    struct mm_struct___bits *bits = (void *)mm;
    unsigned long flags = 0;
    if (!mm)
        return 0;
    if (bpf_core_field_exists(bits->flags.__mm_flags))
        bpf_core_read(&flags, sizeof(flags), &bits->flags.__mm_flags);
    else if (bpf_core_field_exists(number->flags))
        flags = BPF_CORE_READ(number, flags);
    return (flags & DUMPABLE) == BY_ITS_USER;
}

/* Not known, where the kernel keeps it from its user. */
static __always_inline void note_owner(struct sampler_owner *owner, struct task_struct *task)
{
    const struct cred *cred = BPF_CORE_READ((struct task_struct___owned *)task, real_cred);
    owner->user_namespace = is_dumpable(task) ? BPF_CORE_READ(cred, user_ns, ns.inum) : 0;
    owner->users[0] = BPF_CORE_READ(cred, uid.val);
    owner->users[1] = BPF_CORE_READ(cred, euid.val);
    owner->users[2] = BPF_CORE_READ(cred, suid.val);
    owner->users[3] = BPF_CORE_READ(cred, fsuid.val);
}

#endif

/* The compiled form of .eh_frame that both the BPF sampler and the user-space unwinder step with.
 * Compiles for BPF and for user space: only fixed-width types, no includes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_ROWS_H
#define UNWIND_ROWS_H

/* Where the canonical frame address (the value of rsp before the call) is. */
enum unwind_cfa {
    CFA_RSP = 0,     /* rsp + cfa_offset */
    CFA_RBP = 1,     /* rbp + cfa_offset */
    CFA_PLT = 2,     /* a lazy binding stub: rsp + 8, and 8 more from byte 11 of each 16 */
    CFA_END = 3,     /* the outermost frame: there is no caller */
    CFA_GAP = 4,     /* no table covers this code, or with rules that are not supported */
    CFA_DEREF = 5,   /* *(rbp + cfa_offset): main() with a realigned stack */
    CFA_SIGNAL = 6,  /* a signal frame: the interrupted registers lie at rsp + cfa_offset */
    CFA_RESOLVE = 7, /* the lazy binder, which realigns its stack by a register that is not followed: above it
                        lie the module's link_map, a small number, and the return address */
    CFA_RSP_WORDS = 8, /* rsp + 8 * cfa_offset: frames of more than 32 KB */
};

/* Where the caller's rbp is. */
enum unwind_rbp {
    RBP_SAME = 0,
    RBP_AT_CFA = 1, /* *(CFA + 8 * rbp_offset) */
    RBP_AT_RBP = 2, /* *(rbp + 8 * rbp_offset) */
};

/* The rule for code from pc (relative to the module's lowest address) up to the next row's.
 *   byte 0..3 pc, 4..5 cfa_offset, 6 rbp_offset in words, 7 rule: low half enum unwind_cfa, high half
 * unwind_rbp */
struct unwind_row {
    unsigned int pc;
    short cfa_offset;
    signed char rbp_offset;
    unsigned char rule;
};

/* How far the lazy binder's frame may reach (it saves the vector registers), and what its number is below. */
#define UNWIND_RESOLVE_BYTES 4096
#define UNWIND_RESOLVE_INDEX 0x1000000

/* Code without a rule, when it is the innermost: a few words are looked through for a return address. */
#define UNWIND_LEAF_WORDS 4

/* Do the 8 bytes before an address end in a call? E8 with 4 bytes; FF /2 with 1, 2, 5 or 6. */
static inline __attribute__((always_inline)) int unwind_follows_call(unsigned long long bytes)
{
#define CALLS_(at) ((unsigned char)(bytes >> 8 * (at)) == 0xff && ((bytes >> (8 * ((at) + 1) + 3)) & 7) == 2)
    return (unsigned char)(bytes >> 24) == 0xe8 || CALLS_(6) || CALLS_(5) || CALLS_(2) || CALLS_(1);
#undef CALLS_
}

#endif

/* The compiled form of .eh_frame that both the BPF sampler and the user-space unwinder step with.
 * Compiles for BPF and for user space: only fixed-width types, no includes. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_ROWS_H
#define UNWIND_ROWS_H

/* Where the canonical frame address (the value of rsp before the call) is. */
enum unwind_cfa {
    CFA_RSP = 0,    /* rsp + cfa_offset */
    CFA_RBP = 1,    /* rbp + cfa_offset */
    CFA_PLT = 2,    /* a lazy binding stub: rsp + 8, and 8 more from byte 11 of each 16 */
    CFA_END = 3,    /* the outermost frame: there is no caller */
    CFA_GAP = 4,    /* no table covers this code, or with rules that are not supported */
    CFA_DEREF = 5,  /* *(rbp + cfa_offset): main() with a realigned stack */
    CFA_SIGNAL = 6, /* a signal frame: the interrupted registers lie at rsp + cfa_offset */
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

#endif

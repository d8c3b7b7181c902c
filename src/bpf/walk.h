/* How the sampler in the kernel walks a stack: the native one by compiled unwind rows, frame pointers, or
 * V8's and HotSpot's frames, and CPython's frames. Included by sampler.bpf.c alone, since a BPF program is
 * one object. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#ifndef BPF_WALK_H
#define BPF_WALK_H

#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#include "unwind/sampler.h"

/* Set before loading. */
const volatile unsigned int row_limit = 1;
const volatile unsigned int page_limit = 1;

struct registers {
    u64 pc, sp, fp;
};

struct sample {
    struct sampler_sample head;
    u64 words[SAMPLER_WORDS];
    /* Where the walk stands. Here and not on the stack, because the verifier would follow their every value.
     */
    struct registers r;
    u32 end;     /* enum sampler_end */
    u32 at;      /* next free word */
    u32 mapping; /* the last one, tried first */
    u32 unmet;   /* 1: the walk ended at CODE_UNMET */
    u64 tick_ns; /* when this CPU's clock ticked last */
    u64 word;    /* what read_stack() read */
    u64 window_at;
    u64 window[SAMPLER_WINDOW]; /* of the stack, from there on */
};

enum found_code {
    CODE_UNKNOWN = 16, /* no mapping covers it */
    CODE_NO_ROW = 17,  /* its mapping has no row for it */
};

/* What was found for a pc, so that it need not be searched for at the next tick. */
struct found_row {
    u64 pc;
    u32 serial; /* of the process' description, 0: none */
    u32 code;   /* enum sampler_code, enum found_code */
    struct unwind_row row;
};

struct cache {
    struct found_row at[1 << SAMPLER_CACHE_BITS];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, u32);
    __type(value, struct unwind_row);
    __uint(max_entries, 1);
} rows SEC(".maps");

/* For each page of a module's code, the first of its rows. 64 bits, because an array's elements are that far
 * apart. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, u32);
    __type(value, u64);
    __uint(max_entries, 1);
} pages SEC(".maps");

/* The verifier looks at a function that is not static once, on its own, instead of at every call and for
 * everything that its caller may have done before. Loading takes as long as it looks. */
#define VERIFIED_ALONE __attribute__((noinline))

struct search {
    u32 low, high;
    u64 pc;
    struct sampler_process *process;
};

/* Keeps the compiler from reasoning away a bound that the verifier needs to see. */
#define HIDE(x) asm volatile("" : "+r"(x))

static __always_inline void put(struct sample *s, u64 word)
{
    u32 at = s->at;
    HIDE(at);
    if (at < SAMPLER_WORDS) {
        u64 index = at;
        HIDE(index);
        s->words[index] = word;
    }
    s->at = at + 1;
}

static long find_mapping(u32 i, void *context)
{
    struct search *s = context;
    if (s->low >= s->high)
        return 1;
    u32 middle = (s->low + s->high) >> 1;
    if (middle >= SAMPLER_MAPPINGS)
        return 1;
    if (s->process->mappings[middle].start <= s->pc)
        s->low = middle + 1;
    else
        s->high = middle;
    return 0;
}

static long find_row(u32 i, void *context)
{
    struct search *s = context;
    if (s->low >= s->high)
        return 1;
    u32 middle = (s->low + s->high) >> 1;
    struct unwind_row *row = bpf_map_lookup_elem(&rows, &middle);
    if (!row)
        return 1;
    if (row->pc <= (u32)s->pc)
        s->low = middle + 1;
    else
        s->high = middle;
    return 0;
}

static __always_inline int stop(struct sample *s, u32 end)
{
    s->end = end;
    return 1;
}

static __always_inline int go_to(struct sample *s, u64 pc, u64 sp, u64 fp)
{
    s->r.pc = pc;
    s->r.sp = sp;
    s->r.fp = fp;
    return pc ? 0 : stop(s, END_COMPLETE);
}

/* One word of the stack, into sample->word. Callers' words lie close together, so that many are read at once.
 */
VERIFIED_ALONE int read_stack(struct sample *s, u64 address)
{
    if (!s)
        return -1;
    u64 at = address - s->window_at;
    HIDE(at);
    if (at >= sizeof(s->window)) {
        s->window_at = address;
        at = 0;
        if (bpf_probe_read_user(s->window, sizeof(s->window), (void *)address)) {
            s->window_at = -sizeof(s->window); /* nothing is there: near the stack's end */
            return bpf_probe_read_user(&s->word, 8, (void *)address);
        }
    }
    if (at & 7)
        return bpf_probe_read_user(&s->word, 8, (void *)address);
    at >>= 3;
    HIDE(at);
    if (at >= SAMPLER_WINDOW)
        return -1;
    HIDE(at);
    s->word = s->window[at];
    return 0;
}

/* [fp]: the caller's fp, [fp + 8]: the return address. */
VERIFIED_ALONE int step_pointer(struct sample *s, u32 why)
{
    u64 pair[2];
    if (!s)
        return 1;
    u64 fp = s->r.fp;
    if (fp < s->r.sp || fp & 7)
        return stop(s, fp ? why : END_COMPLETE);
    if (bpf_probe_read_user(pair, sizeof(pair), (void *)fp))
        return stop(s, END_NO_MEMORY);
    return go_to(s, pair[1], fp + 16, pair[0]);
}

struct resolve {
    struct sample *sample;
    u64 sp;
};

/* The lazy binder's caller: see CFA_RESOLVE. */
static long find_resolved(u32 i, void *context)
{
    struct resolve *r = context;
    u64 words[3], code = 0, at = (r->sp & ~15ull) + 16ull * i + 8;
    if (bpf_probe_read_user(words, sizeof(words), (void *)(at - 16)))
        return 1;
    if (words[0] < 4096 || words[0] & 7 || words[1] >= UNWIND_RESOLVE_INDEX || words[2] < 4096 ||
        bpf_probe_read_user(&code, sizeof(code), (void *)(words[2] - 8)) || !unwind_follows_call(code))
        return 0;
    r->sample->r.pc = words[2];
    r->sample->r.sp = at + 8;
    return 1;
}

VERIFIED_ALONE int step_resolve(struct sample *s)
{
    if (!s)
        return 1;
    struct resolve r = {.sample = s, .sp = s->r.sp};
    bpf_loop(UNWIND_RESOLVE_BYTES / 16, find_resolved, &r, 0);
    return s->r.sp != r.sp ? 0 : stop(s, END_NO_ROW);
}

/* Assembly without rules, innermost: what called it lies near the top of the stack. */
VERIFIED_ALONE int step_leaf(struct sample *s, u32 why)
{
    u64 words[UNWIND_LEAF_WORDS];
    if (!s)
        return 1;
    if (bpf_probe_read_user(words, sizeof(words), (void *)s->r.sp))
        return stop(s, END_NO_MEMORY);
#pragma unroll
    for (u32 i = 0; i < UNWIND_LEAF_WORDS; i++) {
        u64 code = 0;
        if (words[i] < 4096 || bpf_probe_read_user(&code, sizeof(code), (void *)(words[i] - 8)) ||
            !unwind_follows_call(code))
            continue;
        return go_to(s, words[i], s->r.sp + 8 * i + 8, s->r.fp);
    }
    return step_pointer(s, why);
}

VERIFIED_ALONE int step_script(struct sample *s, u32 first)
{
    u64 words[7]; /* fp - 40 ... fp + 8 */
    if (!s)
        return 1;
    u64 pc = s->r.pc, sp = s->r.sp, fp = s->r.fp;
    if (first) {
        u32 code = 0;
        bpf_probe_read_user(&code, sizeof(code), (void *)pc);
        if ((code & 0xffffff) == 0x894855 ||
            (code & 0xff) == 0xc3) { /* the frame is not there yet, or any more */
            put(s, pc);
            if (bpf_probe_read_user(&pc, sizeof(pc), (void *)sp))
                return stop(s, END_NO_MEMORY);
            s->r.pc = pc;
            s->r.sp = sp + 8;
            return 0;
        }
    }
    u32 end = fp < sp || fp & 7                                              ? END_NO_FRAME
              : bpf_probe_read_user(words, sizeof(words), (void *)(fp - 40)) ? END_NO_MEMORY
                                                                             : END_COMPLETE;
    if (end) {
        put(s, pc);
        return stop(s, end);
    }
    put(s, pc | SAMPLER_SCRIPT << SAMPLER_TAG_SHIFT);
    put(s, words[4]);
    put(s, words[3]);
    put(s, words[1]);
    put(s, words[0]);
    return go_to(s, words[6], fp + 16, words[5]);
}

static __always_inline u64 read_word(u64 address)
{
    u64 word = 0;
    bpf_probe_read_user(&word, sizeof(word), (void *)address);
    return word;
}

/* What its user's half compares with what lies there when it reads the name: the class may have been
 * unloaded, and its place taken, by then. */
VERIFIED_ALONE u64 java_identity(struct sampler_process *p, u64 method)
{
    struct sampler_java_name name = {0};
    u16 index, length;
    if (!p || !p->java.symbol_mask)
        return 0;
    u64 constant = read_word(method + p->java.method_const);
    u64 pool = read_word(constant + p->java.const_pool);
    if (!constant || !pool ||
        bpf_probe_read_user(&index, sizeof(index), (void *)(constant + p->java.const_name)))
        return 0;
    u64 class = read_word(pool + p->java.pool_holder);
    name.method_symbol = read_word(pool + p->java.pool_size + 8ull * index);
    name.class_symbol = class ? read_word(class + p->java.class_name) : 0;
    name.method_word = read_word(name.method_symbol);
    name.class_word = read_word(name.class_symbol);
    if (!name.method_word || !name.class_word ||
        bpf_probe_read_user(&length, sizeof(length), (void *)(name.class_symbol + p->java.symbol_length)))
        return 0;
    if (length >= 8)
        name.class_end = read_word(name.class_symbol + p->java.symbol_body + length - 8);
    return sampler_java_identity(&name, p->java.symbol_mask);
}

/* The interpreter: the caller's stack pointer, the method and the position in its bytecodes lie in the frame.
 */
VERIFIED_ALONE int step_java_interpreter(struct sampler_process *p, struct sample *s)
{
    u64 words[10]; /* fp - 64 ... fp + 8 */
    if (!p || !s)
        return 1;
    u64 pc = s->r.pc, sp = s->r.sp, fp = s->r.fp;
    u32 end = fp < sp || fp & 7                                              ? END_NO_FRAME
              : bpf_probe_read_user(words, sizeof(words), (void *)(fp - 64)) ? END_NO_MEMORY
                                                                             : END_COMPLETE;
    if (end) {
        put(s, pc);
        return stop(s, end);
    }
    put(s, pc | SAMPLER_JAVA << SAMPLER_TAG_SHIFT);
    put(s, words[5]);
    put(s, words[0]);
    put(s, java_identity(p, words[5]));
    sp = words[7] > fp ? words[7] : fp + 16; /* what the sender had, without the callee's parameters */
    return go_to(s, words[9], sp < fp + 16 ? fp + 16 : sp, words[8]);
}

/* Before the epilogue's last instructions the frame is partly gone; compiled Java code has no rules for that:
 * 0, or how far above the stack pointer the frame ends. */
VERIFIED_ALONE int java_epilogue(struct sample *s)
{
    u64 bytes = 0;
    if (!s)
        return 0;
    bpf_probe_read_user(&bytes, sizeof(bytes), (void *)s->r.pc);
    u8 code = (u8)bytes;
    /* ret; cmp rsp, [r15 + n] (the poll for a safepoint) before it; ja behind that */
    if (code == 0xc3 || (bytes & 0xffffff) == 0xa73b49 || (bytes & 0xffffff) == 0x673b49 ||
        ((bytes & 0xffff) == 0x870f && (u8)(bytes >> 48) == 0xc3))
        return 8;
    if (code == 0x5d) { /* pop rbp */
        bpf_probe_read_user(&s->r.fp, 8, (void *)s->r.sp);
        return 16;
    }
    return 0;
}

static __always_inline struct sampler_mapping *mapping_at(struct sampler_process *p, u64 at)
{
    HIDE(at);
    if (at >= SAMPLER_MAPPINGS)
        return 0;
    HIDE(at); /* so that the address is computed after the check */
    return &p->mappings[at];
}

static __always_inline struct unwind_row *row_at(struct sampler_mapping *m, u64 pc)
{
    u32 relative = (u32)(pc - m->bias);
    struct search s = {.low = m->rows_low, .high = m->rows_high, .pc = relative};
    if (m->page_base) {
        u32 page = m->page_base + ((relative >> SAMPLER_PAGE_BITS) - m->page_first);
        u64 *low = bpf_map_lookup_elem(&pages, &page);
        page++;
        u64 *high = bpf_map_lookup_elem(&pages, &page);
        if (low && high) {
            s.low = (u32)*low;
            s.high = (u32)*high;
        }
    }
    bpf_loop(23, find_row, &s, 0);
    u32 found = s.low;
    if (found <= m->rows_low)
        return 0;
    found--;
    return bpf_map_lookup_elem(&rows, &found);
}

/* How the code at pc is stepped through, into *found. */
VERIFIED_ALONE int find_code(struct sampler_process *p, struct sample *s, struct found_row *found, u64 pc)
{
    if (!p || !s || !found)
        return -1;
    found->pc = pc;
    found->serial = p->serial;
    found->code = CODE_UNKNOWN;
    struct sampler_mapping *m = mapping_at(p, s->mapping);
    if (!m)
        return -1;
    if (!(m->start <= pc && pc < m->end)) {
        struct search search = {.low = 0, .high = p->count, .pc = pc, .process = p};
        bpf_loop(10, find_mapping, &search, 0);
        m = mapping_at(p, (u64)search.low - 1);
        if (!m || pc >= m->end)
            return 0;
        s->mapping = search.low - 1;
    }
    found->code = m->code;
    if (m->code == CODE_SCRIPT || m->code == CODE_POINTER || m->code == CODE_UNMET)
        return 0;
    struct unwind_row *row = row_at(m, pc);
    if (row)
        found->row = *row;
    else
        found->code = CODE_NO_ROW;
    return 0;
}

/* Compiled code that compares strings pushes a word for the time, which no row describes: what seems to be
 * the return address is the caller's rbp then, and the return address (into sample->word) lies above it:
 * behind a call, or in the interpreter. */
VERIFIED_ALONE int is_pushed(struct sampler_process *p, struct sample *s, u64 cfa, u64 ra)
{
    struct found_row caller;
    u64 code = 0;
    if (!p || !s)
        return 0;
    u64 low = p->java_low, size = p->java_high - low;
    if (ra - low < size || read_stack(s, cfa) || s->word - low >= size ||
        bpf_probe_read_user(&code, sizeof(code), (void *)(s->word - 8)))
        return 0;
    if (unwind_follows_call(code))
        return 1;
    __builtin_memset(&caller, 0, sizeof(caller));
    find_code(p, s, &caller, s->word);
    return caller.code == CODE_JAVA && caller.row.cfa_offset == SAMPLER_JAVA_INTERPRETED;
}

/* An interrupted function: rbp at 120, rsp at 160, rip at 168 of what the kernel saved. */
static __always_inline int step_signal(struct sample *s, u64 saved)
{
    u64 fp, words[2];
    if (bpf_probe_read_user(&fp, 8, (void *)(saved + 120)) ||
        bpf_probe_read_user(words, sizeof(words), (void *)(saved + 160)))
        return stop(s, END_NO_MEMORY);
    s->r = (struct registers){.pc = words[1], .sp = words[0], .fp = fp};
    return 0;
}

/* From a frame to its caller's; i: how many frames lie further in. Not 0: that was the last one. */
VERIFIED_ALONE int step_out(struct sampler_process *p, struct sample *s, struct cache *cache, u32 i)
{
    if (!p || !s || !cache)
        return 1;
    u64 pc = s->r.pc - (i ? 1 : 0), sp = s->r.sp;
    u64 slot = (pc * 0x9e3779b97f4a7c15ull) >> (64 - SAMPLER_CACHE_BITS);
    HIDE(slot);
    if (slot >= 1 << SAMPLER_CACHE_BITS)
        return 1;
    HIDE(slot);
    struct found_row *found = &cache->at[slot];
    if (found->pc != pc || found->serial != p->serial)
        find_code(p, s, found, pc);
    u32 code = found->code;
    if (code == CODE_SCRIPT || (code == CODE_UNKNOWN && p->has_script && pc > 4096))
        return step_script(s, i == 0);
    u32 cfa_rule = found->row.rule & 15, rbp_rule = found->row.rule >> 4;
    s64 offset = found->row.cfa_offset, rbp_offset = (s64)found->row.rbp_offset * 8;
    if (code == CODE_JAVA && cfa_rule == CFA_RBP && offset == SAMPLER_JAVA_INTERPRETED)
        return step_java_interpreter(p, s);
    put(s, s->r.pc);
    if (code == CODE_UNMET) {
        s->unmet = 1;
        return stop(s, END_NO_ROW);
    }
    if (code == CODE_NO_ROW)
        cfa_rule = CFA_GAP;
    else if (code != CODE_ROWS && code != CODE_JAVA)
        return step_pointer(s, code == CODE_POINTER ? END_NO_FRAME : END_NO_MODULE);
    u64 cfa, gone = code == CODE_JAVA && i == 0 ? java_epilogue(s) : 0;
    if (code == CODE_JAVA && i == 0 && !gone && cfa_rule == CFA_RBP && s->r.fp - sp > 1 << 16)
        gone = 8; /* a stub that makes no frame */
    if (gone) {
        cfa = sp + gone;
        rbp_rule = RBP_SAME;
    } else if (cfa_rule == CFA_RSP) {
        cfa = sp + offset;
    } else if (cfa_rule == CFA_RSP_WORDS) {
        cfa = sp + 8 * offset;
    } else if (cfa_rule == CFA_RBP) {
        cfa = s->r.fp + offset;
    } else if (cfa_rule == CFA_PLT) {
        cfa = sp + 8 + ((s->r.pc & 15) >= 11 ? 8 : 0);
    } else if (cfa_rule == CFA_DEREF) {
        if (bpf_probe_read_user(&cfa, 8, (void *)(s->r.fp + offset)))
            return stop(s, END_NO_MEMORY);
    } else if (cfa_rule == CFA_SIGNAL) {
        return step_signal(s, sp + offset);
    } else if (cfa_rule == CFA_END) {
        return stop(s, END_COMPLETE);
    } else if (cfa_rule == CFA_RESOLVE) {
        return step_resolve(s);
    } else {
        if (code == CODE_JAVA) /* compiled since: the user's half reads it again and walks a copy */
            return stop(s, END_NO_ROW);
        return i == 0 ? step_leaf(s, END_NO_ROW) : step_pointer(s, END_NO_ROW);
    }
    HIDE(cfa);
    if (rbp_rule != RBP_SAME) { /* below the return address: first */
        read_stack(s, (rbp_rule == RBP_AT_CFA ? cfa : s->r.fp) + rbp_offset);
        s->r.fp = s->word;
    }
    if (read_stack(s, cfa - 8))
        return stop(s, END_NO_MEMORY);
    u64 ra = s->word;
    if (code == CODE_JAVA && i == 0 && rbp_rule == RBP_AT_CFA && is_pushed(p, s, cfa, ra)) {
        s->r.fp = ra;
        ra = s->word;
        cfa += 8;
    }
    if (cfa < sp || (cfa == sp && i)) /* equal: the innermost one took its return address away */
        return stop(s, END_NO_ROW);
    return go_to(s, ra, cfa, s->r.fp);
}

struct walk {
    struct sampler_process *process;
    struct sample *sample;
    struct cache *cache;
};

static long step(u32 i, void *context)
{
    struct walk *w = context;
    return step_out(w->process, w->sample, w->cache, i) ? 1 : 0;
}

/* ---- CPython ---- */

struct python_walk {
    u64 frame;
    struct sample *sample;
    struct sampler_python *python;
};

/* What its user's half compares with what lies there when it reads the name: the function may have been
 * freed, and its place taken, by then. */
VERIFIED_ALONE u64 python_identity(struct sampler_python *py, u64 code)
{
    u64 text[2], name, file;
    u32 line;
    if (!py || bpf_probe_read_user(&line, sizeof(line), (void *)(code + py->code_line)) ||
        bpf_probe_read_user(&name, sizeof(name), (void *)(code + py->code_name)) ||
        bpf_probe_read_user(&file, sizeof(file), (void *)(code + py->code_file)) ||
        bpf_probe_read_user(text, sizeof(text), (void *)(name + py->text_length)))
        return 0;
    return sampler_python_identity(line, name, file, text[0], text[1]);
}

static long step_python(u32 i, void *context)
{
    struct python_walk *c = context;
    struct sampler_python *py = c->python;
    if (c->frame < 4096)
        return 1;
    u8 entry = 0;
    u64 code = read_word(c->frame + py->frame_code);
    u64 instruction = read_word(c->frame + py->frame_instruction);
    if (py->frame_entry >= 0)
        bpf_probe_read_user(&entry, 1, (void *)(c->frame + py->frame_entry));
    else
        entry = 1;
    put(c->sample, code);
    put(c->sample, instruction);
    put(c->sample, entry);
    put(c->sample, python_identity(py, code));
    c->frame = read_word(c->frame + py->frame_previous);
    return 0;
}

static __always_inline void walk_python(struct sampler_process *p, struct sample *s, struct task_struct *task)
{
    struct sampler_python *py = &p->python;
    u32 key = 0;
    if (!py->key_address || bpf_probe_read_user(&key, sizeof(key), (void *)py->key_address) || key >= 32)
        return;
    u64 thread_pointer = BPF_CORE_READ(task, thread.fsbase);
    u64 state = read_word(thread_pointer + py->specifics + 16 * key + 8);
    if (!state)
        return;
    u64 frame = read_word(state + py->thread_frame);
    if (py->cframe_frame >= 0 && frame)
        frame = read_word(frame + py->cframe_frame);
    struct python_walk c = {.frame = frame, .sample = s, .python = py};
    bpf_loop(SAMPLER_PYTHON, step_python, &c, 0);
}

/* ---- CRuby ---- */

struct ruby_walk {
    u64 frame, end;
    struct sample *sample;
    struct sampler_ruby *ruby;
};

/* Of frames of functions in C, which the native stack has; and of one that each thread has below all others.
 */
enum { RUBY_C_FRAME = 0x80, RUBY_TYPE = 0x7fff0001, RUBY_DUMMY = 0x79990001 };

static long step_ruby(u32 i, void *context)
{
    struct ruby_walk *c = context;
    u64 words[5]; /* instruction, stack pointer, sequence, self, environment */
    if (c->frame < 4096 || c->frame >= c->end || bpf_probe_read_user(words, sizeof(words), (void *)c->frame))
        return 1;
    u64 flags = read_word(words[4]);
    if (!(flags & RUBY_C_FRAME) && (flags & RUBY_TYPE) != RUBY_DUMMY && words[2] && words[0]) {
        put(c->sample, words[2]);
        put(c->sample, words[0]);
        put(c->sample, flags);
        put(c->sample, python_identity(&c->ruby->body, read_word(words[2] + c->ruby->sequence_body)));
    }
    c->frame += c->ruby->frame_bytes;
    return 0;
}

/* A thread's variables of a library lie behind the pointer that its table of libraries has for that. */
static __always_inline void walk_ruby(struct sampler_process *p, struct sample *s, struct task_struct *task)
{
    struct sampler_ruby *ruby = &p->ruby;
    u64 module = read_word(ruby->module_address), context[3]; /* stack, its size in words, frame */
    u64 table = read_word(BPF_CORE_READ(task, thread.fsbase) + 8);
    if (!table || !module || module >= 4096)
        return;
    u64 at = read_word(read_word(table + 16 * module) + ruby->variable);
    if (at < 4096 || bpf_probe_read_user(context, sizeof(context), (void *)at))
        return;
    struct ruby_walk c = {.frame = context[2], .end = context[0] + 8 * context[1], .sample = s, .ruby = ruby};
    bpf_loop(SAMPLER_PYTHON, step_ruby, &c, 0);
}

#endif

/* The sampler in the kernel: at each tick of a perf event, and whenever a thread was off the CPU for long
 * enough, walks the kernel's stack, the native stack (by compiled unwind rows, frame pointers, or V8's and
 * HotSpot's frames) and CPython's frames, and sends them. Processes that are not known yet are sent as a copy
 * of their stack. */
/* SPDX-License-Identifier: (GPL-2.0 OR BSD-2-Clause) */
#include "bpf/kernel.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "unwind/sampler.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* Set before loading. */
const volatile unsigned int row_limit = 1;
const volatile unsigned int page_limit = 1;
const volatile unsigned int only_targets = 0;         /* 1: only processes in `targets` */
const volatile unsigned long long off_cpu_min_ns = 0; /* shorter waits are not sent */
const volatile unsigned int want_kernel = 1;
const volatile unsigned int own_pid = 0;               /* the agent does not sample itself */
const volatile unsigned long long clock_period_ns = 0; /* on average, of a clock; 0: another event */

unsigned long long started_ns; /* when the clock was set */

/* A question of the user's half, and the answer of on_name(). */
unsigned long long kernel_address;
char kernel_name[SAMPLER_KERNEL_NAME];

struct sample {
    struct sampler_sample head;
    u64 words[SAMPLER_WORDS];
    /* Where the walk stands. Here and not on the stack, because the verifier would follow their every value.
     */
    u32 at;      /* next free word */
    u32 mapping; /* the last one, tried first */
    u64 tick_ns; /* when this processor's clock ticked last */
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

struct copy {
    struct sampler_sample head;
    u64 registers[3];
    u8 stack[SAMPLER_COPY_BYTES +
             SAMPLER_KERNEL * 8]; /* as far as it was read; behind it the kernel's frames */
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

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, struct sampler_process);
    __uint(max_entries, 8192);
} processes SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, u32);
    __type(value, u32);
    __uint(max_entries, 65536);
} targets SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct sample);
    __uint(max_entries, 2); /* one for ticks, one for switches: a tick may interrupt a switch */
} scratch SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct cache);
    __uint(max_entries, 2);
} caches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, struct copy);
    __uint(max_entries, 2);
} copies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, SAMPLER_RING_BYTES);
} samples SEC(".maps");

/* Stacks of threads that left the CPU, until they are back. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __type(key, u32);
    __type(value, struct sample);
    __uint(max_entries, 1);
} waiting SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, u32);
    __type(value, u64);
    __uint(max_entries, COUNT_MAX);
} counts SEC(".maps");

static __always_inline void count(u32 what)
{
    u64 *n = bpf_map_lookup_elem(&counts, &what);
    if (n)
        *n += 1;
}

/* ---- walking ---- */

struct walk {
    u64 pc, sp, fp;
    struct sampler_process *process;
    struct sample *sample;
    struct cache *cache;
    u32 end; /* enum sampler_end */
};

struct search {
    u32 low, high;
    u64 pc;
    struct sampler_process *process;
};

/* Keeps the compiler from reasoning away a bound that the verifier needs to see. */
#define HIDE(x) asm volatile("" : "+r"(x))

static __always_inline void put(struct walk *w, u64 word)
{
    u32 at = w->sample->at;
    HIDE(at);
    if (at < SAMPLER_WORDS) {
        u64 index = at;
        HIDE(index);
        w->sample->words[index] = word;
    }
    w->sample->at = at + 1;
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

static __always_inline long stop(struct walk *w, u32 end)
{
    w->end = end;
    return 1;
}

/* One word of the stack, into sample->word. Callers' words lie close together, so that many are read at once.
 * Not static, so that the verifier looks at it once instead of at every call. */
__attribute__((noinline)) int read_stack(struct sample *s, u64 address)
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
static __always_inline long step_pointer(struct walk *w, u32 why)
{
    u64 pair[2];
    if (w->fp < w->sp || w->fp & 7)
        return stop(w, w->fp ? why : END_COMPLETE);
    if (bpf_probe_read_user(pair, sizeof(pair), (void *)w->fp))
        return stop(w, END_NO_MEMORY);
    w->sp = w->fp + 16;
    w->fp = pair[0];
    w->pc = pair[1];
    return w->pc ? 0 : stop(w, END_COMPLETE);
}

/* The lazy binder's caller: see CFA_RESOLVE. */
static long find_resolved(u32 i, void *context)
{
    struct walk *w = context;
    u64 words[3], code = 0, at = (w->sp & ~15ull) + 16ull * i + 8;
    if (bpf_probe_read_user(words, sizeof(words), (void *)(at - 16)))
        return 1;
    if (words[0] < 4096 || words[0] & 7 || words[1] >= UNWIND_RESOLVE_INDEX || words[2] < 4096 ||
        bpf_probe_read_user(&code, sizeof(code), (void *)(words[2] - 8)) || !unwind_follows_call(code))
        return 0;
    w->pc = words[2];
    w->sp = at + 8;
    w->end = END_COMPLETE; /* found; step_resolve() puts it back */
    return 1;
}

static __always_inline long step_resolve(struct walk *w)
{
    u32 end = w->end;
    w->end = END_NO_ROW;
    bpf_loop(UNWIND_RESOLVE_BYTES / 16, find_resolved, w, 0);
    if (w->end == END_NO_ROW)
        return 1;
    w->end = end;
    return 0;
}

/* Assembly without rules, innermost: what called it lies near the top of the stack. */
static __always_inline long step_leaf(struct walk *w, u32 why)
{
    u64 words[UNWIND_LEAF_WORDS];
    if (bpf_probe_read_user(words, sizeof(words), (void *)w->sp))
        return stop(w, END_NO_MEMORY);
#pragma unroll
    for (u32 i = 0; i < UNWIND_LEAF_WORDS; i++) {
        u64 code = 0;
        if (words[i] < 4096 || bpf_probe_read_user(&code, sizeof(code), (void *)(words[i] - 8)) ||
            !unwind_follows_call(code))
            continue;
        w->sp += 8 * i + 8;
        w->pc = words[i];
        return 0;
    }
    return step_pointer(w, why);
}

static __always_inline long step_v8(struct walk *w, u32 first)
{
    u64 words[7]; /* fp - 40 ... fp + 8 */
    if (first) {
        u32 code = 0;
        bpf_probe_read_user(&code, sizeof(code), (void *)w->pc);
        if ((code & 0xffffff) == 0x894855 ||
            (code & 0xff) == 0xc3) { /* the frame is not there yet, or any more */
            u64 pc;
            put(w, w->pc);
            if (bpf_probe_read_user(&pc, sizeof(pc), (void *)w->sp))
                return stop(w, END_NO_MEMORY);
            w->pc = pc;
            w->sp += 8;
            return 0;
        }
    }
    if (w->fp < w->sp || w->fp & 7) {
        put(w, w->pc);
        return stop(w, END_NO_FRAME);
    }
    if (bpf_probe_read_user(words, sizeof(words), (void *)(w->fp - 40))) {
        put(w, w->pc);
        return stop(w, END_NO_MEMORY);
    }
    put(w, w->pc | SAMPLER_V8 << SAMPLER_TAG_SHIFT);
    put(w, words[4]);
    put(w, words[3]);
    put(w, words[1]);
    put(w, words[0]);
    w->sp = w->fp + 16;
    w->fp = words[5];
    w->pc = words[6];
    return w->pc ? 0 : stop(w, END_COMPLETE);
}

/* The interpreter: the caller's stack pointer, the method and the position in its bytecodes lie in the frame.
 */
static __always_inline long step_java_interpreter(struct walk *w)
{
    u64 words[10]; /* fp - 64 ... fp + 8 */
    if (w->fp < w->sp || w->fp & 7) {
        put(w, w->pc);
        return stop(w, END_NO_FRAME);
    }
    if (bpf_probe_read_user(words, sizeof(words), (void *)(w->fp - 64))) {
        put(w, w->pc);
        return stop(w, END_NO_MEMORY);
    }
    put(w, w->pc | SAMPLER_JAVA << SAMPLER_TAG_SHIFT);
    put(w, words[5]);
    put(w, words[0]);
    w->sp =
        words[7] > w->fp ? words[7] : w->fp + 16; /* what the sender had, without the callee's parameters */
    if (w->sp < w->fp + 16)
        w->sp = w->fp + 16;
    w->fp = words[8];
    w->pc = words[9];
    return w->pc ? 0 : stop(w, END_COMPLETE);
}

/* Before the epilogue's last instructions the frame is partly gone; compiled Java code has no rules for that.
 */
static __always_inline int java_epilogue(struct walk *w, u64 *cfa)
{
    u64 bytes = 0;
    bpf_probe_read_user(&bytes, sizeof(bytes), (void *)w->pc);
    u8 code = (u8)bytes;
    /* ret; cmp rsp, [r15 + n] (the poll for a safepoint) before it; ja behind that */
    if (code == 0xc3 || (bytes & 0xffffff) == 0xa73b49 || (bytes & 0xffffff) == 0x673b49 ||
        ((bytes & 0xffff) == 0x870f && (u8)(bytes >> 48) == 0xc3)) {
        *cfa = w->sp + 8;
        return 1;
    }
    if (code == 0x5d) { /* pop rbp */
        bpf_probe_read_user(&w->fp, 8, (void *)w->sp);
        *cfa = w->sp + 16;
        return 1;
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
__attribute__((noinline)) int find_code(struct sampler_process *p, struct sample *s, struct found_row *found,
                                        u64 pc)
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
    if (m->code == CODE_V8 || m->code == CODE_POINTER)
        return 0;
    struct unwind_row *row = row_at(m, pc);
    if (row)
        found->row = *row;
    else
        found->code = CODE_NO_ROW;
    return 0;
}

/* Compiled code that compares strings pushes a word meanwhile, of which nothing tells: what seems to be the
 * return address is the caller's rbp then, and the return address (into sample->word) lies above it: behind a
 * call, or in the interpreter. */
__attribute__((noinline)) int is_pushed(struct sampler_process *p, struct sample *s, u64 cfa, u64 ra)
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

static long step(u32 i, void *context)
{
    struct walk *w = context;
    struct sampler_process *p = w->process;
    u64 pc = w->pc - (i ? 1 : 0);
    u64 slot = (pc * 0x9e3779b97f4a7c15ull) >> (64 - SAMPLER_CACHE_BITS);
    HIDE(slot);
    if (slot >= 1 << SAMPLER_CACHE_BITS)
        return 1;
    HIDE(slot);
    struct found_row *found = &w->cache->at[slot];
    if (found->pc != pc || found->serial != p->serial)
        find_code(p, w->sample, found, pc);
    u32 code = found->code;
    if (code == CODE_V8 || (code == CODE_UNKNOWN && p->has_v8 && pc > 4096))
        return step_v8(w, i == 0);
    u32 cfa_rule = found->row.rule & 15, rbp_rule = found->row.rule >> 4;
    s64 offset = found->row.cfa_offset, rbp_offset = (s64)found->row.rbp_offset * 8;
    if (code == CODE_JAVA && cfa_rule == CFA_RBP && offset == SAMPLER_JAVA_INTERPRETED)
        return step_java_interpreter(w);
    put(w, w->pc);
    if (code == CODE_NO_ROW)
        cfa_rule = CFA_GAP;
    else if (code != CODE_ROWS && code != CODE_JAVA)
        return step_pointer(w, code == CODE_POINTER ? END_NO_FRAME : END_NO_MODULE);
    u64 cfa;
    if (code == CODE_JAVA && i == 0 && java_epilogue(w, &cfa)) {
        rbp_rule = RBP_SAME;
    } else if (code == CODE_JAVA && i == 0 && cfa_rule == CFA_RBP && w->fp - w->sp > 1 << 16) {
        cfa = w->sp + 8; /* a stub that makes no frame */
        rbp_rule = RBP_SAME;
    } else if (cfa_rule == CFA_RSP) {
        cfa = w->sp + offset;
    } else if (cfa_rule == CFA_RBP) {
        cfa = w->fp + offset;
    } else if (cfa_rule == CFA_PLT) {
        cfa = w->sp + 8 + ((w->pc & 15) >= 11 ? 8 : 0);
    } else if (cfa_rule == CFA_DEREF) {
        if (bpf_probe_read_user(&cfa, 8, (void *)(w->fp + offset)))
            return stop(w, END_NO_MEMORY);
    } else if (cfa_rule == CFA_SIGNAL) {
        u64 c = w->sp + offset, fp;
        if (bpf_probe_read_user(&fp, 8, (void *)(c + 120)) ||
            bpf_probe_read_user(&w->sp, 8, (void *)(c + 160)) ||
            bpf_probe_read_user(&w->pc, 8, (void *)(c + 168)))
            return stop(w, END_NO_MEMORY);
        w->fp = fp;
        return 0;
    } else if (cfa_rule == CFA_END) {
        return stop(w, END_COMPLETE);
    } else if (cfa_rule == CFA_RESOLVE) {
        return step_resolve(w);
    } else {
        if (code == CODE_JAVA) /* compiled since: the user's half reads it again and walks a copy */
            return stop(w, END_NO_ROW);
        return i == 0 ? step_leaf(w, END_NO_ROW) : step_pointer(w, END_NO_ROW);
    }
    if (rbp_rule != RBP_SAME) { /* below the return address: first */
        read_stack(w->sample, (rbp_rule == RBP_AT_CFA ? cfa : w->fp) + rbp_offset);
        w->fp = w->sample->word;
    }
    if (read_stack(w->sample, cfa - 8))
        return stop(w, END_NO_MEMORY);
    u64 ra = w->sample->word;
    if (code == CODE_JAVA && i == 0 && rbp_rule == RBP_AT_CFA && is_pushed(p, w->sample, cfa, ra)) {
        w->fp = ra;
        ra = w->sample->word;
        cfa += 8;
    }
    if (cfa < w->sp || (cfa == w->sp && i)) /* equal: the innermost one took its return address away */
        return stop(w, END_NO_ROW);
    w->sp = cfa;
    w->pc = ra;
    return ra ? 0 : stop(w, END_COMPLETE);
}

/* ---- CPython ---- */

struct python_walk {
    u64 frame;
    struct walk *w;
    struct sampler_python *python;
};

static __always_inline u64 read_word(u64 address)
{
    u64 word = 0;
    bpf_probe_read_user(&word, sizeof(word), (void *)address);
    return word;
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
    put(c->w, code);
    put(c->w, instruction);
    put(c->w, entry);
    c->frame = read_word(c->frame + py->frame_previous);
    return 0;
}

static __always_inline void walk_python(struct walk *w, struct task_struct *task)
{
    struct sampler_python *py = &w->process->python;
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
    struct python_walk c = {.frame = frame, .w = w, .python = py};
    bpf_loop(SAMPLER_PYTHON, step_python, &c, 0);
}

/* ---- samples ---- */

#define PF_KTHREAD 0x00200000

static __always_inline void begin(struct sampler_sample *head, u32 kind, u64 weight, u64 now_ns)
{
    u64 id = bpf_get_current_pid_tgid();
    head->time_ns = now_ns;
    head->weight = weight;
    head->pid = id >> 32;
    head->tid = (u32)id;
    head->kind = kind;
    head->end = END_COMPLETE;
    head->kernel_words = head->user_words = head->python_words = 0;
    head->cpu = bpf_get_smp_processor_id();
    bpf_get_current_comm(head->name, sizeof(head->name));
}

/* Fills in the stacks; the number of bytes to send. */
static __always_inline u32 fill(void *ctx, struct sample *sample, struct sampler_process *process,
                                struct pt_regs *registers, struct task_struct *task, int in_kernel, u32 slot)
{
    struct walk w = {.process = process, .sample = sample, .end = END_DEPTH};
    u32 before = 0;
    w.cache = bpf_map_lookup_elem(&caches, &slot);
    if (!w.cache)
        return 0;
    if (want_kernel && in_kernel) {
        long n = bpf_get_stack(ctx, sample->words, SAMPLER_KERNEL * 8, 0);
        before = n > 0 ? (u32)n / 8 : 0;
    }
    sample->at = before;
    sample->mapping = 0;
    sample->window_at = -sizeof(sample->window);
    sample->head.kernel_words = before;
    if (process && registers) {
        w.pc = registers->ip;
        w.sp = registers->sp;
        w.fp = registers->bp;
        bpf_loop(SAMPLER_DEPTH, step, &w, 0);
        sample->head.user_words = sample->at - before;
        before = sample->at;
        if (process->python.key_address)
            walk_python(&w, task);
        sample->head.python_words = sample->at - before;
        sample->head.end = w.end;
    } else if (BPF_CORE_READ(task, flags) & PF_KTHREAD) {
        sample->head.end = END_KERNEL;
    }
    u32 at = sample->at;
    if (at > SAMPLER_WORDS) {
        at = SAMPLER_WORDS;
        if (sample->head.kernel_words + sample->head.user_words > SAMPLER_WORDS) {
            sample->head.user_words = SAMPLER_WORDS - SAMPLER_KERNEL;
            sample->head.kernel_words = 0;
            sample->head.end = END_DEPTH;
        }
        sample->head.python_words = 0;
    }
    return sizeof(struct sampler_sample) + at * 8;
}

static __always_inline void send(struct sample *sample, u64 size)
{
    HIDE(size);
    if (size > sizeof(sample->head) + sizeof(sample->words))
        size = sizeof(sample->head) + sizeof(sample->words);
    HIDE(size);
    if (bpf_ringbuf_output(&samples, sample, size, BPF_RB_NO_WAKEUP))
        count(COUNT_LOST);
}

/* Registers and stack of a process without tables. */
static __always_inline void send_copy(void *ctx, struct pt_regs *registers, int in_kernel, u64 weight,
                                      u64 now_ns, u32 slot)
{
    struct copy *copy = bpf_map_lookup_elem(&copies, &slot);
    if (!copy)
        return;
    begin(&copy->head, SAMPLE_COPY, weight, now_ns);
    copy->registers[0] = registers->ip;
    copy->registers[1] = registers->sp;
    copy->registers[2] = registers->bp;
    /* By pages, because some in the middle may never have been touched: those are zero. */
    u64 from = (registers->sp - SAMPLER_RED_ZONE) & ~(SAMPLER_COPY_STEP - 1ull);
    u64 pages = 0, limit = SAMPLER_COPY_STEPS;
    /* While the user's half is busy, room for more of them matters more. */
    u64 waiting_bytes = bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);
    if (waiting_bytes > SAMPLER_RING_BYTES / 4)
        limit = waiting_bytes > SAMPLER_RING_BYTES / 2 ? 1 : 2;
#pragma unroll
    for (u32 i = 0; i < SAMPLER_COPY_STEPS; i++)
        if (i <= limit && /* the first may hold little of the stack */
            bpf_probe_read_user(copy->stack + i * SAMPLER_COPY_STEP, SAMPLER_COPY_STEP,
                                (void *)(from + i * SAMPLER_COPY_STEP)) == 0)
            pages = i + 1;
    HIDE(pages);
    if (pages > SAMPLER_COPY_STEPS)
        pages = SAMPLER_COPY_STEPS;
    HIDE(pages);
    u64 size = sizeof(struct sampler_sample) + sizeof(copy->registers) + pages * SAMPLER_COPY_STEP;
    copy->head.user_words = 3 + pages * (SAMPLER_COPY_STEP / 8);
    if (want_kernel && in_kernel) {
        long n = bpf_get_stack(ctx, copy->stack + pages * SAMPLER_COPY_STEP, SAMPLER_KERNEL * 8, 0);
        copy->head.kernel_words = n > 0 ? (u32)n / 8 : 0;
        size += copy->head.kernel_words * 8;
    }
    HIDE(size);
    if (size > sizeof(*copy))
        size = sizeof(*copy);
    HIDE(size);
    count(COUNT_UNKNOWN);
    if (bpf_ringbuf_output(&samples, copy, size, BPF_RB_NO_WAKEUP))
        count(COUNT_LOST);
}

static __always_inline int wanted(u32 pid)
{
    if (pid == own_pid)
        return 0;
    return !only_targets || bpf_map_lookup_elem(&targets, &pid) != 0;
}

/* None in the kernel's own threads (also while they use a process's memory), in a process that is about to
 * end, and in io_uring's workers, which never leave the kernel. */
static __always_inline struct pt_regs *user_registers(struct task_struct *task)
{
    if (BPF_CORE_READ(task, flags) & PF_KTHREAD || !BPF_CORE_READ(task, mm))
        return 0;
    struct pt_regs *registers = (struct pt_regs *)bpf_task_pt_regs(task);
    return registers->ip ? registers : 0;
}

/* What a tick stands for. The clock's period is changed at random all the time, which restarts it; so a tick
 * stands for the time since the one before, on this processor. After a longer gap the machine itself stood
 * still. */
static __always_inline u64 weigh(struct bpf_perf_event_data *ctx, struct sample *sample, u64 now_ns)
{
    if (!clock_period_ns)
        return ctx->sample_period;
    u64 elapsed = now_ns - (sample->tick_ns ?: started_ns);
    sample->tick_ns = now_ns;
    return elapsed < 3 * clock_period_ns ? elapsed : clock_period_ns;
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    u32 pid = bpf_get_current_pid_tgid() >> 32, slot = 0;
    struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
    if (!sample)
        return 0;
    u64 now_ns = bpf_ktime_get_ns(), weight = weigh(ctx, sample, now_ns);
    count(COUNT_TICKS);
    if ((u32)bpf_get_current_pid_tgid() == 0 || !wanted(pid)) /* idle */
        return 0;
    u64 ip = ctx->regs.ip, sp = ctx->regs.sp, bp = ctx->regs.bp;
    HIDE(ip);
    HIDE(sp);
    HIDE(bp);
    struct task_struct *task = bpf_get_current_task_btf();
    struct pt_regs copy, *registers = user_registers(task);
    if (registers) {
        copy.ip = ip;
        copy.sp = sp;
        copy.bp = bp;
        if ((s64)ip <= 0) { /* it was in the kernel */
            copy.ip = registers->ip;
            copy.sp = registers->sp;
            copy.bp = registers->bp;
        }
        registers = &copy;
    }
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    int in_kernel = (s64)ip <= 0;
    if (!process && registers) {
        send_copy(ctx, registers, in_kernel, weight, now_ns, slot);
        return 0;
    }
    if (process && process->ignored)
        return 0;
    count(COUNT_SAMPLES);
    begin(&sample->head, SAMPLE_CPU, weight, now_ns);
    u32 size = fill(ctx, sample, process, registers, task, in_kernel, slot);
    if ((sample->head.end == END_NO_MODULE || sample->head.end == END_NO_ROW) && process && registers &&
        now_ns < process->young_until_ns) {
        send_copy(ctx, registers, in_kernel, weight, now_ns, slot);
        return 0;
    }
    send(sample, size);
    return 0;
}

/* ---- off the CPU ---- */

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *previous, struct task_struct *next)
{
    u32 pid = BPF_CORE_READ(previous, tgid), tid = BPF_CORE_READ(previous, pid), slot = 1;
    if (tid && wanted(pid)) {
        struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
        struct sample *sample = bpf_map_lookup_elem(&scratch, &slot);
        if (process && !process->ignored && sample) {
            struct task_struct *task = bpf_get_current_task_btf();
            struct pt_regs copy, *registers = user_registers(task);
            if (registers) {
                copy.ip = registers->ip;
                copy.sp = registers->sp;
                copy.bp = registers->bp;
                registers = &copy;
            }
            begin(&sample->head, SAMPLE_OFF, 0, bpf_ktime_get_ns());
            fill(ctx, sample, process, registers, task, 1, slot);
            bpf_map_update_elem(&waiting, &tid, sample, BPF_ANY);
        } else if (!process && sample) {
            struct task_struct *task = bpf_get_current_task_btf();
            struct pt_regs copy, *registers = user_registers(task);
            if (registers) { /* the user's half learns of the process; this wait gets the kernel's frames only
                              */
                copy.ip = registers->ip;
                copy.sp = registers->sp;
                copy.bp = registers->bp;
                send_copy(ctx, &copy, 0, 0, bpf_ktime_get_ns(), slot);
            }
            begin(&sample->head, SAMPLE_OFF, 0, bpf_ktime_get_ns());
            fill(ctx, sample, 0, 0, task, 1, slot);
            if (registers)
                sample->head.end = END_GONE;
            bpf_map_update_elem(&waiting, &tid, sample, BPF_ANY);
        }
    }
    tid = BPF_CORE_READ(next, pid);
    if (!tid)
        return 0;
    struct sample *sample = bpf_map_lookup_elem(&waiting, &tid);
    if (!sample)
        return 0;
    u64 waited = bpf_ktime_get_ns() - sample->head.time_ns;
    if (waited >= off_cpu_min_ns) {
        sample->head.weight = waited;
        u32 words = sample->head.kernel_words + sample->head.user_words + sample->head.python_words;
        if (words > SAMPLER_WORDS)
            words = SAMPLER_WORDS;
        send(sample, sizeof(struct sampler_sample) + words * 8);
    }
    bpf_map_delete_elem(&waiting, &tid);
    return 0;
}

/* ---- lifecycle ---- */

static __always_inline void send_note(u32 kind, u32 pid, u64 value)
{
    struct sampler_sample *head = bpf_ringbuf_reserve(&samples, sizeof(*head), 0);
    if (!head)
        return;
    begin(head, kind, value, bpf_ktime_get_ns());
    head->pid = pid;
    bpf_ringbuf_submit(head, 0);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    u32 pid = BPF_CORE_READ(parent, tgid), new_pid = BPF_CORE_READ(child, tgid), one = 1;
    if (pid == new_pid || !wanted(pid))
        return 0;
    /* Until it runs another program, it has what its parent has. */
    struct sampler_process *process = bpf_map_lookup_elem(&processes, &pid);
    if (process)
        bpf_map_update_elem(&processes, &new_pid, process, BPF_ANY);
    if (only_targets)
        bpf_map_update_elem(&targets, &new_pid, &one, BPF_ANY);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
    u32 pid = BPF_CORE_READ(task, tgid);
    if (!wanted(pid))
        return 0;
    bpf_map_delete_elem(&processes, &pid);
    send_note(SAMPLE_EXEC, pid, 0);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    u32 pid = BPF_CORE_READ(task, tgid);
    if (BPF_CORE_READ(task, pid) != (int)pid || !wanted(pid))
        return 0;
    bpf_map_delete_elem(&targets, &pid);
    send_note(SAMPLE_EXIT, pid, 0);
    return 0;
}

/* ---- names ---- */

/* Run by the user's half: the name of the kernel's function at kernel_address. */
SEC("syscall")
int on_name(void *context)
{
    static const char format[] = "%ps";
    u64 address = kernel_address;
    return bpf_snprintf(kernel_name, sizeof(kernel_name), format, &address, sizeof(address)) < 0;
}

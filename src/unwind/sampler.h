/* What the sampler in the kernel (bpf/sampler.bpf.c) and its user-space half (profile/sampler.c) share.
 * Compiles for BPF and for user space; the includer provides the integer types. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNWIND_SAMPLER_H
#define UNWIND_SAMPLER_H

#include "unwind/rows.h"

typedef unsigned long long sampler_u64;
typedef unsigned int sampler_u32;

#define SAMPLER_MAPPINGS     384  /* executable mappings of one process */
#define SAMPLER_DEPTH        256  /* user frames of one stack */
#define SAMPLER_KERNEL       127  /* kernel frames of one stack */
#define SAMPLER_PYTHON       128  /* Python frames of one stack */
#define SAMPLER_PYTHON_WORDS 4    /* of each of them */
#define SAMPLER_WORDS        1536 /* of one sample */
#define SAMPLER_PAGE_BITS    10   /* a page of the row index covers 1 KiB of code */
#define SAMPLER_RING_BYTES   (16 << 20)
#define SAMPLER_CACHE_BITS   10  /* of the number of rows that each CPU keeps at hand */
#define SAMPLER_WINDOW       64  /* words of the stack that are read at once */
#define SAMPLER_KERNEL_NAME  128 /* bytes, with the end; the kernel prints at most 512 */
#define SAMPLER_RED_ZONE     128 /* a copy begins with the page of what lies so far below the stack pointer */
#define SAMPLER_WAKER        32  /* kernel frames of who woke a thread, the innermost */
#define SAMPLER_COPY_STEP    4096
#define SAMPLER_COPY_STEPS   7
#define SAMPLER_COPY_BYTES \
    (SAMPLER_COPY_STEP * SAMPLER_COPY_STEPS) /* of the stack of a process that is not known yet */

/* How code in a mapping is stepped through. */
enum sampler_code {
    CODE_ROWS = 0,    /* by its rows */
    CODE_SCRIPT = 1,  /* builtins and generated code of V8 */
    CODE_POINTER = 2, /* by frame pointers */
    CODE_JAVA = 3,    /* HotSpot's code cache: rows, and what the row of the interpreter says */
    CODE_UNMET = 4,   /* rows that nothing has asked for yet, or that found no room: the stack is sent as a
                         copy, where few samples are taken */
};

struct sampler_mapping {
    sampler_u64 start, end; /* by start; [start, end) */
    sampler_u64 bias;       /* row.pc + bias = pc */
    sampler_u32 rows_low, rows_high;
    sampler_u32 page_base;  /* index of the first page's entry, 0: no index */
    sampler_u32 page_first; /* number of the first page */
    sampler_u32 code;       /* enum sampler_code */
    sampler_u32 serial;     /* of its rows where they were read: never that of others. Not for the kernel */
};

/* A row of interpreted Java code carries this value as its cfa_offset. */
#define SAMPLER_JAVA_INTERPRETED 32767

/* CPython's structures: offsets differ between versions. */
struct sampler_python {
    sampler_u64 key_address; /* of the number of the thread-local key of the thread's state; 0: no Python */
    int thread_frame;        /* in the thread's state: the innermost frame, or (with cframe) a structure */
    int cframe_frame;        /* in that structure: the frame; -1 when thread_frame is it */
    int frame_code, frame_previous, frame_instruction,
        frame_entry; /* entry: byte that marks a new C call; -1 none */
    int code_line, code_name,
        code_file;   /* in code objects: which function it is; the latter two are strings */
    int text_length; /* in strings: two words, their length and their hash */
    int specifics;   /* where the thread-specific data begins behind the thread pointer (libc) */
};

/* CRuby's: from a thread's variables to its control frames, and what tells sequences apart (`body`: of a
 * sequence's body, as of Python's code objects). */
struct sampler_ruby {
    sampler_u64 module_address; /* of the number of the library; 0: no Ruby */
    sampler_u64 variable;       /* of the thread's context, among the library's variables */
    struct sampler_python body;
    int frame_bytes, sequence_body;
};

/* Which function a code object is: the next one at its address has another identity, also where its name lies
 * where the former's lay. Never 0. */
static inline sampler_u64 sampler_python_identity(sampler_u32 line, sampler_u64 name, sampler_u64 file,
                                                  sampler_u64 name_length, sampler_u64 name_hash)
{
    const sampler_u64 odd = 0x9e3779b97f4a7c15ull;
    sampler_u64 x = (line ^ name) * odd;
    x = (x ^ x >> 32 ^ file) * odd;
    x = (x ^ x >> 32 ^ name_length) * odd;
    x = (x ^ x >> 32 ^ name_hash) * odd;
    return (x ^ x >> 32) | 1;
}

/* HotSpot's structures, from a method to its own and its class's name: offsets differ between versions. */
struct sampler_java {
    sampler_u64
        symbol_mask;  /* of a symbol's first word: what stays as it is; 0: names cannot be told apart */
    int method_const; /* in methods: the constant part */
    int const_pool, const_name; /* in that: the pool of constants, and which one is the method's name */
    int pool_holder, pool_size; /* in the pool: the class; where the constants begin */
    int class_name;             /* in classes: a symbol */
    int symbol_length, symbol_body;
};

/* What tells a symbol from the next one at its address, and a method from the next one at its. */
struct sampler_java_name {
    sampler_u64 class_symbol, class_word,
        class_end; /* its first word, and the last eight bytes of its text (0: it is shorter) */
    sampler_u64 method_symbol, method_word;
};

/* Never 0. */
static inline sampler_u64 sampler_java_identity(const struct sampler_java_name *name, sampler_u64 symbol_mask)
{
    const sampler_u64 odd = 0x9e3779b97f4a7c15ull;
    sampler_u64 x = name->class_symbol * odd;
    x = (x ^ x >> 32 ^ (name->class_word & symbol_mask)) * odd;
    x = (x ^ x >> 32 ^ name->class_end) * odd;
    x = (x ^ x >> 32 ^ name->method_symbol) * odd;
    x = (x ^ x >> 32 ^ (name->method_word & symbol_mask)) * odd;
    return (x ^ x >> 32) | 1;
}

struct sampler_process {
    sampler_u32 count;      /* of mappings */
    sampler_u32 ignored;    /* not wanted: no samples */
    sampler_u32 has_script; /* code that no mapping covers was generated by V8 */
    sampler_u32 serial;     /* of this description, among all: what was looked up by another one is void */
    sampler_u32 pid;        /* whose it is: children have their parent's until they run another program */
    sampler_u32 unused;
    sampler_u64 java_low, java_high; /* HotSpot's code cache: whoever calls compiled code lies in it */
    sampler_u64 unloads_address;     /* of a count of what was unloaded from the process; 0: there is none */
    sampler_u64 young_until_ns; /* until then, a stack that leads into unknown code is sent as a copy, too */
    struct sampler_python python;
    struct sampler_ruby ruby;
    struct sampler_java java;
    struct sampler_mapping mappings[SAMPLER_MAPPINGS];
};

enum sampler_kind {
    SAMPLE_CPU = 1,  /* a stack at a tick of the clock or another event; weight: its period */
    SAMPLE_OFF = 2,  /* a stack that did not run; weight: nanoseconds */
    SAMPLE_COPY = 3, /* of an unknown process: registers and the top of its stack */
    SAMPLE_EXEC = 4, /* side-band: a process runs another program */
    SAMPLE_EXIT = 5, /* side-band: a process ended */
    SAMPLE_FORK = 6, /* side-band: weight is the child's number */
    SAMPLE_LOCK = 7, /* a stack that is about to wait for a futex; behind its words struct sampler_lock */
    SAMPLE_LOCK_WAKER = 8, /* a stack that is about to end such a wait; weight: the waiting thread */
    SAMPLE_LOCK_END = 9,   /* such a wait, over: time_ns when it began, weight its nanoseconds; no words but
                              struct sampler_lock_end */
    SAMPLE_WAKER = 10,     /* a stack that is about to end a wait of SAMPLE_OFF; weight: the waiting thread */
    SAMPLE_ALLOC = 11,     /* a stack that was given memory; behind its words struct sampler_alloc */
    SAMPLE_FREE = 12,      /* such memory is free again; no words but struct sampler_alloc: its address */
    SAMPLE_REQUEST_END = 13,  /* a request has ended whose stack came with its number as weight; no words but
                                 struct sampler_request */
    SAMPLE_LOCK_RELEASE = 14, /* a stack of a goroutine that lets others go on; weight: the lock's address */
};

/* Which processes are sampled, when not all are. */
enum sampler_target {
    TARGET_RUNS = 1,
    TARGET_STARTS = 2, /* from its next execve on: until then it is the agent's own code */
};

/* Why a user stack ends where it ends. */
enum sampler_end {
    END_COMPLETE = 0,
    END_NO_MODULE = 1, /* code that no known mapping covers */
    END_NO_ROW = 2,    /* no unwind rule */
    END_NO_MEMORY = 3, /* the stack could not be read */
    END_DEPTH = 4,     /* deeper than SAMPLER_DEPTH */
    END_NO_FRAME = 5,  /* the frame pointer leads nowhere */
    END_KERNEL = 6,    /* a kernel thread: it has none */
    /* the first two only in user space: */
    END_UNKNOWN_CODE = 7, /* generated code that nothing names: its frames are a guess */
    END_UNKNOWN_JAVA = 8, /* that of a virtual machine whose tables are not understood */
    END_GONE = 9,         /* the process ended, or waited, before it was read */
    END_REASONS = 10,
};

/* Behind the words of SAMPLE_OFF, when something woke the thread: who did. */
struct sampler_waker {
    sampler_u32 tid, pid; /* what ran there: in an interrupt it has nothing to do with it */
    char name[16];
    sampler_u64 frames[SAMPLER_WAKER]; /* the kernel's, 0 behind the last */
};

/* A futex as it was when a thread began to wait for it. */
struct sampler_lock {
    sampler_u64 address;
    sampler_u32 operation; /* as the call had it, with its flags */
    sampler_u32 expected;  /* the value for which it waits */
    sampler_u32
        words[5];      /* what lay there and behind it: of a pthread mutex word, count, owner, users, kind */
    sampler_u32 known; /* of these words, how many could be read: 0, 1 or 5 */
};

/* What ended a wait for a futex. */
enum sampler_woken {
    WOKEN_NOT = 0,   /* nothing: the thread did not sleep */
    WOKEN_OTHER = 1, /* a timer, a signal, the end of a thread: the waker's number says nothing */
    WOKEN_FUTEX = 2, /* a thread that woke waiters of the futex */
};

struct sampler_lock_end {
    sampler_u32 tid, pid; /* the waker */
    char name[16];
    sampler_u32 woken; /* enum sampler_woken */
    sampler_u32 unused;
};

/* Of goroutines (bpf/goroutines.h): what the cookie of a breakpoint has below the process. Functions have
 * numbers, and one that uses another has the smaller one. */
#define SAMPLER_GO_BYTES(function, offset) ((sampler_u32)(function) << 16 | (offset))
#define SAMPLER_GO_FUNCTION(cookie)        ((sampler_u32)(cookie) >> 16)
#define SAMPLER_GO_OFFSET(cookie)          ((sampler_u32)(cookie)&0xffff)
#define SAMPLER_GO_UNNUMBERED              0x80000000u /* numbers from there on are made up */
#define SAMPLER_GO_SLOT                    2           /* the first of SAMPLER_ALLOC_SLOTS for stacks */

/* Allocations by bytes (bpf/allocs.h). */
#define SAMPLER_DECAYS      5633 /* of e^-x, in steps of 1/256: x up to 22, where less than 2^-31 is left */
#define SAMPLER_ALLOC_SLOTS 4    /* stacks that are being walked on one CPU */

struct sampler_alloc {
    sampler_u64 address, size;
    sampler_u32 followed; /* 1: that it is freed will be known; 0: too many are alive */
    sampler_u32 in_heap;  /* 1: a virtual machine has used up so much of its heap: it stands for itself */
};

/* What a uprobe's program gets with the place: the process it is for (0: any), and a number. Children share
 * their parent's memory until they execute a program, so that breakpoints for both are passed by both. */
#define SAMPLER_COOKIE(pid, bytes) ((sampler_u64)(pid) << 32 | (bytes))

/* News of processes that are watched, for who follows them (profile/follow.h). */
enum sampler_birth_kind {
    BIRTH_FORK = 1, /* pid has begun */
    BIRTH_EXEC = 2, /* it runs another program */
    BIRTH_EXIT = 3,
};

struct sampler_birth {
    sampler_u64 time_ns; /* CLOCK_MONOTONIC */
    sampler_u32 pid, kind;
};

#define SAMPLER_BIRTHS_BYTES (128 << 10)

/* Which memory of which process, of what was sampled and is not free. */
struct sampler_live {
    sampler_u64 address;
    sampler_u32 pid, unused;
};

#define SAMPLER_DISK_NAME 24

/* A request to a disk, or a connection that is opened (bpf/io.h). */
struct sampler_request {
    sampler_u64 id; /* one by one, from 1 */
    sampler_u64 begun_ns, took_ns;
    sampler_u64 stands_for; /* so many requests */
    sampler_u64 bytes;
    sampler_u64 peer_high, peer_low; /* as IPv6 */
    sampler_u32 pid, tid;            /* who began it */
    int result;                      /* 0: it succeeded; of connections a negative errno */
    sampler_u32 operation;           /* of a disk: REQ_OP_... */
    sampler_u32 peer_port;
    char disk[SAMPLER_DISK_NAME];
    sampler_u32 unused;
};

/* Whose a process is, as /proc/PID/status says it: real, effective, saved and file system's user, and the
 * number of the user namespace; 0: not known. */
struct sampler_owner {
    sampler_u32 users[4];
    sampler_u32 user_namespace;
};

/* Before the words of a sample. words: kernel addresses, then user frames, then Python frames.
 * A user frame is its pc; with SAMPLER_SCRIPT in the top bits, four words follow: *(fp-8), *(fp-16),
 * *(fp-32),
 * *(fp-40); with SAMPLER_JAVA three: method, bytecode pointer, and sampler_java_identity() or 0 where that
 * could not be read. A Python frame is: code, instruction, 1 when a C call begins with it,
 * sampler_python_identity() or 0 where that could not be read; of Ruby, in their place: sequence,
 * instruction, flags, the same. SAMPLE_COPY: user_words of pc, sp, fp and the
 * bytes of the stack, then the kernel's addresses. */
struct sampler_sample {
    sampler_u64 time_ns; /* CLOCK_MONOTONIC */
    sampler_u64 weight;
    sampler_u64 ready_ns; /* SAMPLE_OFF, SAMPLE_LOCK_END: of its weight, when it could have run; the last part
                             of it */
    sampler_u64 unloads;  /* 1 + what was at unloads_address; 0: not known */
    sampler_u32 pid, tid;
    sampler_u32 kind; /* enum sampler_kind */
    sampler_u32 end;  /* enum sampler_end */
    sampler_u32 kernel_words, user_words, python_words, cpu;
    sampler_u32 user; /* whose process it is */
    sampler_u32
        goroutine; /* of the records of locks: which one waits, or lets others go on; 0: the thread does */
    char name[16];
    struct sampler_owner owner; /* of SAMPLE_COPY alone */
    sampler_u32 unused;
};

#define SAMPLER_TAG_SHIFT 60
#define SAMPLER_SCRIPT    1ull
#define SAMPLER_JAVA      2ull
#define SAMPLER_PC(word)  ((word) & ((1ull << SAMPLER_TAG_SHIFT) - 1))

/* Every so many runs of the programs that do not run at ticks are timed. */
enum { SAMPLER_TIMED_RUNS = 64 };

/* Counters, summed over CPUs. */
enum sampler_count {
    COUNT_TICKS,        /* the program ran */
    COUNT_SAMPLES,      /* for wanted processes */
    COUNT_LOST,         /* the ring buffer was full, or when a wait ended is not known */
    COUNT_UNKNOWN,      /* sent as copies */
    COUNT_NOTHING,      /* a copy could not be made */
    COUNT_NOT_FOLLOWED, /* allocations that were sampled, but whose end will not be seen */
    COUNT_BIRTHS,       /* processes that were forked by ones that are watched */
    COUNT_TICKS_NS,     /* how long the runs at ticks took */
    COUNT_RUNS,         /* of the other programs */
    COUNT_TIMED_NS,     /* how long every SAMPLER_TIMED_RUNSth of them took */
    COUNT_MAX,
};

#endif

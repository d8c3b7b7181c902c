/* Between the parts of reading HotSpot: unwind.c (where its fields are), unwind_code.c (the code cache), and
 * unwind_names.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TARGETS_HOTSPOT_UNWIND_PARTS_H
#define TARGETS_HOTSPOT_UNWIND_PARTS_H

#include "base/array.h"
#include "base/map.h"
#include "targets/hotspot/unwind.h"
#include "unwind/sampler.h"

/* Fields by (type, name); offsets or, for static ones, addresses. */
enum field {
    HEAPS,
    GROW_LEN,
    GROW_DATA,
    HEAP_MEMORY,
    HEAP_SEGMAP,
    HEAP_LOG2,
    SPACE_LOW,
    SPACE_HIGH,
    BLOCK_USED,
    BLOCK_LENGTH,
    BLOB_NAME,
    BLOB_BEGIN,
    BLOB_END,
    BLOB_CODE,
    BLOB_DATA,
    BLOB_FRAME,
    BLOB_COMPLETE,
    CODE_METHOD,
    CODE_NUMBER,
    SCOPES_DATA,
    SCOPES_PCS,
    SCOPES_DATA_OFFSET,
    DEPENDENCIES,
    METADATA,
    IMMUTABLE,
    MUTABLE,
    RELOCATION,
    PC_OFFSET,
    PC_SCOPE,
    METHOD_CONST,
    CONST_POOL,
    CONST_NAME,
    POOL_HOLDER,
    KLASS_NAME,
    SYMBOL_HASH,
    SYMBOL_LENGTH,
    SYMBOL_BODY,
    VM_MAJOR,
    COUNTERS,
    FIELDS
};

enum blob_kind { BLOB_STUB, BLOB_METHOD, BLOB_INTERPRETER, BLOB_NO_FRAME };

struct blob {
    uint64_t start, end; /* of its code */
    uint64_t blob;       /* the CodeBlob */
    uint64_t method;     /* of a compiled method, read with the blob */
    uint64_t since_ns;   /* in the code cache since then at the latest */
    uint64_t since;      /* and so many classes had been unloaded by then, or HOTSPOT_UNKNOWN */
    uint32_t number;     /* of the compilation */
    uint32_t length;     /* of its block, in segments */
    int32_t frame_words; /* size of its frames, with the return address; 0 or less: by frame pointer */
    uint8_t pushed,
        body; /* offsets at which half of the frame is set up, and all of it; 0: there from the start */
    bool frame_first; /* its first half is the room, then rbp is stored; else rbp is pushed first */
    uint8_t kind;
    bool replaces; /* other code was in its place when the code cache was read before */
    char name[40]; /* of a stub */
};

/* A part of the process's memory: most of the code cache is read from its start to its end. */
struct window {
    uint64_t start;
    size_t size;
    uint8_t bytes[1 << 16];
};

struct hotspot {
    struct native *native;
    pid_t pid;
    struct memory_pages *pages; /* while its tables are read; else NULL */
    uint64_t fields[FIELDS];
    int8_t widths[FIELDS]; /* bytes; negative when it has a sign */
    bool has[FIELDS];
    uint64_t block_size, pool_size, pc_size; /* sizeof HeapBlock, ConstantPool, PcDesc */
    struct sampler_java java;
    struct window window;
    struct stub_name {
        uint64_t address;
        char name[40];
    } last_name; /* thousands of blobs have the same */
    int major;
    ARRAY(struct blob) blobs, former; /* by start; the latter of the reading before, while they are read */
    uint64_t read_ns;                 /* when they had been read */
    uint64_t low, high;
    struct map methods; /* what tells a method from others at its address -> index in names */
    ARRAY(char *) names;
    uint64_t counter;   /* where unloaded classes are counted; 0: not found */
    uint64_t looked_ns; /* when it was looked for last, and how often it was */
    unsigned looks;
};

/* ---- unwind.c ---- */

/* What lies at an address of the process; 0 when it cannot be read. */
uint64_t hotspot_word(const struct hotspot *h, uint64_t address);
int32_t hotspot_number(const struct hotspot *h, uint64_t address);
/* A field of the object that begins at bytes; 0 when it lies behind them. */
int64_t hotspot_take(const struct hotspot *h, const uint8_t *bytes, size_t size, enum field field);
/* A field of the object at an address; 0 when it cannot be read. */
int64_t hotspot_field(const struct hotspot *h, uint64_t object, enum field field);
/* How many classes have been unloaded; HOTSPOT_UNKNOWN: no counter was found, or it cannot be read. */
uint64_t hotspot_unloads_now(const struct hotspot *h);

/* What hotspot_name_layout() answers, from the fields. */
void hotspot_describe_names(struct hotspot *h);

/* ---- unwind_code.c ---- */

bool hotspot_has_code(const struct hotspot *h, uint64_t pc);
/* The code at an address, as it was read last; NULL: none. */
const struct blob *hotspot_blob_at(const struct hotspot *h, uint64_t address);
/* Whether the code that was read is there still. What a method's code leaves is a free block whose end goes
 * to other code, while all that was read of it stays as it was but for the block's head. Of a process that
 * cannot be read any more, what was read last is what was there. */
bool hotspot_is_there(const struct hotspot *h, const struct blob *b);
/* Whether it was there already. When it was found first says so, or that nothing else was in its place and no
 * class was unloaded in between, which is what code leaves for at once. */
bool hotspot_was_there(const struct hotspot *h, const struct blob *b, const struct hotspot_moment *when);

#endif

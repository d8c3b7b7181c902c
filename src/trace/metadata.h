/* The model of a trace's metadata, filled by the two languages (tsdl.c, ctf2.c), checked and resolved by
 * metadata.c, compiled into decoders by layout.c. Private to src/trace. Everything lives in one arena. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRACE_METADATA_H
#define TRACE_METADATA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/array.h"
#include "base/problem.h"
#include "base/macro.h"
#include "trace/event.h"

/* Caps, so that no metadata can exhaust memory or the stack. */
#define METADATA_MAX_BYTES   (64u << 20)
#define METADATA_MAX_CLASSES (1u << 20) /* field classes, after copying aliases */
#define METADATA_MAX_DEPTH   48
#define METADATA_MAX_MEMORY  (1u << 29) /* bytes of the model */
#define METADATA_MAX_SLOTS   65536      /* flattened fields of one event class */

enum field_kind {
    KIND_INTEGER, /* also enumerations, booleans, bit maps */
    KIND_VARINT,  /* LEB128 (CTF 2 variable-length integers) */
    KIND_REAL,
    KIND_STRING, /* NUL-terminated */
    KIND_TEXT,   /* bytes up to the first NUL, static or dynamic length */
    KIND_BLOB,   /* bytes, static or dynamic length */
    KIND_STRUCT,
    KIND_ARRAY, /* static length, or dynamic with a location */
    KIND_VARIANT,
    KIND_OPTIONAL,
};

enum byte_order { ORDER_NATIVE, ORDER_LITTLE, ORDER_BIG };
enum text_encoding {
    ENCODING_NONE,
    ENCODING_UTF8,
    ENCODING_UTF16LE,
    ENCODING_UTF16BE,
    ENCODING_UTF32LE,
    ENCODING_UTF32BE
};

/* What a field means to the reader. Bits of field_class.roles. */
enum field_role {
    ROLE_MAGIC,
    ROLE_STREAM_CLASS_ID,
    ROLE_STREAM_ID,
    ROLE_PACKET_SIZE,
    ROLE_CONTENT_SIZE,
    ROLE_TIME_END,
    ROLE_DISCARDED,
    ROLE_SEQUENCE_NUMBER,
    ROLE_EVENT_ID,
    ROLE_CLOCK, /* moves the stream's clock */
    ROLE_UUID,  /* CTF 2's metadata stream UUID */
    ROLE_COUNT,
};

enum scope {
    ROOT_NONE,
    ROOT_PACKET_HEADER,
    ROOT_PACKET_CONTEXT,
    ROOT_EVENT_HEADER,
    ROOT_COMMON_CONTEXT,
    ROOT_CONTEXT,
    ROOT_PAYLOAD,
    ROOT_COUNT,
};

struct clock_class {
    const char *name, *id, *description;
    uint64_t frequency; /* Hz */
    int64_t offset_s;
    uint64_t offset_cycles;
    int64_t base_ns; /* computed from the offsets */
    bool unix_epoch;
    uint8_t uuid[16];
    bool has_uuid;
    struct clock_class *next;
};

struct field_range {
    union {
        uint64_t low;
        int64_t low_signed;
    };
    union {
        uint64_t high;
        int64_t high_signed;
    };
};

/* How a length or selector field is found: an absolute path from a scope, or names looked up from the nearest
 * enclosing structure outwards. A NULL name is the parent (CTF 2). */
struct field_location {
    enum scope root; /* ROOT_NONE: relative */
    uint32_t count;
    const char **names;
};

struct field_class;

struct field_member {
    const char *name; /* NULL: anonymous (an optional's or array's content) */
    struct field_class *class;
    /* A variant's option: selected by these values; none in TSDL before it is resolved. */
    uint32_t range_count;
    struct field_range *ranges;
    struct field_member *next; /* while parsing */
};

struct field_class {
    uint8_t kind;  /* enum field_kind */
    uint8_t order; /* enum byte_order */
    uint8_t base;
    uint8_t encoding; /* enum text_encoding, of text and of integers that are characters */
    bool is_signed, is_boolean, is_bitmap, is_enum;
    bool reversed; /* bit order is not the byte order's natural one (CTF 2) */
    bool is_text;  /* an array whose elements are characters */
    bool dynamic;  /* the length comes from location */
    uint16_t roles;
    uint32_t align; /* bits, a power of two */
    uint32_t bits;
    uint64_t length; /* static array, text, blob */
    uint32_t label_count;
    struct trace_label *labels;
    struct clock_class *clock;
    uint32_t member_count;
    struct field_member *members;   /* structure, variant (options), array and optional (one: the content) */
    struct field_location location; /* length or selector */
    /* Of an optional with an integer selector. */
    uint32_t range_count;
    struct field_range *ranges;
    /* Resolved: */
    struct field_class *target; /* the length or selector field */
    uint32_t uses;              /* how many fields have this one as their target */
    int32_t saved;              /* number of the register that keeps this field's value; -1 none */
    struct field_class *parent; /* within its scope */
    const char *own_name;
};

struct program;

struct event_meta {
    uint64_t id, stream_id;
    bool has_id, has_stream_id;
    const char *name;
    int log_level;
    struct field_class *context, *payload;
    struct stream_meta *stream;
    struct event_class *public;
    const uint32_t *slots;   /* of the fields in the order of the layout */
    struct program *program; /* common context, context and payload */
    int32_t pid_slot, tid_slot;
    struct event_meta *next;
};

struct stream_meta {
    uint64_t id;
    bool has_id;
    const char *name;
    struct field_class *packet_context, *event_header, *event_context;
    struct clock_class *clock;
    const char *clock_name; /* CTF 2: the default clock's name or id, resolved at the end */
    bool counts_packets;    /* packets have sequence numbers */
    struct program *packet_program, *header_program;
    uint32_t packet_field_count;
    struct trace_field *packet_fields;
    int32_t packet_pid_slot, packet_tid_slot, packet_cpu_slot;
    struct event_meta **by_id; /* dense below by_id_count, else searched in events */
    uint64_t by_id_count;
    struct event_meta *events;
    struct stream_meta *next;
};

struct environment {
    const char *name;
    const char *string; /* NULL: an integer */
    int64_t integer;
    struct environment *next;
};

struct metadata {
    struct arena arena;
    const char *path; /* of the metadata file, for messages */
    int version;      /* 1 or 2 */
    enum byte_order order;
    bool has_uuid;
    uint8_t uuid[16];
    int32_t uuid_offset; /* of the same UUID, in bytes from a packet's begin; -1: packets have none */
    const char *name;
    bool own; /* recorded by sonde */
    struct field_class *packet_header;
    struct program *header_program;
    struct clock_class *clocks;
    struct stream_meta *streams;
    struct event_meta *events; /* while parsing; afterwards they hang off their streams */
    struct environment *environment;
    uint32_t class_count; /* field classes so far */
    uint32_t
        stream_register_count; /* registers of packet and event headers come first: a stream keeps them */
    uint32_t register_count;
    /* The file ends within a packet: bytes that are missing (at least), and where the packet begins. What is
     * declared whole is known. */
    uint64_t cut_bytes, cut_offset;
};

/* Reads and compiles a trace folder's metadata, of either version, packetised or plain. *ret_metadata is
 * owned by the caller. problem names file, line and what was expected. */
int metadata_load(const char *folder, struct problem *problem, struct metadata **ret_metadata);

/* The same from memory; path is only for messages. The data is not kept. */
int metadata_parse(const char *path, const char *data, size_t length, struct problem *problem,
                   struct metadata **ret_metadata);
void metadata_free(struct metadata *metadata);
DEFINE_FREEP(struct metadata, metadata_free)

const char *metadata_environment(const struct metadata *metadata, const char *name);

/* The two languages: fill in everything above "Resolved". */
int tsdl_parse(struct metadata *metadata, const char *text, size_t length, struct problem *problem);
int ctf2_parse(struct metadata *metadata, const char *text, size_t length, struct problem *problem);

/* A new field class, or NULL above the cap or without memory. */
struct field_class *field_class_new(struct metadata *metadata, enum field_kind kind);
/* A deep copy, since references resolve differently wherever a class is used. */
struct field_class *field_class_copy(struct metadata *metadata, const struct field_class *class, int depth);
/* The alignment that the class asks for, computed over its members. */
uint32_t field_class_align(const struct field_class *class);

/* Compiles every scope (layout.c). */
int layout_compile(struct metadata *metadata, struct problem *problem);

#endif

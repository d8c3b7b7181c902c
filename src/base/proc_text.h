/* The texts of /proc, parsed: status, stat, schedstat, maps, cgroup, comm and cmdline, and nowhere else. A
 * process and its container choose names, command lines, control groups and mapped paths, so every text is
 * hostile: each function takes one with its length, never reads beyond it, and accepts any bytes. See proc(5)
 * for the formats. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_PROC_TEXT_H
#define BASE_PROC_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* stat: "PID (NAME) STATE PPID ...". The name may hold anything, also ')' and spaces. */
struct proc_stat {
    char state; /* R, S, D, T, t, Z, X, ... */
    pid_t parent;
    uint64_t user_ticks, system_ticks; /* CPU time */
    uint64_t started_ticks;            /* clock ticks from the machine's start to the process's */
    uint64_t stack_start;              /* an address of the main thread's stack; another one after an exec */
    int exit_code;                     /* as wait(2) gives it; 0 where the kernel does not show it */
};

/* false when the text is none of stat; fields that an old kernel lacks are 0. */
bool proc_parse_stat(const char *text, size_t length, struct proc_stat *ret_stat);

/* schedstat: "RAN WAITED TIMES". */
struct proc_runs {
    uint64_t ran_ns, waited_ns; /* on a CPU, and ready to run without one */
    uint64_t times;             /* that it got a CPU */
};

/* false when the text is none of schedstat, which is empty where the kernel does not count. */
bool proc_parse_runs(const char *text, size_t length, struct proc_runs *ret_runs);

/* status: lines "Name:\tVALUE". The first number of the line, decimal; false when there is none. */
bool proc_parse_status_number(const char *text, size_t length, const char *name, long *ret_number);

/* Bytes of anonymous memory that are resident ("RssAnon"); 0 when there are none. */
uint64_t proc_parse_memory(const char *text, size_t length);

/* All of it, without spaces around; at most size bytes of it. false when there is none. */
bool proc_parse_status_text(const char *text, size_t length, const char *name, char *ret_text, size_t size);

/* The last number of "NSpid:", which is what the process (or thread) is called in the innermost PID namespace
 * that it is in; ret_levels (may be NULL): in how many it is, from ours on. 0 when there is none. */
pid_t proc_parse_innermost(const char *text, size_t length, unsigned *ret_levels);

/* A line of maps: "START-END PERMISSIONS OFFSET MAJOR:MINOR INODE   PATH". */
struct proc_mapping {
    uint64_t start, end, offset;
    bool readable, writable, executable, shared;
    unsigned major, minor;
    uint64_t inode;
    const char *path; /* into the text; path_length 0: anonymous */
    size_t path_length;
};

/* Takes the next line from *text, which is moved behind it; lines that are none are passed over. false at the
 * end. */
bool proc_next_mapping(const char **text, const char *end, struct proc_mapping *ret_mapping);

/* A line of cgroup: "ID:CONTROLLERS:PATH"; no controllers and ID 0 in version 2. The path is the process's
 * own affair and may hold anything but a newline. */
struct proc_cgroup {
    bool unified; /* version 2 */
    const char *controllers, *path;
    size_t controllers_length, path_length;
};

/* As proc_next_mapping(). */
bool proc_next_cgroup(const char **text, const char *end, struct proc_cgroup *ret_cgroup);

/* Is it one of a version 1 hierarchy's controllers? */
bool proc_cgroup_controls(const struct proc_cgroup *cgroup, const char *controller);

/* comm: the name without its newline, with '?' for what is not printable. */
enum { PROC_NAME_BYTES = 64 };
void proc_parse_name(const char *text, size_t length, char ret_name[static PROC_NAME_BYTES]);

/* cmdline: words, each ended by a NUL (the last one perhaps not). The word after `word`, or the first (NULL);
 * NULL at the end. The text must have a NUL behind its length, as file_read() leaves one. */
const char *proc_next_word(const char *text, size_t length, const char *word);

/* Replaces what is no text, in place: names are shown on terminals. NULL is accepted. */
void proc_make_printable(char *text);

#endif

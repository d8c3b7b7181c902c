/* See lsm.h. AppArmor's label is "unconfined" or "PROFILE (MODE)", SELinux' "USER:ROLE:TYPE:LEVEL". Labels
 * are made by who writes policies, for programs and users: hostile text as others of /proc. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/lsm.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "base/macro.h"
#include "base/proc_text.h"

enum { LABEL_MAX = 4096 };

static void say(struct lsm_answer *answer, enum lsm_verdict verdict, const char *remedy, const char *why, ...)
    __attribute__((format(printf, 4, 5)));

static void say(struct lsm_answer *answer, enum lsm_verdict verdict, const char *remedy, const char *why, ...)
{
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(answer->why, sizeof(answer->why), why, arguments);
    va_end(arguments);
    snprintf(answer->remedy, sizeof(answer->remedy), "%s", remedy);
    proc_make_printable(answer->why);
    proc_make_printable(answer->remedy);
    answer->verdict = verdict;
}

/* The file's text without a newline or NUL at its end; NULL: there is none. */
static char *read_line(const char *root, const char *name)
{
    char path[PATH_MAX], *text = NULL;
    if (snprintf(path, sizeof(path), "%s%s", root, name) >= (int)sizeof(path) ||
        file_read(path, LABEL_MAX, &text, NULL) < 0)
        return NULL;
    text[strcspn(text, "\n")] = '\0';
    return text;
}

static bool begins_with(const char *text, const char *begin)
{
    return text && strncmp(text, begin, strlen(begin)) == 0;
}

static bool selinux_enforces(const char *root)
{
    _cleanup_(freep) char *enforce = read_line(root, "/sys/fs/selinux/enforce");
    return begins_with(enforce, "1");
}

/* The type in a label of SELinux; false: it is none. */
static bool find_type(const char *label, char *ret_type, size_t size)
{
    const char *role = label ? strchr(label, ':') : NULL, *type = role ? strchr(role + 1, ':') : NULL;
    if (!type)
        return false;
    snprintf(ret_type, size, "%.*s", (int)strcspn(type + 1, ":"), type + 1);
    return true;
}

static bool is_unconfined(const char *type)
{
    static const char *const TYPES[] = {"unconfined_t", "unconfined_service_t", "spc_t", "kernel_t"};
    for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++)
        if (strcmp(type, TYPES[i]) == 0)
            return true;
    return false;
}

/* The profile of AppArmor whose rules are enforced; false: there is none. */
static bool find_profile(const char *label, char *ret_profile, size_t size)
{
    static const char MODE[] = " (enforce)";
    size_t length = label ? strlen(label) : 0, mode = sizeof(MODE) - 1;
    if (length <= mode || strcmp(label + length - mode, MODE) != 0)
        return false;
    snprintf(ret_profile, size, "%.*s", (int)(length - mode), label);
    return true;
}

void lsm_of_machine(const char *root, struct lsm_answer *ret_answer)
{
    char name[128];
    bool enforces = selinux_enforces(root);
    _cleanup_(freep) char *label = read_line(root, "/proc/self/attr/current");
    _cleanup_(freep) char *deny = read_line(root, "/sys/fs/selinux/booleans/deny_ptrace");
    _cleanup_(freep) char *modules = read_line(root, "/sys/kernel/security/lsm");
    *ret_answer = (struct lsm_answer){.verdict = LSM_FREE};
    if (enforces && begins_with(deny, "1"))
        say(ret_answer, LSM_REFUSES, "sudo setsebool deny_ptrace off",
            "SELinux lets no process trace another (deny_ptrace)");
    else if (enforces && find_type(label, name, sizeof(name)) && !is_unconfined(name))
        say(ret_answer, LSM_MAY_REFUSE, "Start sonde from a shell of an unconfined user.",
            "SELinux confines sonde itself (%s): its rules may refuse to trace", name);
    else if (find_profile(label, name, sizeof(name)))
        say(ret_answer, LSM_MAY_REFUSE,
            "Start sonde outside of it; in a container: --security-opt apparmor=unconfined",
            "AppArmor confines sonde itself (profile %s): its rules may refuse to trace", name);
    else
        say(ret_answer, LSM_FREE, "", "%s%s", modules ? "nothing confines sonde; the kernel has " : "",
            modules ? modules : "none shows itself");
}

void lsm_of_process(const char *root, const char *label, struct lsm_answer *ret_answer)
{
    char name[128], remedy[200];
    _cleanup_(freep) char *own = label ? strdup(label) : NULL;
    if (own)
        own[strcspn(own, "\n")] = '\0';
    *ret_answer = (struct lsm_answer){.verdict = LSM_FREE};
    if (selinux_enforces(root) && find_type(own, name, sizeof(name)) && !is_unconfined(name)) {
        snprintf(remedy, sizeof(remedy), "If attaching fails: sudo semanage permissive -a %s while you trace",
                 name);
        say(ret_answer, LSM_MAY_REFUSE, remedy,
            "SELinux confines it (%s): its rules may refuse to execute code of a memory file", name);
    } else if (find_profile(own, name, sizeof(name))) {
        snprintf(remedy, sizeof(remedy), "If attaching fails: sudo aa-complain %s while you trace", name);
        say(ret_answer, LSM_MAY_REFUSE, remedy,
            "AppArmor confines it (profile %s): its rules may refuse to execute code of a memory file", name);
    } else {
        say(ret_answer, LSM_FREE, "", "%s", own && *own ? own : "none confines it");
    }
}

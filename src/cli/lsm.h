/* What the kernel's security modules (SELinux, AppArmor) say of tracing, beforehand: for `sonde doctor`.
 * Their rules cannot be asked; whose rules apply, and whether they are enforced, can. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LSM_H
#define CLI_LSM_H

#include <stdbool.h>

enum lsm_verdict { LSM_FREE, LSM_MAY_REFUSE, LSM_REFUSES };

struct lsm_answer {
    enum lsm_verdict verdict;
    char why[320], remedy[200]; /* remedy: "" where nothing refuses */
};

/* Of this machine and of sonde itself. root: "", or a directory with a sys and a proc of a test's. */
void lsm_of_machine(const char *root, struct lsm_answer *ret_answer);

/* Of a process that is to be traced; label: /proc/PID/attr/current, or NULL where there is none. */
void lsm_of_process(const char *root, const char *label, struct lsm_answer *ret_answer);

#endif

/* The worker that finds out what a process is and what can be hooked in it: it parses the files that the
 * process has mapped and disassembles functions, has no rights, and answers with a plan (plan.h).
 * target_open() is its only client. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ATTACH_PLAN_WORKER_H
#define ATTACH_PLAN_WORKER_H

#include "broker/worker.h"

/* For broker_new(). One worker for each user and user namespace; what it learns of a file serves all
 * processes that have it mapped. */
extern const struct worker_kind plan_worker;

#endif

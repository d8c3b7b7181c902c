/* Which of all contrasts that were looked at are slower or fail more often: large enough, and the
 * false-discovery rate over all of them controlled (Benjamini and Hochberg). */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIAGNOSE_SELECT_H
#define DIAGNOSE_SELECT_H

#include "diagnose/judge.h"

/* Sets the adjusted p-values of all verdicts, and whether each, or a part of it, is slower or fails more.
 * -ENOMEM. */
int select_verdicts(const struct judge_settings *settings, struct judgement *judgement);

#endif

/* States from the events of kernel tracers: LTTng's and perf's. Driven by states.c. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STATES_KERNEL_STATES_H
#define STATES_KERNEL_STATES_H

#include "states/state_places.h"

struct kernel_states;

/* places is borrowed. 0 or -ENOMEM. */
int kernel_states_new(struct state_places *places, struct kernel_states **ret_states);
void kernel_states_free(struct kernel_states *states);

/* One event of a foreign class. 0 or a negative errno. */
int kernel_states_event(struct kernel_states *states, const struct event *event);

#endif

/* Plans of workers, which are assumed to say anything: bytes as they come, or a plan that is in order with
 * some of its bytes replaced (offset, two bytes; value). */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/plan_sample.h"
#include "attach/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted leads nowhere but into the module that it names. */
static void follow(const struct plan *plan, const struct modules *modules)
{
    array_foreach (&plan->hooks, h) {
        uint8_t out[MOVED_BYTES_MAX];
        if (!h->address)
            continue;
        const struct mapping *m = modules_mapping_at(modules, h->address);
        if (!m || !m->executable || h->address + h->code_size > m->end ||
            modules->list.at[m->module].start != plan->modules.at[h->module].start)
            abort();
        if (h->verdict == PLAN_HOOKED)
            (void)moved_place(&h->moved, h->address + 0x10000000, out, NULL);
    }
    array_foreach (&plan->probes, p)
        if (p->owner && !modules_mapping_at(modules, p->owner)->writable)
            abort();
}

static void read_plan(const uint8_t *data, size_t size)
{
    struct plan plan, again;
    struct modules modules;
    void *bytes;
    size_t length;
    if (plan_decode(data, size, &plan) < 0)
        return;
    if (sample_modules(&modules) < 0)
        abort();
    if (plan_check(&plan, &modules, NULL) == 0)
        follow(&plan, &modules);
    modules_done(&modules);
    if (plan_encode(&plan, &bytes, &length) < 0 || plan_decode(bytes, length, &again) < 0 ||
        again.hooks.count != plan.hooks.count)
        abort();
    free(bytes);
    plan_done(&again);
    plan_done(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan sample = sample_plan();
    void *bytes;
    size_t length;
    if (size && data[0] == 'r') {
        read_plan(data + 1, size - 1);
    } else if (plan_encode(&sample, &bytes, &length) == 0) {
        for (size_t i = 0; i + 3 <= size; i += 3)
            ((uint8_t *)bytes)[(data[i] | data[i + 1] << 8) % length] = data[i + 2];
        read_plan(bytes, length);
        free(bytes);
    }
    plan_done(&sample);
    return 0;
}

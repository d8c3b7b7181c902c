/* Prints doc/events.md from the event catalogue. `make docs` writes it; a test holds it against the
 * catalogue. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "event/event.h"

static void print_field(const struct event_field *field)
{
    static const char *const TYPES[] = {"u8", "u16", "u32", "u64", "i32", "i64", "string"};
    const struct event_meaning *meaning = &event_meanings[field->meaning];
    printf("| `%s` | %s | %s | ", field->name, TYPES[field->type], meaning->unit);
    enum { LABELS_PRINTED = 80 }; /* not every system call */
    if (meaning->label_count > 0 && meaning->label_count < LABELS_PRINTED) {
        for (uint32_t i = 0; i < meaning->label_count; i++)
            printf("%s%s", i ? ", " : "", meaning->labels[i].label);
        printf("; ");
    }
    printf("%s |\n", field->text);
}

int main(void)
{
    puts("# Events\n\n"
         "What a trace of sonde's holds. This page is printed from the catalogue (`src/event/catalogue.h`) "
         "by `make docs`.\n\n"
         "A *span* is recorded once, when it ends: its time is its end, and `duration` says how long it "
         "took. *Probe* "
         "events come from inside the traced process, in the stream of the thread that they happened on; "
         "*collector* "
         "events come from sonde itself, in a stream of its own, and name process and thread in fields, and "
         "so do *kernel* events.");
    for (int id = 1; id < SONDE_EVENT_COUNT; id++) {
        const struct event_description *d = &event_catalogue[id];
        printf("\n## %s\n\n%s, %s: %s.\n\n| field | type | unit | what it says |\n|---|---|---|---|\n",
               d->name,
               d->probe    ? "Probe"
               : d->kernel ? "Kernel"
                           : "Collector",
               d->span ? "span" : "instant", d->text);
        for (int f = d->span ? 0 : 1; f < d->field_count; f++)
            print_field(&d->fields[f]);
    }
    return 0;
}

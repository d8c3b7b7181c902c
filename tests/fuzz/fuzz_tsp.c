/* What viewers send to the Trace Server: parameters of every endpoint that asks a history, and requests for
 * tiles, on a small history. Whatever they are, each answer is a document or a refusal. */
/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/macro.h"
#include "history/tile.h"
#include "serve/tsp_view.h"

enum { ROWS = 3, START_NS = 1000, END_NS = 900000 };

static struct source_row rows[ROWS] = {
    {.group = "a", .name = "thread 1"}, {.group = "a", .name = "queue"}, {.group = "b", .name = "\xff name"}};

static struct history *made(void)
{
    struct history_options options = {.size = sizeof(options), .start_ns = START_NS};
    struct history *h;
    char path[] = "/tmp/sonde-fuzz-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || history_create(path, &options, &h, NULL) < 0)
        abort();
    close(fd);
    unlink(path);
    if (history_add_path(h, "Threads/1/State", &rows[0].quark, NULL) < 0 ||
        history_add_path(h, "Queue", &rows[1].quark, NULL) < 0 ||
        history_add_path(h, "Names", &rows[2].quark, NULL) < 0)
        abort();
    for (uint64_t i = 0; i < 800; i++) {
        history_modify(h, START_NS + i * 1000, rows[0].quark, history_string(i % 3 ? "running" : "blocked"),
                       NULL);
        history_modify(h, START_NS + i * 1000, rows[1].quark, history_int((int64_t)(i * i) - 500), NULL);
        history_modify(h, START_NS + i * 1000, rows[2].quark,
                       i % 2 ? history_null() : history_double(1.0 / (double)i), NULL);
    }
    if (history_close(h, END_NS, NULL) < 0)
        abort();
    return h;
}

/* Endpoints that need no source beside the history. */
static tsp_model_fn *const MODELS[] = {tsp_states_tree, tsp_states,      tsp_styles,       tsp_counts_tree,
                                       tsp_counts,      tsp_shares_tree, tsp_table_columns};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct history *history;
    struct text text = {0};
    if (!history)
        history = made();
    if (size < 3)
        return 0;
    tile_write(history, (uint32_t[]){rows[data[0] % ROWS].quark, rows[2].quark}, data[0] % 3, data[1],
               data[2] | (uint64_t)data[size - 1] << (data[1] & 63), NULL, &text, NULL);
    text_clear(&text);
    struct tsp_view view = {.name = "fuzz",
                            .history = history,
                            .rows = rows,
                            .row_count = ROWS,
                            .start_ns = START_NS,
                            .end_ns = END_NS};
    json_t *parameters = json_loadb((const char *)data + 1, size - 1, 0, NULL);
    if (MODELS[data[0] % ARRAY_SIZE(MODELS)](&view, parameters, &text) == 0) {
        json_t *model = json_loads(text_get(&text), 0, NULL);
        if (!model)
            abort(); /* an answer is JSON */
        json_decref(model);
    }
    json_decref(parameters);
    text_done(&text);
    return 0;
}

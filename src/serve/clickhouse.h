/* The distributed span store: ClickHouse over HTTP, by SQL that release 18.16 and current ones accept. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SERVE_CLICKHOUSE_H
#define SERVE_CLICKHOUSE_H

#include "span/store.h"

/* url: "http://host:8123/", with "?database=..." where it is not the default one. Makes the tables when they
 * are absent; a cluster's owner makes `spans` a Distributed table beforehand, sharded by trace id. */
int clickhouse_store_open(const char *url, struct span_store **ret_store, struct problem *problem);

#endif

/* Databases that are asked in SQL: PostgreSQL; MySQL and MariaDB. */
/* SPDX-License-Identifier: Apache-2.0 */
#include "protocols/commands.h"
#include "protocols/protocols.h"

enum { POSTGRESQL_SHORTEST = 5 /* Sync */, MYSQL_SHORTEST = 5 /* a packet of one byte */ };

const struct protocol protocol_postgresql = COMMAND_PROTOCOL(postgresql, POSTGRESQL_SHORTEST);
const struct protocol protocol_mysql = COMMAND_PROTOCOL(mysql, MYSQL_SHORTEST);

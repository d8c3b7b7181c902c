/* What sonde profile says of requests to disks and of connections. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_PROFILE_IO_H
#define CLI_PROFILE_IO_H

#include <jansson.h>

#include "profile/io.h"
#include "profile/sampler.h"

/* What a request costs and when it stops, before; that it stopped, after. To stderr. */
void profile_io_print_price(const struct sampler_options *options);
void profile_io_print_stopped(const struct sampler_options *options, const struct sampler_counts *counts,
                              uint64_t start_ns);

/* What the weights of a profile are, by its event and unit. */
enum io_weight profile_io_weight(const struct profile *profile);

/* The places that made them, at most `top`. An exit status. */
int profile_io_print(const struct io *io, const struct profile *profile, const struct business_rules *rules,
                     bool whole_machine, unsigned top);

/* Adds the member "requests". 0 or -ENOMEM. */
int profile_io_add_json(const struct io *io, const struct profile *profile,
                        const struct business_rules *rules, unsigned top, json_t *to);

#endif

/*
 * costs.h - how long a protocol is expected to take: a latency, and bytes by a rate.
 *
 * The rates of two protocols that keep the caller until the bytes are read, or there, are corrected by what copies
 * of 64 KiB and more take, on devices with DMA engines. Everywhere else the constants stay, so tests see the same
 * choices each time.
 */
#ifndef LEATI_COPY_COSTS_H
#define LEATI_COPY_COSTS_H

#include "core/core.h"
#include "staging/staging.h"

/* From here on workers help with an eager copy. */
#define LEATI_HELPED_BYTES ((size_t)512 << 10)

/* Rates that are corrected, by the place in leat_device.copy_rates. */
enum leati_rate { LEATI_RATE_DRIVER_IN, LEATI_RATE_DRIVER_OUT, LEATI_RATE_EAGER_IN, LEATI_RATE_EAGER_OUT };

/* Contiguous bytes: the driver's call for pageable memory; eager; through a ring; between host memory; memory that
 * a DMA engine reaches, over so many links. */
uint64_t leati_cost_pageable(const leat_device *device, bool out, size_t bytes);
uint64_t leati_cost_eager(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_staged(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_host(const struct leati_stager *stager, size_t bytes);
uint64_t leati_cost_link(size_t bytes, unsigned links);

/* Rows, by the driver's call and by a kernel. narrow: a DMA engine moves them one by one. */
uint64_t leati_cost_rows(size_t rows, size_t bytes, bool narrow);
uint64_t leati_cost_kernel(const leat_device *device, size_t bytes);

/* So many ranges of a batch, one by one and all together. */
uint64_t leati_cost_ranges(size_t count, size_t bytes);
uint64_t leati_cost_together(const leat_device *device, size_t bytes);

/* Around a copy that keeps the caller: corrects the rate, where rates are. */
uint64_t leati_costs_start(const leat_device *device, size_t bytes);
void leati_costs_saw(leat_device *device, enum leati_rate rate, size_t bytes, uint64_t start_ns);

/* Sets a rate that was measured otherwise, in MB/s; 0: the constant is used again. */
void leati_costs_set(leat_device *device, enum leati_rate rate, uint32_t mb_s);

#endif

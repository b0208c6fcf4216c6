/*
 * costs.h - the expected time of each protocol: latency + bytes / rate.
 *
 * Two protocols block the caller: the driver's call for pageable memory, and eager. On devices with DMA engines
 * their rates are corrected by the measured times of copies of 64 KiB and more. All other rates are constants, so
 * tests see the same choices in each run.
 */
#ifndef LEATI_COPY_COSTS_H
#define LEATI_COPY_COSTS_H

#include "core/core.h"
#include "staging/staging.h"

/* Workers help with eager copies of this size and more. */
#define LEATI_HELPED_BYTES ((size_t)512 << 10)

/* The corrected rates: indices of leat_device.copy_rates. */
enum leati_rate { LEATI_RATE_DRIVER_IN, LEATI_RATE_DRIVER_OUT, LEATI_RATE_EAGER_IN, LEATI_RATE_EAGER_OUT };

/* Expected time of a contiguous copy by: the driver's call for pageable memory; the eager protocol; a staged copy
 * through a ring; worker threads between host memory; DMA over so many host links, with no pageable side. */
uint64_t leati_cost_pageable(const leat_device *device, bool out, size_t bytes);
uint64_t leati_cost_eager(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_staged(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_host(const struct leati_stager *stager, size_t bytes);
uint64_t leati_cost_link(size_t bytes, unsigned links);

/* Expected time of pitched rows by the driver's call, and of any region or layout by a kernel. narrow: the DMA
 * engine moves the rows one by one. */
uint64_t leati_cost_rows(size_t rows, size_t bytes, bool narrow);
uint64_t leati_cost_kernel(const leat_device *device, size_t bytes);

/* Expected time of count ranges of a batch: with one driver call each, and all in one call or kernel. */
uint64_t leati_cost_ranges(size_t count, size_t bytes);
uint64_t leati_cost_together(const leat_device *device, size_t bytes);

/* Call these before and after a copy that blocks the caller: they measure it and correct the rate. start returns
 * 0, and saw then does nothing, if the copy is short or the device has no DMA engines. */
uint64_t leati_costs_start(const leat_device *device, size_t bytes);
void leati_costs_saw(leat_device *device, enum leati_rate rate, size_t bytes, uint64_t start_ns);

/* Sets a rate in MB/s that was measured in another way; 0: use the constant again. */
void leati_costs_set(leat_device *device, enum leati_rate rate, uint32_t mb_s);

#endif

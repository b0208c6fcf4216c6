/*
 * costs.h - estimates the time of each protocol as latency + bytes / rate.
 *
 * Two protocols block the caller: the driver's call for pageable memory, and eager. On devices with DMA engines
 * leat measures their copies of 64 KiB and more, and corrects their rates. All other rates are constants, so tests
 * see the same choices in each run.
 */
#ifndef LEATI_COPY_COSTS_H
#define LEATI_COPY_COSTS_H

#include "core/core.h"
#include "staging/staging.h"

/* Workers help with eager copies of this size and more. */
#define LEATI_HELPED_BYTES ((size_t)512 << 10)

/* The rates that leat corrects: indices of leat_device.copy_rates. */
enum leati_rate { LEATI_RATE_DRIVER_IN, LEATI_RATE_DRIVER_OUT, LEATI_RATE_EAGER_IN, LEATI_RATE_EAGER_OUT };

/* Return the expected time, in nanoseconds, of a contiguous copy: by the driver's call for pageable memory
 * (pageable), by the calling thread (eager), by workers through a ring (staged), by workers from host memory to
 * host memory (host), and by DMA over this number of host links without a pageable side (link). */
uint64_t leati_cost_pageable(const leat_device *device, bool out, size_t bytes);
uint64_t leati_cost_eager(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_staged(const leat_device *device, const struct leati_stager *stager, bool out, size_t bytes);
uint64_t leati_cost_host(const struct leati_stager *stager, size_t bytes);
uint64_t leati_cost_link(size_t bytes, unsigned links);

/* Return the expected time of pitched rows by the driver's call (rows), and of any region or layout by a kernel.
 * narrow: the rows are so short that the DMA engine moves them one by one. */
uint64_t leati_cost_rows(size_t rows, size_t bytes, bool narrow);
uint64_t leati_cost_kernel(const leat_device *device, size_t bytes);

/* Return the expected time of ranges of a batch: with one driver call for each (ranges), or with one call or
 * kernel for all (together). */
uint64_t leati_cost_ranges(size_t count, size_t bytes);
uint64_t leati_cost_together(const leat_device *device, size_t bytes);

/* Measure a copy that blocks the caller, and correct the rate: call leati_costs_start() before the copy, and
 * leati_costs_saw() with the result after the copy. If the copy is short or the device has no DMA engines,
 * leati_costs_start() returns 0, and leati_costs_saw() does nothing. */
uint64_t leati_costs_start(const leat_device *device, size_t bytes);
void leati_costs_saw(leat_device *device, enum leati_rate rate, size_t bytes, uint64_t start_ns);

/* Sets a rate in MB/s. 0: leat uses the constant again, until leati_costs_saw() corrects it. */
void leati_costs_set(leat_device *device, enum leati_rate rate, uint32_t mb_s);

#endif

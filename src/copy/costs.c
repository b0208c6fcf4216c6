/* costs.c - estimates the time of each protocol, see costs.h. */
#include "copy/costs.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/quick.h"

/* The time of a copy: latency_ns + bytes / mb_s. MB/s is the same as bytes per microsecond. */
struct line {
    uint32_t latency_ns, mb_s;
};

/* Measured on an NVIDIA H200 (PCIe 5) in a virtual machine with 16 processors, see docs/copies.md. */
static const struct line lines[] = {
    [LEATI_RATE_DRIVER_IN] = {7000, 11500},
    [LEATI_RATE_DRIVER_OUT] = {8000, 11000},
    [LEATI_RATE_EAGER_IN] = {6500, 13500},
    [LEATI_RATE_EAGER_OUT] = {7000, 14000},
};
static const struct line staged_line = {25000, 45000}, host_line = {5000, 20000}, link_line = {6000, 55000};

#define HELPED_MB_S 40000u /* rate of an eager copy that workers have joined */
#define WAKE_NS 60000u     /* time until a sleeping worker starts to copy */

/* The latency of a kernel launch, and the rate of a kernel that accesses host memory. */
#define LAUNCH_NS 10000u
#define KERNEL_MB_S 40000u
#define NARROW_ROW_NS 70u /* a DMA engine's time for a narrow row; not measured yet, see docs/copies.md */
#define RANGE_NS 2500u    /* time of the driver call for one range of a batch */

#define SEEN_LEAST_BYTES ((size_t)64 << 10)

LEATI_HOT static uint64_t time_of(size_t bytes, uint32_t mb_s)
{
    leati_assert(mb_s);
    return (uint64_t)bytes / mb_s * 1000 + (uint64_t)bytes % mb_s * 1000 / mb_s;
}

LEATI_HOT static uint32_t rate_of(const leat_device *device, enum leati_rate rate)
{
    leati_assert((unsigned)rate < sizeof lines / sizeof lines[0]);
    /* Relaxed: a rate that another thread has just replaced is good enough. */
    uint32_t seen = atomic_load_explicit(&device->copy_rates[rate], memory_order_relaxed);

    return seen ? seen : lines[rate].mb_s;
}

LEATI_HOT static uint64_t wake_ns(const struct leati_stager *stager)
{
    return stager && leati_workers_awake(stager->workers) ? 0 : WAKE_NS;
}

LEATI_HOT uint64_t leati_cost_pageable(const leat_device *device, bool out, size_t bytes)
{
    enum leati_rate rate = out ? LEATI_RATE_DRIVER_OUT : LEATI_RATE_DRIVER_IN;

    return lines[rate].latency_ns + time_of(bytes, rate_of(device, rate));
}

LEATI_HOT uint64_t leati_cost_eager(const leat_device *device, const struct leati_stager *stager, bool out,
                                    size_t bytes)
{
    enum leati_rate rate = out ? LEATI_RATE_EAGER_OUT : LEATI_RATE_EAGER_IN;
    uint64_t alone = time_of(bytes, rate_of(device, rate)), wake, helped;

    if (bytes < LEATI_HELPED_BYTES)
        return lines[rate].latency_ns + alone;
    wake = wake_ns(stager);
    if (alone <= wake)
        return lines[rate].latency_ns + alone;
    /* The time for the bytes that are left when the workers begin to copy. */
    helped = time_of((size_t)((alone - wake) * rate_of(device, rate) / 1000), HELPED_MB_S);
    return lines[rate].latency_ns + wake + (helped < alone - wake ? helped : alone - wake);
}

/* Returns the rate of all workers together. Only devices with DMA engines use the measured rate; others use a
 * constant, so that each run makes the same choices. */
LEATI_HOT static uint32_t workers_mb_s(const leat_device *device, const struct leati_stager *stager, bool out)
{
    const struct leati_staging_choice *choice = &stager->choice;
    double gbps = out ? choice->out_gbps[choice->out] : choice->in_gbps[choice->in];

    if (!device->driver->can->dma_engines || !choice->probed || gbps <= 0)
        return staged_line.mb_s;
    return gbps * 1000 < link_line.mb_s ? (uint32_t)(gbps * 1000) + 1 : link_line.mb_s;
}

LEATI_HOT uint64_t leati_cost_staged(const leat_device *device, const struct leati_stager *stager, bool out,
                                     size_t bytes)
{
    uint32_t mb_s = stager ? workers_mb_s(device, stager, out) : host_line.mb_s;

    return staged_line.latency_ns + wake_ns(stager) + time_of(bytes, mb_s);
}

uint64_t leati_cost_host(const struct leati_stager *stager, size_t bytes)
{
    return host_line.latency_ns + wake_ns(stager) + time_of(bytes, host_line.mb_s);
}

uint64_t leati_cost_link(size_t bytes, unsigned links)
{
    leati_assert(links);
    return link_line.latency_ns * links + time_of(bytes, link_line.mb_s * links);
}

uint64_t leati_cost_rows(size_t rows, size_t bytes, bool narrow)
{
    return leati_cost_link(bytes, 1) + (narrow ? rows * NARROW_ROW_NS : 0);
}

uint64_t leati_cost_kernel(const leat_device *device, size_t bytes)
{
    return LAUNCH_NS + time_of(bytes, device->driver->can->host_kernels ? host_line.mb_s : KERNEL_MB_S);
}

uint64_t leati_cost_ranges(size_t count, size_t bytes)
{
    return count * RANGE_NS + time_of(bytes, link_line.mb_s);
}

uint64_t leati_cost_together(const leat_device *device, size_t bytes)
{
    /* Half a call less than the calls of fewest_ranges ranges. So a kernel is faster than leati_cost_ranges() from
     * exactly this number of ranges on. */
    return device->driver->can->batch.fewest_ranges * RANGE_NS - RANGE_NS / 2 + time_of(bytes, link_line.mb_s);
}

LEATI_HOT uint64_t leati_costs_start(const leat_device *device, size_t bytes)
{
    return bytes >= SEEN_LEAST_BYTES && device->driver->can->dma_engines ? leati_clock_ns() : 0;
}

LEATI_HOT void leati_costs_saw(leat_device *device, enum leati_rate rate, size_t bytes, uint64_t start_ns)
{
    uint64_t slowest = lines[rate].mb_s / 2, ns, seen;

    if (!start_ns)
        return;
    ns = leati_clock_ns() - start_ns;
    if (ns <= lines[rate].latency_ns)
        return;
    seen = (uint64_t)bytes * 1000 / (ns - lines[rate].latency_ns);
    leati_assert(slowest);
    /* Limit outliers. For example, the first copy after a long pause is slow with any protocol. */
    seen = seen < slowest ? slowest : seen < 4 * slowest ? seen : 4 * slowest;
    leati_costs_set(device, rate, (uint32_t)((rate_of(device, rate) * UINT64_C(7) + seen) / 8));
}

LEATI_HOT void leati_costs_set(leat_device *device, enum leati_rate rate, uint32_t mb_s)
{
    /* Relaxed: if two threads correct the rate at once, one correction may be lost, which does no harm. */
    atomic_store_explicit(&device->copy_rates[rate], mb_s, memory_order_relaxed);
}

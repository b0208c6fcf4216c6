/*
 * trace_choose.c - chooses the blocks of one kind of memory in a trace, and computes the peak of the live bytes;
 * see trace_read.h.
 */
#include "trace_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void trace_destroy(struct trace *trace)
{
    if (!trace)
        return;
    free(trace->events);
    free(trace->blocks);
    free(trace->pools);
    free(trace);
}

/* Writes the error for a choice that leaves no block. It lists the kinds of memory that the trace has. Returns
 * false. */
static bool nothing_chosen(const struct trace *trace, leat_kind kind, const char *pool,
                           char error[TRACE_ERROR_MAX])
{
    int used =
        snprintf(error, TRACE_ERROR_MAX, "there is no allocation of %s memory%s%.40s%s; there are",
                 leat_kind_name(kind), pool ? " from pools called '" : "", pool ? pool : "", pool ? "'" : "");
    size_t i, j, count;

    for (i = 0; i < trace->pool_count && used < TRACE_ERROR_MAX - 128; i++) {
        for (j = count = 0; j < trace->block_count; j++)
            count += trace->blocks[j].pool == i;
        if (count)
            used += snprintf(error + used, TRACE_ERROR_MAX - (size_t)used, " %zu of %s memory%s%s%s;", count,
                             leat_kind_name(trace->pools[i].kind), i ? " from '" : "", trace->pools[i].name,
                             i ? "'" : "");
    }
    error[used - 1] = '\0';
    return false;
}

bool trace_choose(struct trace *trace, leat_kind kind, const char *pool, char error[TRACE_ERROR_MAX])
{
    uint32_t *kept = malloc((trace->block_count + 1) * sizeof *kept);
    size_t count = 0, i;

    if (!kept) {
        snprintf(error, TRACE_ERROR_MAX, "out of host memory");
        return false;
    }
    for (i = 0; i < trace->block_count; i++) {
        const struct trace_pool *of = &trace->pools[trace->blocks[i].pool];

        kept[i] = of->kind == kind && (!pool || !strcmp(of->name, pool)) ? (uint32_t)count++ : UINT32_MAX;
    }
    if (!count) {
        free(kept);
        return nothing_chosen(trace, kind, pool, error);
    }
    trace->left_out = trace->block_count - count;
    for (i = 0; i < trace->block_count; i++)
        if (kept[i] != UINT32_MAX)
            trace->blocks[kept[i]] = trace->blocks[i];
    trace->block_count = count;
    for (i = count = 0; i < trace->event_count; i++) {
        struct trace_event event = trace->events[i];
        bool of_block = event.op <= TRACE_USE_UNTIL;

        if (of_block && kept[event.block] == UINT32_MAX)
            continue;
        event.block = of_block ? kept[event.block] : 0;
        trace->events[count++] = event;
    }
    trace->event_count = count;
    free(kept);
    return true;
}

uint64_t trace_peak_bytes(const struct trace *trace, bool until_freed, size_t *event)
{
    enum trace_op end = until_freed ? TRACE_FREED : TRACE_FREE;
    uint64_t live_bytes = 0, peak_bytes = 0;
    size_t i;

    for (i = 0; i < trace->event_count; i++) {
        uint64_t bytes = trace->blocks[trace->events[i].block].bytes;

        if (trace->events[i].op == TRACE_ALLOC)
            live_bytes += bytes;
        else if (trace->events[i].op == end)
            live_bytes -= bytes;
        if (live_bytes > peak_bytes) {
            peak_bytes = live_bytes;
            if (event)
                *event = i;
        }
    }
    return peak_bytes;
}

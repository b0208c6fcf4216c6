/* explain.c - how a copy would be made, in words. */
#include "copy/copy.h"

#include <leat/copy.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Text that is cut where the room ends. */
struct text {
    char *at;
    size_t left;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct text *text, const char *format, ...)
{
    va_list arguments;
    int length;

    va_start(arguments, format);
    length = vsnprintf(text->at, text->left, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    if ((size_t)length >= text->left)
        length = (int)text->left - 1;
    text->at += length;
    text->left -= (size_t)length;
}

/* "4 KiB", "1.5 MiB", "37 B". */
static void add_bytes(struct text *text, size_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    unsigned unit = 0;

    while (value >= 1024 && unit < 5) {
        value /= 1024;
        unit++;
    }
    add(text, "%.*f %s", value < 10 && unit && value != (double)(int)value ? 1 : 0, value, units[unit]);
}

static void add_end(struct text *text, const struct leati_target *end)
{
    if (end->end.kind == LEAT_KIND_DEVICE)
        add(text, "%s", end->device->name);
    else
        add(text, "%s memory", leat_kind_name(end->end.kind));
}

static void add_staged(struct text *text, const struct leati_plan *plan)
{
    const struct leati_stager *stager = plan->stager;
    size_t ring_bytes = leati_ring_bytes(plan->bytes, (size_t)stager->ring_bytes);
    struct leati_cut cut = {.bytes = plan->bytes,
                            .ring_bytes = plan->way == LEATI_WAY_HOST ? 0 : ring_bytes,
                            .out = plan->way == LEATI_WAY_OUT,
                            .threads = leati_team_share(stager->team)};
    enum leati_stores stores = leati_stage_stores(stager, plan->way, plan->bytes);

    if (plan->way == LEATI_WAY_HOST) {
        add(text, "by leat's threads, in one pass");
    } else {
        uint32_t chunks = leati_cut_chunks(&cut, NULL);

        add(text, "staged, in %u chunk%s through a ring of ", chunks, chunks == 1 ? "" : "s");
        add_bytes(text, ring_bytes);
        add(text, " of pinned memory");
    }
    add(text, "; at most %u of %u threads, %s stores", leati_team_share(stager->team),
        leati_team_threads(stager->team), leati_stores_name(stores));
    if (stores == LEATI_STORES_STREAMING)
        add(text, " (%s)", leati_stores_streaming_by());
}

static void add_path(struct text *text, const struct leati_plan *plan)
{
    switch (plan->path) {
    case LEATI_PATH_DRIVER:
        add(text, "the driver's asynchronous copy");
        break;
    case LEATI_PATH_PAGEABLE:
        add(text, "the driver's copy for pageable memory");
        break;
    case LEATI_PATH_SMALL_IN:
        add(text, "by the caller into the stream's ring of pinned memory, and by DMA from there");
        break;
    case LEATI_PATH_SMALL_OUT:
        add(text, "by DMA into pinned memory, and by the caller, who waits for it, from there");
        break;
    case LEATI_PATH_STAGED:
        add_staged(text, plan);
        break;
    }
}

static void add_bound(struct text *text, const struct leati_plan *plan)
{
    const struct leati_target *to = &plan->to, *from = &plan->from;
    const struct leati_bytes_choice *choice = plan->stager ? &plan->stager->choice : NULL;
    double gbps = 0;

    if (!strcmp(plan->to.driver     ? plan->to.driver->name
                : plan->from.driver ? plan->from.driver->name
                                    : "",
                "cpu") &&
        (plan->path == LEATI_PATH_PAGEABLE || plan->path == LEATI_PATH_DRIVER)) {
        add(text, "the host's memory, read and written");
        return;
    }
    if (to->end.kind == LEAT_KIND_DEVICE && from->end.kind == LEAT_KIND_DEVICE)
        add(text, to->device == from->device ? "the device's memory, read and written"
                                             : "the link between the two devices");
    else if (plan->path == LEATI_PATH_STAGED && plan->way == LEATI_WAY_HOST)
        add(text, "the host's memory");
    else if (plan->path == LEATI_PATH_SMALL_IN || plan->path == LEATI_PATH_SMALL_OUT)
        add(text, "the latency of one DMA");
    else
        add(text, "the link between host and device");
    if (plan->path != LEATI_PATH_STAGED || !choice->probed)
        return;
    gbps =
        (plan->way == LEATI_WAY_OUT ? choice->out_gbps
                                    : choice->in_gbps)[leati_stage_stores(plan->stager, plan->way, plan->bytes)];
    add(text, "; the threads move %.1f GB/s (measured at the first use)", gbps);
}

static leat_status explain(leat_stream *stream, void *dst, const void *src, size_t bytes, struct text *text)
{
    struct leati_plan plan;

    if (!bytes) {
        add(text, "0 B: nothing to do\n");
        return LEAT_OK;
    }
    LEATI_TRY(leati_plan_copy(stream, dst, src, bytes, false, &plan));
    add_bytes(text, bytes);
    add(text, " from ");
    add_end(text, &plan.from);
    add(text, " to ");
    add_end(text, &plan.to);
    add(text, "\n  path   ");
    add_path(text, &plan);
    if (plan.helpers)
        add(text, "; over %u host links, and across from %u other device%s", plan.helpers + 1, plan.helpers,
            plan.helpers > 1 ? "s" : "");
    add(text, "\n  why    %s\n  bound  ", plan.why);
    add_bound(text, &plan);
    add(text, "\n");
    return LEAT_OK;
}

leat_status leat_copy_explain(leat_stream *stream, void *dst, const void *src, size_t bytes, char *text,
                              size_t text_bytes)
{
    struct text out = {.at = text, .left = text_bytes};
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_copy_explain"));
    LEATI_TRY(leati_check_stream("leat_copy_explain", stream));
    LEATI_TRY(leati_check_not_null("leat_copy_explain", "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID, "leat_copy_explain: text_bytes is 0; a few hundred are enough");
    text[0] = '\0';
    status = explain(stream, dst, src, bytes, &out);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_copy_explain of %zu bytes on %s", bytes, stream->device->name);
}

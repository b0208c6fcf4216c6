/*
 * activity_json.c - writes what "leat trace" found in a recorded run as JSON.
 */
#include "activity.h"
#include "text_json.h"

#include <stdlib.h>

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Adds the four parts and the reasons of a share to an object. */
static bool add_share(json_t *object, const struct activity_share *share, bool reasons)
{
    json_t *by = reasons ? json_object() : NULL;
    int reason;
    bool fine = json_object_set_new(object, "idle_ns", number(share->parts.idle_ns)) == 0 &&
                json_object_set_new(object, "copy_ns", number(share->parts.copy_ns)) == 0 &&
                json_object_set_new(object, "compute_ns", number(share->parts.compute_ns)) == 0 &&
                json_object_set_new(object, "overlap_ns", number(share->parts.overlap_ns)) == 0 &&
                json_object_set_new(object, "copies", number(share->copies)) == 0 &&
                json_object_set_new(object, "copy_bytes", number(share->copy_bytes)) == 0 &&
                json_object_set_new(object, "copy_busy_ns", number(share->copy_busy_ns)) == 0 &&
                json_object_set_new(object, "kernels", number(share->kernels)) == 0;

    if (!reasons)
        return fine;
    for (reason = 0; reason < ACTIVITY_IDLE_COUNT && fine; reason++)
        fine = json_object_set_new(by, activity_reason_names[reason], number(share->idle_by_ns[reason])) == 0;
    return json_object_set_new(object, "idle_by_ns", by) == 0 && fine;
}

/* Appends the object to the list, also if making it failed. Returns false if memory is short. */
static bool append(json_t *list, json_t *object, bool fine)
{
    return json_array_append_new(list, object) == 0 && fine;
}

static bool add_streams(const struct activity_report *report, size_t device, size_t streams_max, json_t *object)
{
    const struct activity_log *log = report->log;
    json_t *list = json_array();
    bool fine = true;
    size_t i;

    for (i = 0; i < log->stream_count && json_array_size(list) < streams_max; i++) {
        json_t *stream;

        if (log->streams[i].device != device)
            continue;
        stream = json_pack("{s:o}", "number", number(log->streams[i].number));
        fine = append(list, stream, stream && add_share(stream, &report->breakdown->streams[i], false)) && fine;
    }
    return json_object_set_new(object, "streams", list) == 0 && fine;
}

static bool add_devices(const struct activity_report *report, size_t streams_max, json_t *object)
{
    const struct activity_log *log = report->log;
    json_t *list = json_array();
    bool fine = true;
    size_t i;

    for (i = 0; i < log->device_count; i++) {
        json_t *device = json_pack("{s:o, s:o}", "name", text_json(activity_name(log, log->devices[i].name)),
                                   "recording_ns", number(log->devices[i].recording_ns));

        fine = append(list, device,
                      device && add_share(device, &report->breakdown->devices[i], true) &&
                          add_streams(report, i, streams_max, device)) &&
               fine;
    }
    return json_object_set_new(object, "devices", list) == 0 && fine;
}

/* Adds the pools, or the largest ones if there are more than pools_max. */
static bool add_pools(const struct activity_log *log, size_t pools_max, json_t *object)
{
    size_t *order = log->pool_count > pools_max ? calloc(log->pool_count, sizeof *order) : NULL;
    size_t count = order ? activity_pool_order(log, order) : log->pool_count, i;
    json_t *list = json_array();
    bool fine = order || log->pool_count <= pools_max;

    for (i = 0; i < count && i < pools_max; i++) {
        const struct activity_pool *pool = &log->pools[order ? order[i] : i];

        fine = json_array_append_new(list, json_pack("{s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o}", "name",
                                                     text_json(activity_name(log, pool->name)), "device",
                                                     text_json(activity_name(log, pool->device_name)), "memory",
                                                     activity_memory_names[pool->memory], "used_peak_bytes",
                                                     number(pool->used_peak_bytes), "reserved_peak_bytes",
                                                     number(pool->reserved_peak_bytes), "used_bytes",
                                                     number(pool->used_bytes), "reserved_bytes",
                                                     number(pool->reserved_bytes), "changes",
                                                     number(pool->changes))) == 0 &&
               fine;
    }
    free(order);
    return json_object_set_new(object, "pools", list) == 0 && fine;
}

static bool add_advice(const struct activity_report *report, json_t *object)
{
    json_t *list = json_array();
    bool fine = true;
    int i;

    for (i = 0; i < report->advice_count; i++) {
        const struct activity_advice *advice = &report->advice[i];

        fine = json_array_append_new(
                   list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "rule", advice->rule, "saving_ns",
                                   number(advice->saving_ns), "place", text_json(advice->place), "count",
                                   number(advice->count), "evidence", text_json(advice->evidence), "change",
                                   text_json(advice->change), "basis", text_json(advice->basis))) == 0 &&
               fine;
    }
    return json_object_set_new(object, "advice", list) == 0 && fine;
}

/* Says how calls without leat were recorded. */
static json_t *calls_json(const struct activity_log *log)
{
    if (log->calls_by == ACTIVITY_CALLS_NONE)
        return json_null();
    return json_pack("{s:s, s:o}", "by", log->calls_by == ACTIVITY_CALLS_BY_CUPTI ? "CUPTI" : "events", "detail",
                     text_json(activity_name(log, log->calls_detail)));
}

json_t *activity_report_json(const struct activity_report *report, size_t most)
{
    const struct activity_log *log = report->log;
    json_t *object = json_pack("{s:s, s:o, s:s, s:o, s:o, s:o, s:o, s:b}", "format", "leat-trace-report-1", "file",
                               text_json(report->path), "source", log->source, "calls", calls_json(log), "span_ns",
                               number(log->span_ns), "activities", number(log->count), "lost", number(log->lost),
                               "truncated", log->truncated);

    if (object && add_share(object, &report->breakdown->all, true) && add_devices(report, most, object) &&
        add_pools(log, most, object) && add_advice(report, object))
        return object;
    json_decref(object);
    return NULL;
}

static bool dump(json_t *object, FILE *file)
{
    /* A failed write leaves the error indicator of the file set, and is not a lack of memory. */
    bool fine = object && (json_dumpf(object, file, JSON_INDENT(2)) == 0 || ferror(file));

    if (fine)
        fputc('\n', file);
    json_decref(object);
    return fine;
}

bool activity_write_json(const struct activity_report *report, FILE *file)
{
    return dump(activity_report_json(report, SIZE_MAX), file);
}

bool activity_compare_json(const struct activity_report *a, const struct activity_report *b, FILE *file)
{
    return dump(json_pack("{s:s, s:o, s:o}", "format", "leat-trace-comparison-1", "a",
                          activity_report_json(a, SIZE_MAX), "b", activity_report_json(b, SIZE_MAX)),
                file);
}

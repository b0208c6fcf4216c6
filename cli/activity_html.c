/*
 * activity_html.c - writes a recorded run as a page for a browser: activity_page.html with the data of the run in
 * it.
 *
 * The page stays below 1 MB for any run. Tracks with more slices than their share get slices merged that begin
 * close to each other; the page says how many a merged slice stands for.
 */
#include "activity.h"
#include "text_json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { TRACKS_MAX = 48, SLICES_MAX = 12000, TRACK_SLICES_MIN = 200, NAMES_MAX = 400, NAME_BYTES_MAX = 96 };
enum { CHARTS_MAX = 8, POINTS_MAX = 300 };
enum { KERNELS_MAX = 25, LISTED_MAX = 100, NAME_TABLE_NONE = -1 };

/* The page; its line with this marker is replaced by the data. */
extern __attribute__((visibility("hidden"))) const char activity_page[];
__asm__(".pushsection .rodata\n"
        ".globl activity_page\n"
        ".hidden activity_page\n"
        ".type activity_page, %object\n"
        "activity_page:\n"
        ".incbin \"activity_page.html\"\n"
        ".byte 0\n"
        ".size activity_page, . - activity_page\n"
        ".popsection\n");
static const char marker[] = "@DATA@";

/* One part of an activity on a track: its call, or its work. */
struct slice {
    uint64_t begin_ns, end_ns;
    const struct activity *activity;
    uint64_t count, bytes; /* of all that were merged into it */
};

struct track {
    char name[96];
    bool device;
    size_t count; /* slices */
    size_t begin; /* index of pages.slices */
    bool shown;
};

struct page {
    const struct activity_log *log;
    struct track *tracks;
    size_t track_count, shown;
    struct slice *slices;
    int *names; /* index of a name in the page, or NAME_TABLE_NONE */
    json_t *name_list;
};

/* ---- tracks: calls of each thread, ranges of each thread, work of each stream ---- */

static size_t track_of(const struct activity_log *log, const struct activity *a, bool device)
{
    if (device)
        return (a->flags & ACTIVITY_FLAG_DEVICE) && a->stream < log->stream_count
                   ? 2 * log->thread_count + a->stream
                   : SIZE_MAX;
    if (!(a->flags & ACTIVITY_FLAG_HOST) || a->thread >= log->thread_count)
        return SIZE_MAX;
    return 2 * (size_t)a->thread + (a->kind != ACTIVITY_RANGE);
}

static void name_tracks(struct page *page)
{
    const struct activity_log *log = page->log;
    size_t i;

    for (i = 0; i < page->track_count; i++) {
        struct track *track = &page->tracks[i];

        track->device = i >= 2 * log->thread_count;
        if (track->device) {
            const struct activity_stream *stream = &log->streams[i - 2 * log->thread_count];

            snprintf(track->name, sizeof track->name, "%.40s stream %" PRIu64,
                     activity_name(log, log->devices[stream->device].name), stream->number);
        } else {
            char name[ACTIVITY_THREAD_MAX];

            snprintf(track->name, sizeof track->name, "%s%s", i % 2 ? "" : "ranges of ",
                     activity_thread_name(log, i / 2, name));
        }
    }
}

static int compare_tracks(const void *a, const void *b)
{
    const struct track *one = *(struct track *const *)a, *other = *(struct track *const *)b;

    if (one->count != other->count)
        return one->count > other->count ? -1 : 1;
    return one == other ? 0 : one < other ? -1 : 1;
}

/* Shows the TRACKS_MAX tracks with the most slices. Returns false if memory is short. */
static bool choose_tracks(struct page *page)
{
    struct track **order = calloc(page->track_count + 1, sizeof *order);
    size_t i;

    if (!order)
        return false;
    for (i = 0; i < page->track_count; i++)
        order[i] = &page->tracks[i];
    qsort(order, page->track_count, sizeof *order, compare_tracks);
    for (page->shown = 0; page->shown < page->track_count && page->shown < TRACKS_MAX; page->shown++) {
        if (!order[page->shown]->count)
            break;
        order[page->shown]->shown = true;
    }
    free(order);
    return true;
}

static int compare_slices(const void *a, const void *b)
{
    const struct slice *one = a, *other = b;

    if (one->begin_ns != other->begin_ns)
        return one->begin_ns < other->begin_ns ? -1 : 1;
    return one->end_ns == other->end_ns ? 0 : one->end_ns > other->end_ns ? -1 : 1;
}

/* Adds the call or the work of an activity to its track, if that is shown. */
static void add_slice(struct page *page, const struct activity *a, bool device)
{
    size_t index = track_of(page->log, a, device);
    struct track *track;

    if (index == SIZE_MAX || !page->tracks[index].shown)
        return;
    track = &page->tracks[index];
    page->slices[track->begin + track->count++] =
        device ? (struct slice){a->device_begin_ns, a->device_end_ns, a, 1, a->bytes}
               : (struct slice){a->host_begin_ns, a->host_end_ns, a, 1, a->bytes};
}

/* Returns false if memory is short. */
static bool fill_tracks(struct page *page)
{
    const struct activity_log *log = page->log;
    size_t i, room = 0;
    int device;

    page->track_count = 2 * log->thread_count + log->stream_count;
    page->tracks = calloc(page->track_count + 1, sizeof *page->tracks);
    if (!page->tracks)
        return false;
    for (i = 0; i < log->count; i++)
        for (device = 0; device < 2; device++) {
            size_t track = track_of(log, &log->list[i], device);

            if (track != SIZE_MAX)
                page->tracks[track].count++;
        }
    name_tracks(page);
    if (!choose_tracks(page))
        return false;
    for (i = 0; i < page->track_count; i++) {
        page->tracks[i].begin = room;
        room += page->tracks[i].shown ? page->tracks[i].count : 0;
        page->tracks[i].count = 0;
    }
    page->slices = calloc(room + 1, sizeof *page->slices);
    if (!page->slices)
        return false;
    for (i = 0; i < log->count; i++)
        for (device = 0; device < 2; device++)
            add_slice(page, &log->list[i], device);
    for (i = 0; i < page->track_count; i++)
        if (page->tracks[i].shown)
            qsort(page->slices + page->tracks[i].begin, page->tracks[i].count, sizeof *page->slices,
                  compare_slices);
    return true;
}

/* Merges slices of a track that begin within width, until at most budget are left. A merged slice has the activity
 * of the longest. Long slices remain as they are. */
static void merge_slices(struct track *track, struct slice *slices, uint64_t width)
{
    uint64_t longest = 0;
    size_t kept = 0, i;

    for (i = 0; i < track->count; i++) {
        struct slice slice = slices[i], *last = kept ? &slices[kept - 1] : NULL;
        uint64_t length = slice.end_ns - slice.begin_ns;

        if (last && slice.begin_ns - last->begin_ns < width && length < width &&
            last->end_ns - last->begin_ns < 2 * width) {
            if (slice.end_ns > last->end_ns)
                last->end_ns = slice.end_ns;
            last->count += slice.count;
            activity_add_bytes(&last->bytes, slice.bytes);
            if (length > longest) {
                last->activity = slice.activity;
                longest = length;
            }
            continue;
        }
        longest = length;
        slices[kept++] = slice;
    }
    track->count = kept;
}

static void downsample(struct page *page)
{
    size_t budget = page->shown ? SLICES_MAX / page->shown : SLICES_MAX, i;

    budget = budget < TRACK_SLICES_MIN ? TRACK_SLICES_MIN : budget;
    for (i = 0; i < page->track_count; i++) {
        struct track *track = &page->tracks[i];
        uint64_t width = page->log->span_ns / budget + 1;

        while (track->shown && track->count > budget) {
            merge_slices(track, page->slices + track->begin, width);
            if (width > page->log->span_ns / 2)
                track->count = track->count > budget ? budget : track->count;
            width *= 2;
        }
    }
}

/* ---- JSON ---- */

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

/* Returns the index of a name in the page. Names beyond NAMES_MAX become "...". */
static int page_name(struct page *page, const struct activity *a)
{
    char text[NAME_BYTES_MAX + 4];
    int index;

    if (a->name >= page->log->name_count)
        return NAME_TABLE_NONE;
    if (page->names[a->name] != NAME_TABLE_NONE)
        return page->names[a->name];
    index = (int)json_array_size(page->name_list);
    if (index > NAMES_MAX)
        return NAMES_MAX;
    snprintf(text, sizeof text, "%.*s", NAME_BYTES_MAX,
             index == NAMES_MAX ? "..." : activity_name(page->log, a->name));
    if (json_array_append_new(page->name_list, text_json(text)) != 0)
        return NAME_TABLE_NONE;
    page->names[a->name] = index;
    return index;
}

/* Returns the slices of a track as one list: for each the time since the begin of the one before, the length, the
 * name, the kind, the bytes and the count. */
static json_t *slices_json(struct page *page, const struct track *track)
{
    json_t *list = json_array();
    uint64_t before = 0;
    bool fine = list != NULL;
    size_t i;

    for (i = 0; i < track->count && fine; i++) {
        const struct slice *slice = &page->slices[track->begin + i];

        fine = json_array_append_new(list, number(slice->begin_ns - before)) == 0 &&
               json_array_append_new(list, number(slice->end_ns - slice->begin_ns)) == 0 &&
               json_array_append_new(list, json_integer(page_name(page, slice->activity))) == 0 &&
               json_array_append_new(list, json_integer(slice->activity->kind)) == 0 &&
               json_array_append_new(list, number(slice->bytes)) == 0 &&
               json_array_append_new(list, number(slice->count)) == 0;
        before = slice->begin_ns;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *tracks_json(struct page *page)
{
    json_t *list = json_array();
    bool fine = list != NULL;
    size_t i;

    for (i = 0; i < page->track_count && fine; i++)
        if (page->tracks[i].shown)
            fine =
                json_array_append_new(list, json_pack("{s:o, s:b, s:o}", "name", text_json(page->tracks[i].name),
                                                      "device", page->tracks[i].device, "slices",
                                                      slices_json(page, &page->tracks[i]))) == 0;
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- tables: kernels by name, copies by the kinds of memory ---- */

struct sum {
    uint32_t name;
    uint64_t count, ns, bytes;
};

static int compare_sums(const void *a, const void *b)
{
    const struct sum *one = a, *other = b;

    return one->ns == other->ns ? 0 : one->ns > other->ns ? -1 : 1;
}

static json_t *kernels_json(const struct activity_log *log)
{
    struct sum *sums = calloc(log->name_count + 1, sizeof *sums);
    json_t *list = json_array();
    bool fine = sums && list;
    size_t i;

    for (i = 0; i < log->name_count && fine; i++)
        sums[i].name = (uint32_t)i;
    for (i = 0; i < log->count && fine; i++) {
        const struct activity *a = &log->list[i];

        if (a->kind != ACTIVITY_KERNEL || !(a->flags & ACTIVITY_FLAG_DEVICE) || a->name >= log->name_count)
            continue;
        sums[a->name].count++;
        sums[a->name].ns += a->device_end_ns - a->device_begin_ns;
    }
    if (fine)
        qsort(sums, log->name_count, sizeof *sums, compare_sums);
    for (i = 0; i < log->name_count && i < KERNELS_MAX && fine && sums[i].count; i++) {
        char name[161];

        snprintf(name, sizeof name, "%.160s", activity_name(log, sums[i].name));
        fine = json_array_append_new(
                   list, json_pack("[o, o, o]", text_json(name), number(sums[i].count), number(sums[i].ns))) == 0;
    }
    free(sums);
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *copies_json(const struct activity_log *log)
{
    struct sum sums[ACTIVITY_MEMORY_COUNT][ACTIVITY_MEMORY_COUNT] = {{{0}}};
    json_t *list = json_array();
    bool fine = list != NULL;
    size_t i;

    for (i = 0; i < log->count; i++) {
        const struct activity *a = &log->list[i];
        struct sum *sum = &sums[a->from_memory][a->to_memory];

        if (!activity_is_copy(a))
            continue;
        sum->count++;
        activity_add_bytes(&sum->bytes, a->bytes);
        sum->ns += a->device_end_ns - a->device_begin_ns;
    }
    for (i = 0; i < (size_t)ACTIVITY_MEMORY_COUNT * ACTIVITY_MEMORY_COUNT && fine; i++) {
        const struct sum *sum = &sums[i / ACTIVITY_MEMORY_COUNT][i % ACTIVITY_MEMORY_COUNT];

        if (sum->count)
            fine = json_array_append_new(
                       list, json_pack("[s, s, o, o, o]", activity_memory_names[i / ACTIVITY_MEMORY_COUNT],
                                       activity_memory_names[i % ACTIVITY_MEMORY_COUNT], number(sum->count),
                                       number(sum->bytes), number(sum->ns))) == 0;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

/* ---- charts of pools ---- */

/* Returns the memory of a pool as a list: for each point the time since the point before, the bytes used and the
 * bytes reserved. If there are more than POINTS_MAX changes, each piece of the span has its largest values. */
static json_t *points_json(const struct activity_log *log, size_t pool)
{
    uint64_t width = log->pools[pool].changes > POINTS_MAX ? log->span_ns / POINTS_MAX + 1 : 1, before = 0;
    json_t *list = json_array();
    bool fine = list != NULL;
    size_t i = 0;

    while (i < log->change_count && fine) {
        struct activity_memory_change point = {.ns = UINT64_MAX};

        for (; i < log->change_count && (point.ns == UINT64_MAX || log->changes[i].ns - point.ns < width); i++) {
            const struct activity_memory_change *change = &log->changes[i];

            if (change->pool != pool)
                continue;
            if (point.ns == UINT64_MAX)
                point = *change;
            if (change->used_bytes > point.used_bytes)
                point.used_bytes = change->used_bytes;
            if (change->reserved_bytes > point.reserved_bytes)
                point.reserved_bytes = change->reserved_bytes;
        }
        if (point.ns == UINT64_MAX)
            break;
        fine = json_array_append_new(list, number(point.ns - before)) == 0 &&
               json_array_append_new(list, number(point.used_bytes)) == 0 &&
               json_array_append_new(list, number(point.reserved_bytes)) == 0;
        before = point.ns;
    }
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *charts_json(const struct activity_log *log)
{
    size_t *order = calloc(log->pool_count + 1, sizeof *order), count, i;
    json_t *list = json_array();
    bool fine = order && list;

    count = order ? activity_pool_order(log, order) : 0;
    for (i = 0; i < count && i < CHARTS_MAX && fine; i++) {
        char name[ACTIVITY_POOL_NAME_MAX];

        fine = json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name",
                                                     text_json(activity_pool_name(log, order[i], name)), "peak",
                                                     number(log->pools[order[i]].reserved_peak_bytes), "points",
                                                     points_json(log, order[i]))) == 0;
    }
    free(order);
    if (fine)
        return list;
    json_decref(list);
    return NULL;
}

static json_t *kinds_json(void)
{
    json_t *list = json_array();
    size_t i;

    for (i = 0; i < ACTIVITY_KIND_COUNT; i++)
        if (json_array_append_new(list, json_string(activity_kind_names[i])) != 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* ---- the page ---- */

/* Writes JSON inside of a script element, where "<" may not appear. */
static int write_json(const char *text, size_t bytes, void *data)
{
    FILE *file = data;
    size_t i;

    for (i = 0; i < bytes; i++)
        if (text[i] == '<')
            fputs("\\u003c", file);
        else
            fputc(text[i], file);
    return 0;
}

static json_t *page_json(struct page *page, const struct activity_report *report)
{
    json_t *tracks = tracks_json(page); /* fills name_list */

    return json_pack("{s:o, s:o, s:O, s:o, s:o, s:o, s:o}", "report", activity_report_json(report, LISTED_MAX),
                     "tracks", tracks, "names", page->name_list, "kinds", kinds_json(), "kernels",
                     kernels_json(page->log), "copies", copies_json(page->log), "charts", charts_json(page->log));
}

bool activity_write_html(const struct activity_report *report, FILE *file)
{
    struct page page = {.log = report->log};
    size_t head = (size_t)(strstr(activity_page, marker) - activity_page), i;
    json_t *data = NULL;

    page.names = calloc(report->log->name_count + 1, sizeof *page.names);
    page.name_list = json_array();
    for (i = 0; page.names && i < report->log->name_count; i++)
        page.names[i] = NAME_TABLE_NONE;
    if (page.names && page.name_list && fill_tracks(&page)) {
        downsample(&page);
        data = page_json(&page, report);
    }
    if (data) {
        fwrite(activity_page, 1, head, file);
        json_dump_callback(data, write_json, file, JSON_COMPACT);
        fputs(activity_page + head + strlen(marker), file);
    }
    free(page.names);
    free(page.tracks);
    free(page.slices);
    json_decref(page.name_list);
    json_decref(data);
    return data != NULL;
}

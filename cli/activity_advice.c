/*
 * activity_advice.c - prepares a recorded run for the rules, and asks each of them for advice.
 */
#include "activity_advice.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* A rule, and the smallest saving that is worth telling in percent of the span. */
static const struct {
    const char *name;
    advice_rule *find;
    double least_percent;
} rules[] = {
    {"copies-transpose", advice_strided_copies, 1}, {"small-copies", advice_small_copies, 1},
    {"pageable-copies", advice_pageable_copies, 2}, {"blocking-copies", advice_blocking_copies, 2},
    {"no-overlap", advice_no_overlap, 5},           {"alloc-in-loop", advice_alloc_loop, 2},
    {"pinned-in-loop", advice_pinned_loop, 2},      {"needless-sync", advice_needless_sync, 2},
    {"launch-bound", advice_launch_bound, 5},       {"managed-faults", advice_managed_faults, 2},
};

enum { RULE_COUNT = sizeof rules / sizeof rules[0], RATE_BYTES_MIN = 1 << 20 };

/* ---- times that activities cover ---- */

static void cover_clear(struct cover *cover)
{
    free(cover->begin_ns);
    free(cover->end_ns);
    free(cover->before_ns);
}

static int compare_begins(const void *a, const void *b)
{
    const struct activity *one = *(const struct activity *const *)a, *other = *(const struct activity *const *)b;

    if (one->device_begin_ns != other->device_begin_ns)
        return one->device_begin_ns < other->device_begin_ns ? -1 : 1;
    return one == other ? 0 : one < other ? -1 : 1;
}

/* Makes the union of the times of the work for which is_member returns true. work is in order of time. */
static bool cover_make(struct cover *cover, const struct activity *const *work, size_t count,
                       bool (*is_member)(const struct activity *a))
{
    size_t i;

    cover->begin_ns = calloc(count + 1, sizeof(uint64_t));
    cover->end_ns = calloc(count + 1, sizeof(uint64_t));
    cover->before_ns = calloc(count + 1, sizeof(uint64_t));
    if (!cover->begin_ns || !cover->end_ns || !cover->before_ns)
        return false;
    for (i = 0; i < count; i++) {
        const struct activity *a = work[i];
        size_t last = cover->count - 1;

        if (!is_member(a))
            continue;
        if (cover->count && a->device_begin_ns <= cover->end_ns[last]) {
            if (a->device_end_ns > cover->end_ns[last])
                cover->end_ns[last] = a->device_end_ns;
            continue;
        }
        cover->before_ns[cover->count] =
            cover->count ? cover->before_ns[last] + cover->end_ns[last] - cover->begin_ns[last] : 0;
        cover->begin_ns[cover->count] = a->device_begin_ns;
        cover->end_ns[cover->count++] = a->device_end_ns;
    }
    return true;
}

/* Returns how many pieces begin before ns. */
static size_t count_before(const struct cover *cover, uint64_t ns)
{
    size_t low = 0, high = cover->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (cover->begin_ns[middle] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Returns how much of the time up to ns is covered. */
static uint64_t cover_until(const struct cover *cover, uint64_t ns)
{
    size_t count = count_before(cover, ns), last = count - 1;

    if (count == 0)
        return 0;
    return cover->before_ns[last] + (ns < cover->end_ns[last] ? ns : cover->end_ns[last]) - cover->begin_ns[last];
}

uint64_t cover_last_end(const struct cover *cover, uint64_t ns)
{
    size_t count = count_before(cover, ns);

    return count ? cover->end_ns[count - 1] : 0;
}

uint64_t cover_within(const struct cover *cover, uint64_t begin_ns, uint64_t end_ns)
{
    return begin_ns < end_ns ? cover_until(cover, end_ns) - cover_until(cover, begin_ns) : 0;
}

/* ---- orders ---- */

enum order { BY_STREAM, BY_DEVICE, BY_THREAD };

/* Returns the group of an activity in an order, or ACTIVITY_NONE if it is in none. */
static uint32_t group_of(const struct activity_log *log, const struct activity *a, enum order order)
{
    if (order == BY_THREAD)
        return (a->flags & ACTIVITY_FLAG_HOST) && a->kind != ACTIVITY_RANGE && a->thread < log->thread_count
                   ? a->thread
                   : ACTIVITY_NONE;
    if (!(a->flags & ACTIVITY_FLAG_DEVICE) || a->stream >= log->stream_count)
        return ACTIVITY_NONE;
    if (order == BY_STREAM)
        return a->stream;
    return activity_is_copy(a) || activity_is_compute(a) ? activity_device(log, a) : ACTIVITY_NONE;
}

/* Sorts activities into groups. The log is in the order of the calls. Returns false if memory is short. */
static bool make_order(const struct activity_log *log, enum order order, size_t groups,
                       const struct activity ***list, size_t **begins, size_t *count)
{
    size_t i;

    *list = calloc(log->count + 1, sizeof **list);
    *begins = calloc(groups + 2, sizeof **begins);
    if (!*list || !*begins)
        return false;
    for (i = 0; i < log->count; i++) {
        uint32_t group = group_of(log, &log->list[i], order);

        if (group != ACTIVITY_NONE)
            (*begins)[group + 2]++;
    }
    for (i = 2; i < groups + 2; i++)
        (*begins)[i] += (*begins)[i - 1];
    *count = (*begins)[groups + 1];
    for (i = 0; i < log->count; i++) {
        uint32_t group = group_of(log, &log->list[i], order);

        if (group != ACTIVITY_NONE)
            (*list)[(*begins)[group + 1]++] = &log->list[i];
    }
    for (i = 0; i < groups && order != BY_THREAD; i++)
        qsort(*list + (*begins)[i], (*begins)[i + 1] - (*begins)[i], sizeof **list, compare_begins);
    return true;
}

const struct activity *advice_next_work(const struct advice_scene *scene, uint32_t device, uint64_t ns)
{
    size_t low, high, end;

    if (device >= scene->log->device_count)
        return NULL;
    low = scene->device_begins[device];
    high = end = scene->device_begins[device + 1];
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (scene->by_device[middle]->device_begin_ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end ? scene->by_device[low] : NULL;
}

/* ---- rates ---- */

enum advice_direction advice_direction_of(const struct activity *a)
{
    bool from = a->from_memory == ACTIVITY_MEMORY_DEVICE, to = a->to_memory == ACTIVITY_MEMORY_DEVICE;

    if (from && to)
        return ADVICE_ON_DEVICE;
    if (to && (a->from_memory == ACTIVITY_MEMORY_PAGEABLE || a->from_memory == ACTIVITY_MEMORY_PINNED))
        return ADVICE_TO_DEVICE;
    if (from && (a->to_memory == ACTIVITY_MEMORY_PAGEABLE || a->to_memory == ACTIVITY_MEMORY_PINNED))
        return ADVICE_FROM_DEVICE;
    return ADVICE_OTHER;
}

static bool is_pageable(const struct activity *a)
{
    return a->from_memory == ACTIVITY_MEMORY_PAGEABLE || a->to_memory == ACTIVITY_MEMORY_PAGEABLE;
}

/* Returns the rate of a copy that tells what the link can do, or 0. */
static double telling_rate(const struct activity *a, enum advice_direction direction)
{
    uint64_t length = a->device_end_ns - a->device_begin_ns;

    return a->kind == ACTIVITY_COPY && (a->flags & ACTIVITY_FLAG_DEVICE) && !(a->flags & ACTIVITY_FLAG_CUT) &&
                   a->bytes >= RATE_BYTES_MIN && a->pieces <= 1 && !is_pageable(a) && length &&
                   advice_direction_of(a) == direction
               ? (double)a->bytes / (double)length
               : 0;
}

int advice_compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;

    return one == other ? 0 : one < other ? -1 : 1;
}

static int compare_rates(const void *a, const void *b)
{
    double one = *(const double *)a, other = *(const double *)b;

    return one < other ? -1 : one > other;
}

/* Takes the median of large copies without pageable memory, or else what the user gave. Returns false if memory is
 * short. */
static bool find_rates(struct advice_scene *scene, double given_gb_s)
{
    double *rates = calloc(scene->log->count + 1, sizeof *rates);
    int direction;

    if (!rates)
        return false;
    for (direction = 0; direction < ADVICE_OTHER; direction++) {
        size_t count = 0, i;

        for (i = 0; i < scene->log->count; i++) {
            rates[count] = telling_rate(&scene->log->list[i], (enum advice_direction)direction);
            count += rates[count] > 0;
        }
        qsort(rates, count, sizeof *rates, compare_rates);
        if (count)
            scene->rate_gb_s[direction] = (rates[(count - 1) / 2] + rates[count / 2]) / 2;
        else if (direction != ADVICE_ON_DEVICE && given_gb_s > 0) {
            scene->rate_gb_s[direction] = given_gb_s;
            scene->rate_given[direction] = true;
        }
    }
    free(rates);
    return true;
}

uint64_t advice_time_ns(const struct advice_scene *scene, enum advice_direction direction, uint64_t bytes)
{
    double ns = scene->rate_gb_s[direction] > 0 ? (double)bytes / scene->rate_gb_s[direction] : 0;

    return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

static int compare_intervals(const void *a, const void *b)
{
    const struct activity_interval *one = a, *other = b;

    return one->begin_ns == other->begin_ns ? 0 : one->begin_ns < other->begin_ns ? -1 : 1;
}

uint64_t advice_union(const struct advice_scene *scene, struct activity_interval *list, size_t count,
                      uint64_t (*length)(const struct advice_scene *scene, uint64_t begin_ns, uint64_t end_ns))
{
    uint64_t until = 0, sum = 0;
    size_t i;

    if (count)
        qsort(list, count, sizeof *list, compare_intervals);
    for (i = 0; i < count; i++) {
        uint64_t begin = list[i].begin_ns > until ? list[i].begin_ns : until;

        if (begin >= list[i].end_ns)
            continue;
        sum += length(scene, begin, list[i].end_ns);
        until = list[i].end_ns;
    }
    return sum;
}

const char *advice_rate_text(const struct advice_scene *scene, enum advice_direction direction, char text[96])
{
    char figure[TEXT_MAX];

    snprintf(text, 96, "%s GB/s, %s", text_figure(figure, scene->rate_gb_s[direction]),
             scene->rate_given[direction] ? "as --rate says" : "the median of the large copies in this trace");
    return text;
}

/* ---- gaps ---- */

static bool is_work(const struct activity *a)
{
    return activity_is_copy(a) || activity_is_compute(a);
}

/* Finds the median of the gaps between two pieces of work of a stream of which the host submitted the second
 * before the first was complete. Returns false if memory is short. */
static bool find_turn(struct advice_scene *scene)
{
    uint64_t *gaps = calloc(scene->by_stream_count + 1, sizeof *gaps);
    size_t count = 0, stream, i;

    if (!gaps)
        return false;
    for (stream = 0; stream < scene->log->stream_count; stream++)
        for (i = scene->stream_begins[stream] + 1; i < scene->stream_begins[stream + 1]; i++) {
            const struct activity *before = scene->by_stream[i - 1], *a = scene->by_stream[i];

            if (is_work(before) && is_work(a) && (a->flags & ACTIVITY_FLAG_HOST) &&
                a->host_end_ns <= before->device_end_ns && a->device_begin_ns >= before->device_end_ns)
                gaps[count++] = a->device_begin_ns - before->device_end_ns;
        }
    if (count) {
        qsort(gaps, count, sizeof *gaps, advice_compare);
        scene->turn_ns = gaps[count / 2];
        scene->turn_known = true;
    }
    free(gaps);
    return true;
}

uint64_t advice_gap_ns(const struct advice_scene *scene, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t idle = begin_ns < end_ns ? end_ns - begin_ns - cover_within(&scene->busy, begin_ns, end_ns) : 0;

    return idle > scene->turn_ns ? idle - scene->turn_ns : 0;
}

void advice_gap_basis(const struct advice_scene *scene, const char *what, char basis[ACTIVITY_TEXT_MAX])
{
    char time[32];

    if (scene->turn_known)
        snprintf(basis, ACTIVITY_TEXT_MAX,
                 "%s, but for %s each, as between work of this trace that was submitted in time.", what,
                 activity_duration(time, scene->turn_ns));
    else
        snprintf(basis, ACTIVITY_TEXT_MAX,
                 "%s: an upper bound, since no work of this trace was submitted in time.", what);
}

/* ---- places ---- */

void advice_vote(struct advice_vote *vote, const struct activity *a)
{
    const struct activity *usual = vote->votes ? vote->usual : a;

    vote->usual = usual;
    if (a->name == usual->name && a->place == usual->place && a->range == usual->range)
        vote->votes++;
    else
        vote->votes--;
}

/* ---- all rules ---- */

static void scene_clear(struct advice_scene *scene)
{
    cover_clear(&scene->busy);
    cover_clear(&scene->compute);
    cover_clear(&scene->copies);
    free(scene->by_stream);
    free(scene->stream_begins);
    free(scene->by_device);
    free(scene->device_begins);
    free(scene->by_thread);
    free(scene->thread_begins);
    free(scene->stream_marks);
    free(scene->intervals);
}

static bool make_covers(struct advice_scene *scene)
{
    size_t count = scene->by_device_count;
    const struct activity **work = calloc(count + 1, sizeof *work);
    bool fine = false;

    if (!work)
        return false;
    if (count)
        memcpy(work, scene->by_device, count * sizeof *work);
    qsort(work, count, sizeof *work, compare_begins);
    fine = cover_make(&scene->busy, work, count, is_work) &&
           cover_make(&scene->compute, work, count, activity_is_compute) &&
           cover_make(&scene->copies, work, count, activity_is_copy);
    free(work);
    return fine;
}

static bool scene_make(struct advice_scene *scene, const struct activity_log *log,
                       const struct activity_breakdown *breakdown, double rate_gb_s)
{
    *scene = (struct advice_scene){.log = log, .breakdown = breakdown};
    scene->stream_marks = calloc(log->stream_count * 2 + 1, sizeof *scene->stream_marks);
    if (!scene->stream_marks ||
        !make_order(log, BY_STREAM, log->stream_count, &scene->by_stream, &scene->stream_begins,
                    &scene->by_stream_count) ||
        !make_order(log, BY_DEVICE, log->device_count, &scene->by_device, &scene->device_begins,
                    &scene->by_device_count) ||
        !make_order(log, BY_THREAD, log->thread_count, &scene->by_thread, &scene->thread_begins,
                    &scene->by_thread_count) ||
        !make_covers(scene) || !find_turn(scene))
        return false;
    scene->intervals = calloc(scene->by_thread_count * 2 + 1, sizeof *scene->intervals);
    if (!scene->intervals)
        return false;
    return find_rates(scene, rate_gb_s);
}

static int compare_advice(const void *a, const void *b)
{
    const struct activity_advice *one = a, *other = b;

    return one->saving_ns == other->saving_ns ? 0 : one->saving_ns > other->saving_ns ? -1 : 1;
}

int activity_advise(const struct activity_log *log, const struct activity_breakdown *breakdown, double rate_gb_s,
                    struct activity_advice list[ACTIVITY_ADVICE_MAX])
{
    struct advice_scene scene;
    int count = 0;
    size_t i;

    _Static_assert((int)RULE_COUNT <= (int)ACTIVITY_ADVICE_MAX, "room for the advice of each rule");
    if (!scene_make(&scene, log, breakdown, rate_gb_s)) {
        scene_clear(&scene);
        return -1;
    }
    for (i = 0; i < RULE_COUNT; i++) {
        struct activity_advice *advice = &list[count];

        *advice = (struct activity_advice){.rule = rules[i].name};
        if (rules[i].find(&scene, advice) &&
            (double)advice->saving_ns * 100 >= rules[i].least_percent * (double)log->span_ns)
            count++;
    }
    scene_clear(&scene);
    qsort(list, (size_t)count, sizeof *list, compare_advice);
    return count;
}

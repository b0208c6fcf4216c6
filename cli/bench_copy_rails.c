/*
 * bench_copy_rails.c - measures copies from host memory to one device over its own link and the links of other
 * devices of the same driver (leat_copy_set_rails()). It compares them with the driver's copy over one link.
 */
#include "bench_copy.h"
#include "bench_verify.h"

#include <leat/copy.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RAILS_MAX = 8 };

static const char part[] = "one device filled over several links";

static size_t rails_bytes(const struct bench *bench)
{
    if (bench->options->size_count)
        return bench->options->sizes[bench->options->size_count - 1];
    return bench->options->quick ? 256 * MIB : 2 * GIB;
}

/* Opens other devices of the driver as helpers, at most as many as leat supports. */
static unsigned open_others(struct bench *bench, leat_device **others)
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    unsigned count = 0, i;

    for (i = 0; leat_device_list(i, &info) == LEAT_OK && count < RAILS_MAX; i++) {
        if (strcmp(info.driver, bench->info.driver) != 0 || info.ordinal == bench->info.ordinal)
            continue;
        if (!bench_check(bench, leat_device_open(info.name, &others[count])))
            break;
        count++;
    }
    return count;
}

/* Measures one row with this number of helpers. The row's bound is the bound of one link times the number of
 * links. */
static double measure(struct bench *bench, struct bench_rows *rows, struct copy_host *in, void *dst, char *name,
                      size_t bytes, double bound)
{
    struct copy_case c = {.bench = bench,
                          .direction = COPY_IN,
                          .pageable = in->memory != COPY_PINNED,
                          .bytes = bytes,
                          .in_dst = dst,
                          .in_src = in->ptr,
                          .in_host = in};
    unsigned before = rows->count;

    if (!copy_case_choose_call(&c)) {
        bench_case_failed(bench, "copy", name, bytes);
        return NAN;
    }
    copy_case_measure(&c, rows, part, name, bench->options->quick ? 0.1 : 0.4, bound);
    return rows->count > before ? bench_figure(&rows->rows[before], rows->rows[before].result.leat.median) : NAN;
}

static void measure_memory(struct bench *bench, enum copy_memory memory, leat_device *const *others,
                           unsigned count, void *dst, size_t bytes)
{
    static char names[COPY_MEMORY_COUNT][RAILS_MAX + 1][64]; /* static: rows refer to them until they are
                                                              * committed */
    static double one_link;                                  /* the bound of one link, from the rows of pinned
                                                              * memory, which are measured first */
    struct bench_rows rows = {.count = 0};
    struct copy_host in = {.ptr = NULL};
    unsigned helpers;

    if (memory == COPY_PINNED)
        one_link = NAN;
    if (copy_host_make(bench, memory, true, bytes, &in) != COPY_HOST_READY) {
        bench_case_failed(bench, "copy", copy_memory_texts[memory].part, bytes);
        copy_host_free(&in);
        return;
    }
    /* Measure with one, two, four and eight links. */
    for (helpers = 0; helpers <= count; helpers = 2 * helpers + 1) {
        char *name = names[memory][helpers];

        snprintf(name, sizeof names[memory][helpers], "%u link%s, %s", helpers + 1, helpers ? "s" : "",
                 copy_memory_texts[memory].label);
        if (!bench_check(bench, leat_copy_set_rails(bench->device, others, helpers))) {
            bench_case_failed(bench, "copy", name, bytes);
            break;
        }
        if (helpers == 0 && memory == COPY_PINNED)
            one_link = measure(bench, &rows, &in, dst, name, bytes, NAN);
        else
            measure(bench, &rows, &in, dst, name, bytes, one_link * (helpers + 1));
    }
    bench_check(bench, leat_copy_set_rails(bench->device, NULL, 0));
    bench_rows_commit(bench, &rows);
    copy_host_free(&in);
}

void bench_copy_rails(struct bench *bench)
{
    static const enum copy_memory memories[] = {COPY_PINNED, COPY_PAGEABLE};
    leat_device *others[RAILS_MAX];
    unsigned count = open_others(bench, others), i;
    size_t bytes = rails_bytes(bench);
    void *dst = NULL;

    if (count == 0) {
        bench_note(bench, "copy, rails: left out, since %s is the only device of its driver", bench->info.name);
        return;
    }
    if (bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_DEVICE, bytes, &dst)))
        for (i = 0; i < sizeof memories / sizeof memories[0]; i++)
            measure_memory(bench, memories[i], others, count, dst, bytes);
    else
        bench_case_failed(bench, "copy", "device memory for several links", bytes);
    leat_memory_free(dst);
    for (i = 0; i < count; i++)
        if (!bench_check(bench, leat_device_close(others[i])))
            bench_case_failed(bench, "copy", "closing the other devices", bytes);
}

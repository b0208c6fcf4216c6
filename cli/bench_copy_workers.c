/*
 * bench_copy_workers.c - measures copies of pageable memory with different numbers of leat's copy threads. A child
 * process measures each number, and this process adds the child's rows to its record.
 */
#include "bench_child.h"
#include "bench_copy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { WORKERS_MAX = 16 };

static const char part[] = "pageable memory, by the number of copying threads";

static void list_sizes(const struct bench *bench, char *text, size_t room)
{
    const struct bench_options *options = bench->options;
    size_t used = 0;
    unsigned i;

    if (!options->size_count)
        snprintf(text, room, "%s",
                 !strcmp(bench->info.driver, "cpu") ? "64M"
                 : options->full                    ? "1M,8M,64M,2G"
                                                    : "64M,256M");
    for (i = 0; i < options->size_count && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%zu", i ? "," : "", options->sizes[i]);
}

/* Adds one row of the child's record to this record. */
static bool take_row(struct bench *bench, json_t *row, unsigned workers)
{
    const char *old_name = json_string_value(json_object_get(row, "case"));
    char name[96];

    snprintf(name, sizeof name, "%s, %u thread%s", old_name ? old_name : "?", workers, workers == 1 ? "" : "s");
    if (!json_is_true(json_object_get(row, "verified")))
        bench->failed = true;
    return json_object_set_new(row, "case", json_string(name)) == 0 &&
           json_object_set_new(row, "part", json_string(part)) == 0 &&
           json_object_set_new(row, "workers", json_integer(workers)) == 0 &&
           json_array_append(bench->rows, row) == 0;
}

/* Measures with this number of threads in a child process. The CPU device copies pageable memory directly, so
 * LEAT_COPY_STAGE makes the child stage its copies, as on a GPU. */
static bool measure(struct bench *bench, unsigned workers)
{
    char sizes[BENCH_SIZES_MAX * 24], repeat[16], variable[32];
    struct bench_child child = {.words = {"bench", "copy", "--json", "--part", "sizes", "--memory", "pageable",
                                          "--bytes", sizes, "--device", bench->info.name},
                                .variables = {variable}};
    unsigned count = 11;
    bool fine = true;
    json_t *record, *row;
    size_t index;

    list_sizes(bench, sizes, sizeof sizes);
    snprintf(variable, sizeof variable, "LEAT_COPY_WORKERS=%u", workers);
    if (!strcmp(bench->info.driver, "cpu"))
        child.variables[1] = "LEAT_COPY_STAGE=1";
    if (bench->options->quick)
        child.words[count++] = "--quick";
    if (bench->options->repeat) {
        snprintf(repeat, sizeof repeat, "%u", bench->options->repeat);
        child.words[count++] = "--repeat";
        child.words[count++] = repeat;
    }
    record = bench_child_run(bench, &child);
    json_array_foreach(json_object_get(record, "rows"), index, row) fine = take_row(bench, row, workers) && fine;
    if (!fine)
        snprintf(bench->error, sizeof bench->error, "out of host memory");
    fine = fine && record;
    json_decref(record);
    return fine;
}

void bench_copy_workers(struct bench *bench)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned most = online > 0 && online < WORKERS_MAX ? (unsigned)online : WORKERS_MAX, workers;
    bool each = bench->options->full;

    /* A quick run starts child processes only if the user asks for this part. */
    if (bench->options->quick && !bench->options->copy_parts)
        return;
    for (workers = 1; workers <= most; workers = each ? workers + 1 : workers * 2) {
        bench_progress(bench, "copy", part, 0);
        if (!measure(bench, workers))
            bench_case_failed(bench, "copy", part, 0);
    }
}

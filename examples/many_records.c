/*
 * many_records.c - copies thousands of small records, scattered in host memory, to the device and back.
 *
 *     cc many_records.c -o many_records $(pkg-config --cflags --libs leat)
 *     ./many_records [device]
 *
 * Programs often have many small pieces in separate allocations: rows of a table, blocks of a cache, nodes of a
 * graph. A kernel needs them in one array. A copy of one record costs some microseconds, whatever its size, so a
 * thousand records of 1 KiB take longer than a million bytes in one piece. leat_copy_batch() copies all of them
 * with one call: it checks them, merges neighbouring records, packs the pageable ones, and moves the rest with one
 * kernel.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define RECORDS ((size_t)4096)
#define VALUES ((size_t)256) /* values in each record, 1 KiB */
#define RECORD_BYTES (VALUES * sizeof(uint32_t))
#define ADDEND 1000u

struct record {
    uint32_t values[VALUES];
};

struct work {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *add;
    struct record *records[RECORDS]; /* each from its own malloc() */
    void *table;                     /* device memory: all records side by side */
    leat_copy_op pairs[RECORDS];
};

static int failed(const char *step)
{
    fprintf(stderr, "many_records: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    leat_module *module;

    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    /* Load leat's built-in kernels before the work begins, because loading takes a moment. leat_copy_batch() needs
     * one of them, and so does this program. */
    if (leat_module_builtin(w->device, &module) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_kernel_get(module, "leat_add_u32", &w->add) != LEAT_OK)
        return failed("find the kernel");
    if (leat_alloc(w->stream, RECORDS * RECORD_BYTES, &w->table) != LEAT_OK)
        return failed("allocate on the device");
    for (size_t i = 0; i < RECORDS; i++) {
        w->records[i] = malloc(RECORD_BYTES);
        if (!w->records[i]) {
            fprintf(stderr, "many_records: no memory for record %zu\n", i);
            return 1;
        }
        for (size_t k = 0; k < VALUES; k++)
            w->records[i]->values[k] = (uint32_t)(i * VALUES + k);
    }
    return 0;
}

/* Copies each record to its place in the table. */
static int gather(struct work *w)
{
    for (size_t i = 0; i < RECORDS; i++)
        w->pairs[i] = (leat_copy_op){
            .dst = (char *)w->table + i * RECORD_BYTES, .src = w->records[i], .bytes = RECORD_BYTES};
    if (leat_copy_batch(w->stream, w->pairs, RECORDS) != LEAT_OK)
        return failed("copy the records to the device");
    return 0;
}

static int compute(struct work *w)
{
    uint64_t count = RECORDS * VALUES;
    uint32_t addend = ADDEND;
    void *args[] = {&w->table, &count, &addend};

    if (leat_launch(w->stream, w->add, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 3) != LEAT_OK)
        return failed("launch the kernel");
    return 0;
}

/* Copies the records back to their places. It can reuse the array of operations while the first copy is still
 * running, because leat_copy_batch() has read the array when it returns. */
static int scatter(struct work *w)
{
    char plan[2000];

    for (size_t i = 0; i < RECORDS; i++) {
        w->pairs[i].dst = w->records[i];
        w->pairs[i].src = (char *)w->table + i * RECORD_BYTES;
    }
    if (leat_copy_batch_explain(w->stream, w->pairs, RECORDS, plan, sizeof plan) != LEAT_OK)
        return failed("ask how the records will be copied");
    printf("the way back:\n%s", plan);
    if (leat_copy_batch(w->stream, w->pairs, RECORDS) != LEAT_OK)
        return failed("copy the records back");
    return 0;
}

static int check(const struct work *w)
{
    for (size_t i = 0; i < RECORDS; i++)
        for (size_t k = 0; k < VALUES; k++)
            if (w->records[i]->values[k] != (uint32_t)(i * VALUES + k) + ADDEND) {
                fprintf(stderr, "many_records: value %zu of record %zu is %u\n", k, i, w->records[i]->values[k]);
                return 1;
            }
    printf("%zu records of %zu bytes went to the device and back; all values are right\n", RECORDS, RECORD_BYTES);
    return 0;
}

int main(int argc, char **argv)
{
    static struct work w; /* too large for a small stack */
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = prepare(&w) || gather(&w) || compute(&w) || scatter(&w);
    /* The host may read and free the records only when the stream has finished writing them. */
    if (w.stream && leat_stream_synchronize(w.stream) != LEAT_OK)
        wrong = failed("finish the work");
    wrong = wrong || check(&w);

    /* Closing destroys the stream and frees the table. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    for (size_t i = 0; i < RECORDS; i++)
        free(w.records[i]);
    return wrong;
}

/*
 * transpose_columns.c - transposes a matrix on its way to the device in the slow way of many textbooks, one copy
 * for each column, and then by one call. Record it to see where the time goes:
 *
 *     cc transpose_columns.c -o transpose_columns $(pkg-config --cflags --libs leat)
 *     LEAT_TRACE=columns.trace ./transpose_columns [device [columns|once]]
 *     leat trace columns.trace
 *     leat trace --html columns.html columns.trace
 *
 * "leat trace" says that the copies are the columns of a matrix, which call replaces them, and what that saves.
 * With the argument "columns" or "once" the program does only one of the two.
 */
#include <leat/leat.h>
#include <leat/trace.h>

#include <stdio.h>
#include <string.h>

#define ROWS 1024
#define COLUMNS 768
#define BYTES (ROWS * COLUMNS * sizeof(float))

struct work {
    leat_device *device;
    leat_stream *stream;
    float *host, *back;         /* pinned memory */
    float *matrix, *transposed; /* device memory */
};

static int failed(const char *step)
{
    fprintf(stderr, "transpose_columns: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_memory_alloc(w->device, LEAT_KIND_PINNED, BYTES, (void **)&w->host) != LEAT_OK ||
        leat_memory_alloc(w->device, LEAT_KIND_PINNED, BYTES, (void **)&w->back) != LEAT_OK)
        return failed("allocate pinned memory");
    if (leat_alloc(w->stream, BYTES, (void **)&w->matrix) != LEAT_OK ||
        leat_alloc(w->stream, BYTES, (void **)&w->transposed) != LEAT_OK)
        return failed("allocate on the device");
    for (size_t i = 0; i < (size_t)ROWS * COLUMNS; i++)
        w->host[i] = (float)i;
    /* Plain copies show in the trace what the link can do; the first one also touches new memory. */
    for (int i = 0; i < 4; i++)
        if (leat_copy(w->stream, w->matrix, w->host, BYTES) != LEAT_OK ||
            leat_copy(w->stream, w->transposed, w->host, BYTES) != LEAT_OK)
            return failed("copy the matrix as it is");
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("finish the plain copies");
    return 0;
}

/* Slow: each column becomes a row of the result by a copy of its own. */
static int copy_columns(struct work *w)
{
    const leat_copy_region column = {.width_bytes = sizeof(float),
                                     .height = ROWS,
                                     .depth = 1,
                                     .dst_pitch_bytes = sizeof(float),
                                     .src_pitch_bytes = COLUMNS * sizeof(float)};

    for (size_t i = 0; i < COLUMNS; i++)
        if (leat_copy_3d(w->stream, w->transposed + i * ROWS, w->host + i, &column) != LEAT_OK)
            return failed("copy a column");
    return 0;
}

/* Fast: one copy between two layouts. */
static int copy_once(struct work *w)
{
    leat_layout matrix, result;

    if (leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, COLUMNS}, sizeof(float)) != LEAT_OK ||
        leat_layout_transpose(&matrix, 0, 1) != LEAT_OK || /* the same bytes, seen as COLUMNS x ROWS */
        leat_layout_dense(&result, 2, matrix.size, sizeof(float)) != LEAT_OK)
        return failed("describe the matrix");
    if (leat_copy_layout(w->stream, w->transposed, &result, w->host, &matrix) != LEAT_OK)
        return failed("transpose");
    return 0;
}

/* Transposes in one of the two ways, brings the result back, and checks it. name: of the range in the trace. */
static int transpose(struct work *w, const char *name, int (*way)(struct work *w))
{
    int wrong;

    leat_trace_range_push(name);
    wrong = way(w);
    if (leat_stream_synchronize(w->stream) != LEAT_OK)
        wrong = failed("finish the copies");
    leat_trace_range_pop();
    if (wrong)
        return wrong;
    if (leat_copy(w->stream, w->back, w->transposed, BYTES) != LEAT_OK ||
        leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("get the result back");
    for (size_t row = 0; row < ROWS; row++)
        for (size_t column = 0; column < COLUMNS; column++)
            if (w->back[column * ROWS + row] != w->host[row * COLUMNS + column]) {
                fprintf(stderr, "transpose_columns: element %zu, %zu is wrong\n", row, column);
                return 1;
            }
    memset(w->back, 0, BYTES);
    printf("%s: a matrix of %d x %d is transposed, and every element is right\n", name, ROWS, COLUMNS);
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {.device = NULL};
    const char *only = argc > 2 ? argv[2] : NULL;
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = prepare(&w);
    if (!wrong && (!only || !strcmp(only, "columns")))
        wrong = transpose(&w, "columns", copy_columns);
    if (!wrong && (!only || !strcmp(only, "once")))
        wrong = transpose(&w, "once", copy_once);

    /* Closing the device frees the stream and all memory of it. */
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}

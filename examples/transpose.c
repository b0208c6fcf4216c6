/*
 * transpose.c - transposes a matrix, and converts images from planes of red, green and blue to pixels, each by one
 * copy between two layouts.
 *
 *     cc transpose.c -o transpose $(pkg-config --cflags --libs leat)
 *     ./transpose [device]
 *
 * A layout says where the elements of an array lie. To transpose or permute a view of an array, a program only
 * exchanges numbers in its layout, which moves no bytes. leat_copy_layout() then moves the bytes from one layout
 * to another, between any two places.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define ROWS 600
#define COLUMNS 700

#define IMAGES 8
#define PLANES 3
#define HEIGHT 120
#define WIDTH 160

/* Both parts of the program use one block of memory. */
_Static_assert(ROWS *COLUMNS <= IMAGES * PLANES * HEIGHT * WIDTH, "the images are larger than the matrix");

struct work {
    leat_device *device;
    leat_stream *stream;
    void *matrix; /* device memory */
    float *host, *back;
};

static int failed(const char *step)
{
    fprintf(stderr, "transpose: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    size_t bytes = (size_t)IMAGES * PLANES * HEIGHT * WIDTH * sizeof(float);

    w->host = malloc(bytes);
    w->back = malloc(bytes);
    if (!w->host || !w->back) {
        fprintf(stderr, "transpose: out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < bytes / sizeof(float); i++)
        w->host[i] = (float)i;
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_alloc(w->stream, bytes, &w->matrix) != LEAT_OK)
        return failed("allocate on the device");
    return 0;
}

/* Copies the matrix to the device unchanged, and copies it back transposed. */
static int transpose(struct work *w)
{
    leat_layout matrix, view, result;
    void *transposed;
    char plan[2000];

    if (leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, COLUMNS}, sizeof(float)) != LEAT_OK)
        return failed("describe the matrix");
    view = matrix;
    if (leat_layout_transpose(&view, 0, 1) != LEAT_OK || /* the same bytes, seen as COLUMNS x ROWS */
        leat_layout_dense(&result, 2, view.size, sizeof(float)) != LEAT_OK)
        return failed("transpose the view");
    if (leat_alloc(w->stream, ROWS * COLUMNS * sizeof(float), &transposed) != LEAT_OK)
        return failed("allocate on the device");
    if (leat_copy(w->stream, w->matrix, w->host, ROWS * COLUMNS * sizeof(float)) != LEAT_OK)
        return failed("copy the matrix to the device");
    if (leat_copy_layout_explain(w->stream, transposed, &result, w->matrix, &view, plan, sizeof plan) != LEAT_OK)
        return failed("ask how it will be transposed");
    printf("%s", plan);
    if (leat_copy_layout(w->stream, transposed, &result, w->matrix, &view) != LEAT_OK)
        return failed("transpose");
    if (leat_copy(w->stream, w->back, transposed, ROWS * COLUMNS * sizeof(float)) != LEAT_OK ||
        leat_free(w->stream, transposed) != LEAT_OK || leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("get the result back");
    for (size_t row = 0; row < ROWS; row++)
        for (size_t column = 0; column < COLUMNS; column++)
            if (w->back[column * ROWS + row] != w->host[row * COLUMNS + column]) {
                fprintf(stderr, "transpose: element %zu, %zu is wrong\n", row, column);
                return 1;
            }
    printf("a matrix of %d x %d is %d x %d now, and every element is right\n\n", ROWS, COLUMNS, COLUMNS, ROWS);
    return 0;
}

/* One call copies the images to the device and changes planes to pixels on the way. */
static int make_pixels(struct work *w)
{
    leat_layout planes, pixels;

    /* Frameworks call the two orders NCHW and NHWC: number, channel, height, width. */
    if (leat_layout_dense(&planes, 4, (int64_t[]){IMAGES, PLANES, HEIGHT, WIDTH}, sizeof(float)) != LEAT_OK ||
        leat_layout_permute(&planes, (uint32_t[]){0, 2, 3, 1}) != LEAT_OK ||
        leat_layout_dense(&pixels, 4, planes.size, sizeof(float)) != LEAT_OK)
        return failed("describe the images");
    if (leat_copy_layout(w->stream, w->matrix, &pixels, w->host, &planes) != LEAT_OK)
        return failed("copy the images to the device");
    if (leat_copy(w->stream, w->back, w->matrix, IMAGES * PLANES * HEIGHT * WIDTH * sizeof(float)) != LEAT_OK ||
        leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("get the images back");
    for (size_t i = 0; i < (size_t)IMAGES * HEIGHT * WIDTH; i++)
        for (size_t plane = 0; plane < PLANES; plane++) {
            size_t image = i / (HEIGHT * WIDTH), place = i % (HEIGHT * WIDTH);

            if (w->back[i * PLANES + plane] != w->host[(image * PLANES + plane) * HEIGHT * WIDTH + place]) {
                fprintf(stderr, "transpose: plane %zu of pixel %zu is wrong\n", plane, i);
                return 1;
            }
        }
    printf("%d images went to the device and are pixels there\n", IMAGES);
    return 0;
}

int main(int argc, char **argv)
{
    struct work w = {.device = NULL};
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = prepare(&w) || transpose(&w) || make_pixels(&w);

    /* The stream's work must be complete before the host's memory is freed, also after a failed step. */
    if (w.stream && leat_stream_synchronize(w.stream) != LEAT_OK)
        wrong = failed("finish the work");
    if (leat_device_close(w.device) != LEAT_OK)
        wrong = failed("close the device");
    free(w.back);
    free(w.host);
    return wrong;
}

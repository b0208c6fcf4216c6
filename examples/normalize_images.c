/*
 * normalize_images.c - makes the input of a neural network from a batch of decoded images: pixels of bytes in host
 * memory become normalized planes of halves on the device, in one call.
 *
 *     cc normalize_images.c -o normalize_images $(pkg-config --cflags --libs leat)
 *     ./normalize_images [device]
 *
 * A view of the images, from (image, row, column, channel) to (image, channel, row, column), is the source of the copy,
 * and a dense layout of halves its destination. Each channel has its own scale and bias. leat_copy_convert() moves the
 * bytes over the link, and converts them in the same kernel that makes the planes.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>

#define IMAGES 8
#define ROWS 224
#define COLUMNS 224
#define CHANNELS 3
#define VALUES ((size_t)IMAGES * ROWS * COLUMNS * CHANNELS)

struct work {
    leat_device *device;
    leat_stream *stream;
    unsigned char *images; /* host memory, as an image decoder fills it */
    uint16_t *seen;
    void *input; /* device memory: the halves */
};

static int failed(const char *step)
{
    fprintf(stderr, "normalize_images: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    w->images = malloc(VALUES);
    w->seen = malloc(VALUES * sizeof *w->seen);
    if (!w->images || !w->seen) {
        fprintf(stderr, "normalize_images: out of memory\n");
        return 1;
    }
    for (size_t i = 0; i < VALUES; i++)
        w->images[i] = (unsigned char)(i * 7919 >> 3);
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_alloc(w->stream, VALUES * sizeof(uint16_t), &w->input) != LEAT_OK)
        return failed("allocate device memory");
    return 0;
}

/* Each value becomes (value / 255 - mean) / deviation, which is value * scale + bias. */
static leat_status normalize(struct work *w)
{
    static const float mean[CHANNELS] = {0.485f, 0.456f, 0.406f}, deviation[CHANNELS] = {0.229f, 0.224f, 0.225f};
    float scale[CHANNELS], bias[CHANNELS];
    leat_conversion conversion = LEAT_CONVERSION_INIT;
    leat_layout pixels, planes;
    leat_status status;

    for (int c = 0; c < CHANNELS; c++) {
        scale[c] = 1 / (255 * deviation[c]);
        bias[c] = -mean[c] / deviation[c];
    }
    status = leat_layout_dense(&pixels, 4, (int64_t[]){IMAGES, ROWS, COLUMNS, CHANNELS}, 1);
    if (status == LEAT_OK)
        status = leat_layout_permute(&pixels, (uint32_t[]){0, 3, 1, 2});
    if (status == LEAT_OK)
        status = leat_layout_dense(&planes, 4, pixels.size, sizeof(uint16_t));
    if (status != LEAT_OK)
        return status;
    conversion.dst = LEAT_NUMBER_F16;
    conversion.src = LEAT_NUMBER_U8;
    conversion.channels = CHANNELS;
    conversion.channel_dim = 1;
    conversion.scale = scale;
    conversion.bias = bias;
    return leat_copy_convert(w->stream, w->input, &planes, w->images, &pixels, &conversion);
}

/* Returns the value of a half that is not infinite and no NaN. */
static double value_of(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent ? fraction + 1024.0 : fraction;

    for (int i = exponent ? exponent : 1; i < 25; i++)
        value /= 2;
    for (int i = 25; i < exponent; i++)
        value *= 2;
    return half >> 15 ? -value : value;
}

/* Compares one value of each channel with the formula. */
static int check(const struct work *w)
{
    static const double mean[CHANNELS] = {0.485, 0.456, 0.406}, deviation[CHANNELS] = {0.229, 0.224, 0.225};
    size_t plane = (size_t)ROWS * COLUMNS, pixel = 100 * COLUMNS + 57, image = IMAGES - 1;

    for (size_t c = 0; c < CHANNELS; c++) {
        double byte = w->images[(image * plane + pixel) * CHANNELS + c];
        double wanted = (byte / 255 - mean[c]) / deviation[c];
        double found = value_of(w->seen[(image * CHANNELS + c) * plane + pixel]);

        printf("channel %zu: %3.0f becomes %.4f\n", c, byte, found);
        if (found < wanted - 0.002 || found > wanted + 0.002) {
            fprintf(stderr, "normalize_images: channel %zu is %f and not %f\n", c, found, wanted);
            return 1;
        }
    }
    return 0;
}

static int run(struct work *w)
{
    if (normalize(w) != LEAT_OK)
        return failed("convert the images");
    if (leat_copy_sync(w->stream, w->seen, w->input, VALUES * sizeof *w->seen) != LEAT_OK)
        return failed("copy the result back");
    return check(w);
}

static void clean_up(struct work *w)
{
    if (w->input)
        (void)leat_free(w->stream, w->input);
    (void)leat_stream_destroy(w->stream);
    (void)leat_device_close(w->device);
    free(w->images);
    free(w->seen);
}

int main(int argc, char **argv)
{
    struct work w = {0};
    int code;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open a device");
    code = prepare(&w);
    if (!code)
        code = run(&w);
    clean_up(&w);
    return code;
}

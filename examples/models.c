/*
 * models.c - loads the weights of a model from a file onto a device, finds them by name, and saves them to a file.
 *
 *     cc models.c -o models $(pkg-config --cflags --libs leat-files)
 *     ./models                                   a small model that the program makes itself
 *     ./models cuda:0 model.safetensors          your model; the program saves a copy beside it and deletes it
 *
 * The calls of leat/model.h are in a separate library, libleat-files. Loads and saves run in stream order like
 * copies: the calls return at once, later work of the stream sees the weights, and the host waits only when it
 * needs the result.
 */
#include <leat/leat.h>
#include <leat/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The model that the program makes has this number of layers, which each have a weight and a bias. */
#define LAYERS 4
#define WIDTH 512

static int failed(const char *step)
{
    fprintf(stderr, "models: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* ---- saving ---- */

/* Saves tensors and waits until the file has its name. A program that goes on training would not wait here. */
static int save_items(leat_stream *stream, const char *path, const leat_model_save_item *items, size_t count)
{
    static const leat_model_entry metadata[] = {{"format", "pt"}};
    leat_model_save_options options = LEAT_MODEL_SAVE_OPTIONS_INIT;
    leat_model_save *save;

    options.metadata = metadata;
    options.metadata_count = 1;
    if (leat_model_save_start(stream, path, items, count, &options, &save) != LEAT_OK)
        return failed("start to save");
    /* To change the weights again, it would be enough to wait for LEAT_COPY_POINT_STAGED. */
    if (leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER) != LEAT_OK)
        return failed("save");
    leat_model_save_destroy(save);
    return 0;
}

/* Makes the small model: random weights on the device, saved from there. */
static int make_model(leat_stream *stream, const char *path)
{
    static const int64_t weight_shape[] = {WIDTH, WIDTH}, bias_shape[] = {WIDTH};
    static float values[LAYERS * (WIDTH + 1) * WIDTH];
    leat_model_save_item items[2 * LAYERS];
    char names[2 * LAYERS][40];
    float *weights;
    void *memory;
    uint32_t state = 1;

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        state = state * 1664525 + 1013904223;
        values[i] = (float)(int32_t)state / 2147483648.0f;
    }
    if (leat_alloc(stream, sizeof values, &memory) != LEAT_OK ||
        leat_copy(stream, memory, values, sizeof values) != LEAT_OK)
        return failed("put the weights onto the device");
    weights = memory;
    for (int i = 0; i < 2 * LAYERS; i++) {
        int bias = i % 2;

        snprintf(names[i], sizeof names[i], "layers.%d.%s", i / 2, bias ? "bias" : "weight");
        items[i] = (leat_model_save_item)LEAT_MODEL_SAVE_ITEM_INIT;
        items[i].name = names[i];
        items[i].type = "F32";
        items[i].dims = bias ? 1 : 2;
        items[i].shape = bias ? bias_shape : weight_shape;
        items[i].src = weights;
        items[i].src_bytes = (bias ? WIDTH : WIDTH * WIDTH) * sizeof *weights;
        weights += bias ? WIDTH : WIDTH * WIDTH;
    }
    if (save_items(stream, path, items, 2 * LAYERS))
        return 1;
    return leat_free(stream, memory) == LEAT_OK ? 0 : failed("free the weights");
}

/* ---- loading ---- */

/* Opens a file and loads all its tensors. leat allocates one block of device memory for them and reads consecutive
 * tensors with one large read. */
static int load_all(leat_stream *stream, const char *path, leat_model **model, leat_model_set **set)
{
    leat_model_load_info info = LEAT_MODEL_LOAD_INFO_INIT;

    if (leat_model_open(&path, 1, model) != LEAT_OK)
        return failed("open the model");
    if (leat_model_load_all(stream, *model, NULL, NULL, set) != LEAT_OK)
        return failed("start to load");
    /* A kernel launched on the stream now would already see the weights. Only this host program waits for them. */
    if (leat_model_load_wait(leat_model_set_get_load(*set), LEAT_COPY_POINT_DONE, LEAT_FOREVER) != LEAT_OK)
        return failed("load");
    if (leat_model_load_get_info(leat_model_set_get_load(*set), &info) != LEAT_OK)
        return failed("ask how the load went");
    printf("%s: %" PRIu64 " bytes onto the device by %zu read%s\n", path, info.bytes, info.reads,
           info.reads == 1 ? "" : "s");
    return 0;
}

/* Saves the tensors of a set from the device to a second file. */
static int save_copy(leat_stream *stream, const char *path, const leat_model *model, const leat_model_set *set)
{
    leat_model_save_item *items;
    size_t count;
    int wrong = 0;

    if (leat_model_count(model, &count, NULL) != LEAT_OK)
        return failed("count the tensors");
    items = calloc(count + 1, sizeof *items);
    for (size_t i = 0; items && i < count && !wrong; i++) {
        leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
        void *ptr;

        if (leat_model_get_tensor_info(model, i, &info) != LEAT_OK ||
            leat_model_set_get_pointer(set, i, &ptr) != LEAT_OK)
            wrong = failed("find a tensor");
        items[i] = (leat_model_save_item)LEAT_MODEL_SAVE_ITEM_INIT;
        items[i].name = info.name;
        items[i].type = info.type;
        items[i].dims = info.dims;
        items[i].shape = info.shape;
        items[i].src = wrong ? NULL : ptr;
        items[i].src_bytes = (size_t)info.bytes;
    }
    if (!items)
        wrong = fprintf(stderr, "models: out of memory\n") > 0;
    wrong = wrong || save_items(stream, path, items, count);
    free(items);
    return wrong;
}

/* ---- the check ---- */

/* Reads one tensor of the first file on the host and compares it with the same tensor of the copy. ptr: the copy's
 * tensor on the device. */
static int compare(leat_stream *stream, const char *path, const leat_model_tensor_info *wanted, const void *ptr)
{
    char *from_file = malloc((size_t)wanted->bytes + 1), *from_device = malloc((size_t)wanted->bytes + 1);
    FILE *file = fopen(path, "rb");
    int wrong = 1;

    if (!from_file || !from_device || !file || fseek(file, (long)wanted->offset, SEEK_SET) ||
        fread(from_file, 1, (size_t)wanted->bytes, file) != wanted->bytes)
        fprintf(stderr, "models: cannot read %s\n", path);
    else if (leat_copy_sync(stream, from_device, ptr, (size_t)wanted->bytes) != LEAT_OK)
        failed("copy a tensor back");
    else if (memcmp(from_file, from_device, (size_t)wanted->bytes))
        fprintf(stderr, "models: tensor %s differs\n", wanted->name);
    else
        wrong = 0;
    if (file)
        fclose(file);
    free(from_file);
    free(from_device);
    return wrong;
}

static int compare_all(leat_stream *stream, const char *path, const leat_model *model, const char *copy_path)
{
    leat_model *copy;
    leat_model_set *set;
    size_t count;
    int wrong;

    if (load_all(stream, copy_path, &copy, &set))
        return 1;
    wrong = leat_model_count(model, &count, NULL) != LEAT_OK;
    for (size_t i = 0; i < count && !wrong; i++) {
        leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
        size_t index;
        void *ptr;

        /* Find the tensor by its name, because the copy may have its tensors in another order. */
        if (leat_model_get_tensor_info(model, i, &info) != LEAT_OK ||
            leat_model_find(copy, info.name, &index) != LEAT_OK ||
            leat_model_set_get_pointer(set, index, &ptr) != LEAT_OK)
            wrong = failed("find a tensor");
        else
            wrong = compare(stream, path, &info, ptr);
    }
    if (!wrong)
        printf("%zu tensors came back as they were\n", count);
    leat_model_set_destroy(set);
    leat_model_close(copy);
    return wrong;
}

static int round_trip(leat_stream *stream, const char *path, const char *copy_path)
{
    leat_model *model;
    leat_model_set *set;
    int wrong;

    if (load_all(stream, path, &model, &set))
        return 1;
    wrong = save_copy(stream, copy_path, model, set) || compare_all(stream, path, model, copy_path);
    leat_model_set_destroy(set);
    leat_model_close(model);
    return wrong;
}

int main(int argc, char **argv)
{
    const char *folder = getenv("TMPDIR");
    char own[4096], copy[4096];
    leat_device *device;
    leat_stream *stream;
    int wrong = 0;

    if (argc > 2)
        snprintf(own, sizeof own, "%s", argv[2]);
    else
        snprintf(own, sizeof own, "%s/leat-models-%ld.safetensors", folder && folder[0] ? folder : "/tmp",
                 (long)getpid());
    snprintf(copy, sizeof copy, "%.4000s.copy-%ld", own, (long)getpid());
    if (leat_device_open(argc > 1 ? argv[1] : NULL, &device) != LEAT_OK)
        return failed("open the device");
    if (leat_stream_create(device, &stream) != LEAT_OK)
        wrong = failed("create a stream");
    if (!wrong && argc <= 2)
        wrong = make_model(stream, own);
    wrong = wrong || round_trip(stream, own, copy);
    remove(copy);
    if (argc <= 2)
        remove(own);
    if (leat_device_close(device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}

/* array.c - creates, destroys and describes arrays: pitched device memory that programs access only through a
 * handle. */
#include "engine/inside.h"

struct leatc_array {
    struct leati_handle handle;
    struct leatc_device *device;
    struct leatc_array_shape shape;
    void *ptr;
    size_t pitch, slice;
};

static struct leati_handles arrays = LEATI_HANDLES(struct leatc_array);

static size_t at_least_one(size_t n)
{
    return n ? n : 1;
}

int leatc_array_create(const struct leatc_array_shape *shape, struct leatc_array **array)
{
    struct leatc_array *made;
    struct leatc_memory memory = {.kind = LEATC_MEMORY_DEVICE, .foreign = true};
    int result;
    struct leatc_device *device = leatc_device_here(&result);
    size_t row, pitch, slice;

    if (!array || !shape->width || !shape->element_bytes || (shape->depth && !shape->height && !shape->flags))
        return LEATC_INVALID_VALUE;
    if (!device)
        return result;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    if (__builtin_mul_overflow(shape->width, (size_t)shape->element_bytes, &row) ||
        !(pitch = leatc_pitch(row, LEATC_PITCH_BYTES)) ||
        __builtin_mul_overflow(pitch, at_least_one(shape->height), &slice) ||
        __builtin_mul_overflow(slice, at_least_one(shape->depth), &memory.bytes))
        return LEATC_INVALID_VALUE;
    memory.ordinal = device->ordinal;
    LEATC_TRY(leatc_result_of(
        leat_memory_alloc(atomic_load(&device->native), LEAT_KIND_DEVICE, memory.bytes, &memory.base)));
    made = leati_handle_new(&arrays);
    if (!made || leatc_memory_add(&memory) != LEATC_OK) {
        if (made)
            leati_handle_free(&arrays, made);
        leat_memory_free(memory.base);
        return LEATC_OUT_OF_MEMORY;
    }
    made->device = device;
    made->shape = *shape;
    made->ptr = memory.base;
    made->pitch = pitch;
    made->slice = slice;
    leati_handle_publish(made);
    *array = made;
    return LEATC_OK;
}

static int destroy(struct leatc_array *array)
{
    leat_status status;

    LEATC_TRY(leatc_check_child());
    if (!leati_handle_retire(&arrays, array))
        return LEATC_INVALID_HANDLE;
    (void)leatc_device_wait(array->device);
    (void)leatc_memory_remove(array->ptr);
    status = leat_memory_free(array->ptr);
    leati_handle_free(&arrays, array);
    return leatc_result_of(status);
}

int leatc_array_destroy(struct leatc_array *array)
{
    if (!array)
        return LEATC_OK;
    LEATC_TRY(leatc_capture_refuse_unsafe());
    return destroy(array);
}

static void close_array(void *object, void *device)
{
    struct leatc_array *array = object;

    if (array->device == device)
        (void)destroy(array);
}

void leatc_arrays_close(struct leatc_device *device)
{
    leati_handles_each(&arrays, close_array, device);
}

int leatc_array_describe(const struct leatc_array *array, struct leatc_array_shape *shape, void **ptr,
                         size_t *pitch_bytes, size_t *slice_bytes)
{
    if (!leati_handle_live(&arrays, array))
        return LEATC_INVALID_HANDLE;
    if (shape)
        *shape = array->shape;
    if (ptr)
        *ptr = array->ptr;
    if (pitch_bytes)
        *pitch_bytes = array->pitch;
    if (slice_bytes)
        *slice_bytes = array->slice;
    return LEATC_OK;
}

struct search {
    const char *ptr;
    struct leatc_array_place *place;
    bool found;
};

static void look_into(void *object, void *argument)
{
    struct leatc_array *array = object;
    struct search *search = argument;
    size_t offset = (size_t)((uintptr_t)search->ptr - (uintptr_t)array->ptr);

    if (offset >= array->slice * at_least_one(array->shape.depth))
        return;
    *search->place = (struct leatc_array_place){.array = array,
                                                .x_bytes = offset % array->slice % array->pitch,
                                                .y = offset % array->slice / array->pitch,
                                                .z = offset / array->slice,
                                                .element_bytes = array->shape.element_bytes};
    search->found = true;
}

bool leatc_array_at(const void *ptr, struct leatc_array_place *place)
{
    struct search search = {ptr, place, false};

    leati_handles_each(&arrays, look_into, &search);
    return search.found;
}

/*
 * model_room.h - helpers for the tests of loads of models: safetensors files, random numbers, and a reference that
 * copies slices element by element.
 */
#ifndef MODEL_ROOM_H
#define MODEL_ROOM_H

#include "harness.h"
#include "test_folder.h"

#include <leat/model.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A file under construction: its header so far, and the size of its data. */
struct maker {
    char *header;
    size_t used, room;
    uint64_t data;
};

static inline void add(struct maker *maker, const char *name, const char *type, uint32_t element_bytes,
                       unsigned dims, const int64_t *shape)
{
    uint64_t bytes = element_bytes;

    if (maker->room - maker->used < 2000) {
        maker->room = 2 * maker->room + 4000;
        maker->header = realloc(maker->header, maker->room);
        assert_non_null(maker->header);
    }
    maker->used += (size_t)sprintf(maker->header + maker->used, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                                   maker->used ? ',' : '{', name, type);
    for (unsigned i = 0; i < dims; i++) {
        bytes *= (uint64_t)shape[i];
        maker->used += (size_t)sprintf(maker->header + maker->used, "%s%" PRId64, i ? "," : "", shape[i]);
    }
    maker->used += (size_t)sprintf(maker->header + maker->used, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
                                   maker->data, maker->data + bytes);
    maker->data += bytes;
}

/* Writes the file; each byte of its data depends on its position. Returns a copy of the data, which the caller
 * frees. */
static inline unsigned char *finish(struct maker *maker, const char *path)
{
    unsigned char *data = test_buffer(maker->data + 1), length[8];
    FILE *file = fopen(path, "wb");
    uint64_t bytes;

    assert_non_null(file);
    if (!maker->used)
        maker->header = strdup("{");
    bytes = strlen(maker->header) + 1;
    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)(bytes >> 8 * i);
    test_pattern(data, maker->data, 5);
    assert_int_equal(fwrite(length, 1, 8, file), 8);
    assert_int_equal(fprintf(file, "%s}", maker->header), (int)bytes);
    assert_int_equal(fwrite(data, 1, maker->data, file), maker->data);
    assert_int_equal(fclose(file), 0);
    free(maker->header);
    memset(maker, 0, sizeof *maker);
    return data;
}

static inline leat_model *open_one(const char *path)
{
    leat_model *model = NULL;

    OK(leat_model_open(&path, 1, &model));
    return model;
}

static inline leat_model_tensor_info info_of(const leat_model *model, size_t index)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;

    OK(leat_model_get_tensor_info(model, index, &info));
    return info;
}

static inline leat_model_load_info load_info(leat_model_load *load)
{
    leat_model_load_info info = LEAT_MODEL_LOAD_INFO_INIT;

    OK(leat_model_load_get_info(load, &info));
    return info;
}

/* The state of draw(); a program sets it to a seed. */
static uint64_t random_state;

static inline int64_t draw(int64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (int64_t)((random_state >> 11) % (uint64_t)below);
}

/* Returns the index of a dimension, counted from the fastest one. */
static inline unsigned fast_dim(const leat_model_tensor_info *info, unsigned i)
{
    return info->fortran_order ? i : info->dims - 1 - i;
}

/* The reference: copies a tensor, or slices of it, element by element. slices has an entry for each dimension. If
 * layout is NULL, dst is dense. */
static inline void copy_slowly(unsigned char *dst, const leat_layout *layout, const unsigned char *src,
                               const leat_model_tensor_info *info, const leat_model_slice *slices)
{
    int64_t at[LEAT_MODEL_MAX_DIMS] = {0}, number = 0;

    for (;;) {
        int64_t from = 0, to = layout ? layout->offset_bytes : number * info->block_bytes, pitch = 1;
        unsigned i;

        for (i = 0; i < info->dims; i++) {
            unsigned dim = fast_dim(info, i);

            from += (slices[dim].start + at[dim] * slices[dim].step) * pitch;
            pitch *= info->shape[dim];
            to += layout ? at[dim] * layout->stride_bytes[dim] : 0;
        }
        memcpy(dst + to, src + from * info->block_bytes, info->block_bytes);
        number++;
        for (i = 0; i < info->dims; i++) {
            unsigned dim = fast_dim(info, i);

            if (slices[dim].start + ++at[dim] * slices[dim].step < slices[dim].stop)
                break;
            at[dim] = 0;
        }
        if (i == info->dims)
            return;
    }
}

/* Returns a layout for these sizes with random gaps, flips and order of dimensions. *reach returns the bytes that
 * it covers. */
static inline leat_layout draw_layout(unsigned dims, const int64_t *size, uint32_t element_bytes, int64_t *reach)
{
    leat_layout layout;
    int64_t pitch = element_bytes;

    memset(&layout, 0, sizeof layout);
    layout.dims = dims;
    layout.element_bytes = element_bytes;
    for (unsigned i = 0, first = (unsigned)draw(dims + 1); i < dims; i++) {
        unsigned dim = draw(2) ? dims - 1 - i : (i + first) % dims;

        while (layout.size[dim])
            dim = (dim + 1) % dims;
        layout.size[dim] = size[dim];
        layout.stride_bytes[dim] = pitch;
        pitch = pitch * size[dim] + (draw(4) ? 0 : draw(5) * element_bytes);
        if (!draw(5)) {
            layout.offset_bytes += layout.stride_bytes[dim] * (size[dim] - 1);
            layout.stride_bytes[dim] = -layout.stride_bytes[dim];
        }
    }
    *reach = pitch;
    return layout;
}

#endif

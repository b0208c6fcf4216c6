/*
 * pyleat.c - the deleter of the DLPack tensors that the Python package pyleat exports.
 *
 * A consumer may call the deleter on any thread, without the interpreter's lock, while an exception is pending,
 * and when the interpreter ends. Python code cannot run in all of these cases, so the deleter only sets a flag.
 * pyleat releases flagged exports at its next allocation, export or garbage collection (src/pyleat/_dlpack.py).
 */
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* The parts of DLPack's structs that the deleters read. */
struct tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t dims;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct managed {
    struct tensor tensor;
    void *context;
    void (*deleter)(struct managed *self);
};

struct managed_versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct managed_versioned *self);
    uint64_t flags;
    struct tensor tensor;
};

#define EXPORT __attribute__((visibility("default")))

/* How many exports were deleted so far. pyleat compares it with the number that it has seen. */
EXPORT atomic_uint pyleat_deleted;

/* context points to the flag of one export. The release order makes the consumer's accesses happen before pyleat
 * reads the flag and frees the memory. */
static void set_flag(void *context)
{
    atomic_store_explicit((atomic_uint *)context, 1, memory_order_release);
    atomic_fetch_add_explicit(&pyleat_deleted, 1, memory_order_release);
}

EXPORT void pyleat_dlpack_delete(struct managed *self);
EXPORT void pyleat_dlpack_delete_versioned(struct managed_versioned *self);

void pyleat_dlpack_delete(struct managed *self)
{
    if (self)
        set_flag(self->context);
}

void pyleat_dlpack_delete_versioned(struct managed_versioned *self)
{
    if (self)
        set_flag(self->context);
}

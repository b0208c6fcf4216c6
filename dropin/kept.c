/*
 * kept.c - replaces cuMemAlloc(), cuMemAllocPitch() and cuMemFree(), for --pool: keeps freed allocations of the
 * driver's, and returns them for requests of the same size.
 *
 * Only the same size: so cuMemGetAddressRange(), the attributes of the pointer, the handles for other processes
 * and the errors of copies that go too far are those that the program would get from a new allocation. A free
 * waits for the device, as the driver's does. Memory that other processes may use, and memory with attributes that
 * the program has set, goes back to the driver.
 */
#include "pool.h"
#include "wrappers.h"

#include <string.h>

/* leat keeps at most this share of a device's memory in freed allocations. */
#define KEPT_SHARE 2

/* ---- what both kinds of memory need ---- */

enum run_outcome dropin_pool_place(cu_context *context, cu_device *device)
{
    if (!dropin_driver.complete || !dropin_driver.pool_complete)
        return RUN_OUTCOME_OLD_DRIVER;
    if (dropin_is_forked())
        return RUN_OUTCOME_FORKED;
    if (dropin_is_any_capturing())
        return RUN_OUTCOME_CAPTURE;
    if (dropin_driver.context_current(context) != CU_SUCCESS || !*context)
        return RUN_OUTCOME_NO_CONTEXT;
    if (dropin_driver.context_device(device) != CU_SUCCESS || *device < 0 || *device >= DROPIN_DEVICES_MOST ||
        dropin_primary(*device) != *context)
        return RUN_OUTCOME_CONTEXT;
    return RUN_OUTCOME_LEAT;
}

static cu_result free_real(cu_address ptr)
{
    void *real = dropin_real(DROPIN_cuMemFree_v2);
    cu_result (*typed)(cu_address);

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    return typed(ptr);
}

/* Frees what is kept beyond some bytes, the oldest first. Returns false if nothing was. */
static bool shrink(cu_device device, size_t keep_bytes)
{
    struct dropin_block *block;
    bool any = false;

    while ((block = dropin_block_claim_oldest(device, keep_bytes))) {
        (void)free_real(block->ptr);
        dropin_block_forget(block);
        any = true;
    }
    return any;
}

bool dropin_release_idle(cu_device device)
{
    const struct engine *made_by = dropin_loaded_engine();
    int mode = CU_CAPTURE_MODE_RELAXED;
    bool any = shrink(device, 0);

    if (!made_by || dropin_is_forked() || dropin_is_any_capturing() ||
        dropin_driver.context_synchronize() != CU_SUCCESS || dropin_driver.capture_mode(&mode) != CU_SUCCESS)
        return any;
    dropin_pool_enter();
    dropin_inside++;
    if (!dropin_is_any_capturing() && made_by->pool_trim(device, 0))
        any = true;
    dropin_inside--;
    dropin_pool_leave();
    (void)dropin_driver.capture_mode(&mode);
    return any;
}

/* ---- allocating ---- */

/* A call to allocate. */
struct request {
    enum run_call call;
    struct dropin_shape shape;
    cu_address *ptr;
    size_t *pitch; /* of rows */
};

static cu_result call_real(const struct request *request)
{
    bool rows = request->call == RUN_CALL_ALLOC_PITCH;
    void *real = dropin_real(rows ? DROPIN_cuMemAllocPitch_v2 : DROPIN_cuMemAlloc_v2);
    cu_result (*of_rows)(cu_address *, size_t *, size_t, size_t, unsigned);
    cu_result (*of_range)(cu_address *, size_t);

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&of_rows, &real, sizeof real);
    memcpy(&of_range, &real, sizeof real);
    return rows ? of_rows(request->ptr, request->pitch, request->shape.bytes, request->shape.rows,
                          request->shape.element_bytes)
                : of_range(request->ptr, request->shape.bytes);
}

static enum run_outcome serve(const struct request *request, cu_context *context, cu_device *device)
{
    enum run_outcome outcome = dropin_pool_place(context, device);
    struct dropin_block found;

    if (outcome != RUN_OUTCOME_LEAT)
        return outcome;
    if (!request->ptr || !request->shape.bytes ||
        (request->call == RUN_CALL_ALLOC_PITCH && (!request->pitch || !request->shape.rows)))
        return RUN_OUTCOME_FAILED_ALLOC; /* the driver reports the mistake */
    if (dropin_only_observes())
        return RUN_OUTCOME_OBSERVED;
    if (!dropin_block_reuse(*context, *device, &request->shape, &found))
        return RUN_OUTCOME_NOT_KEPT;
    *request->ptr = found.ptr;
    if (request->pitch)
        *request->pitch = found.pitch;
    return RUN_OUTCOME_LEAT;
}

/* Makes a new allocation, whose record lets leat keep it later. */
static cu_result allocate_new(const struct request *request, cu_context context, cu_device device)
{
    struct dropin_block made = {.shape = request->shape, .context = context, .device = device};
    cu_result code = call_real(request);

    if (code == CU_OUT_OF_MEMORY && dropin_release_idle(device))
        code = call_real(request);
    if (code != CU_SUCCESS)
        return code;
    made.ptr = *request->ptr;
    made.pitch = request->pitch ? *request->pitch : 0;
    /* Without a record the driver frees it. */
    (void)dropin_block_add(&made);
    return code;
}

static cu_result allocate_untraced(const struct request *request, uint64_t bytes)
{
    uint64_t begun_ns;
    cu_context context = NULL;
    enum run_outcome outcome;
    cu_device device = 0;
    cu_result code = CU_SUCCESS;

    if (dropin_inside || !dropin_serves_pool())
        return call_real(request);
    begun_ns = dropin_clock_ns();
    outcome = serve(request, &context, &device);
    if (outcome == RUN_OUTCOME_NOT_KEPT)
        code = allocate_new(request, context, device);
    else if (outcome != RUN_OUTCOME_LEAT)
        code = call_real(request);
    dropin_count(request->call, outcome, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

static cu_result allocate(const struct request *request, const void *caller)
{
    uint64_t bytes = request->shape.bytes * (request->shape.rows ? request->shape.rows : 1);
    bool traced = dropin_memory_begin(request->call, bytes, caller);
    cu_result code = allocate_untraced(request, bytes);

    if (traced)
        dropin_call_end(code);
    return code;
}

cu_result cuMemAlloc_v2(cu_address *ptr, size_t bytes)
{
    return allocate(&(struct request){.call = RUN_CALL_ALLOC, .shape = {.bytes = bytes}, .ptr = ptr},
                    __builtin_return_address(0));
}

cu_result cuMemAllocPitch_v2(cu_address *ptr, size_t *pitch, size_t width, size_t height, unsigned element_bytes)
{
    return allocate(&(struct request){.call = RUN_CALL_ALLOC_PITCH,
                                      .shape = {.bytes = width, .rows = height, .element_bytes = element_bytes},
                                      .ptr = ptr,
                                      .pitch = pitch},
                    __builtin_return_address(0));
}

/* ---- freeing ---- */

/* Returns RUN_OUTCOME_LEAT if a claimed block may be kept. The device has then reached this point. */
static enum run_outcome may_keep(const struct dropin_block *block)
{
    cu_context context = NULL;
    size_t total = 0;
    cu_device device;
    enum run_outcome outcome = dropin_pool_place(&context, &device);

    if (outcome != RUN_OUTCOME_LEAT)
        return outcome;
    if (context != block->context)
        return RUN_OUTCOME_CONTEXT;
    if (block->shared)
        return RUN_OUTCOME_SHARED;
    /* Work of another device may use the memory, and the wait below is for this one. */
    if (dropin_uses_several_devices())
        return RUN_OUTCOME_SEVERAL_GPUS;
    if (dropin_driver.device_total(&total, device) != CU_SUCCESS || dropin_block_bytes(block) > total / KEPT_SHARE)
        return RUN_OUTCOME_MUCH_KEPT;
    /* If this fails, the driver's call fails too. */
    if (dropin_driver.context_synchronize() != CU_SUCCESS)
        return RUN_OUTCOME_NO_WAIT;
    (void)shrink(device, total / KEPT_SHARE - dropin_block_bytes(block));
    return RUN_OUTCOME_LEAT;
}

static cu_result free_kept(struct dropin_block *block)
{
    uint64_t begun_ns = dropin_clock_ns(), bytes = dropin_block_bytes(block);
    enum run_outcome outcome = may_keep(block);
    cu_result code = CU_SUCCESS;

    if (outcome == RUN_OUTCOME_LEAT) {
        dropin_block_keep(block);
    } else {
        code = free_real(block->ptr);
        if (code == CU_SUCCESS)
            dropin_block_forget(block);
        else
            dropin_block_restore(block);
    }
    dropin_count(RUN_CALL_FREE, outcome, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

static cu_result free_untraced(cu_address ptr)
{
    struct dropin_block *block;
    bool known;

    if (dropin_inside || !dropin_serves_pool() || !ptr)
        return free_real(ptr);
    block = dropin_block_claim(ptr, &known);
    if (!block)
        return known ? CU_INVALID_VALUE : free_real(ptr);
    return block->pooled ? dropin_pool_free(block) : free_kept(block);
}

cu_result cuMemFree_v2(cu_address ptr)
{
    bool traced = dropin_memory_begin(RUN_CALL_FREE, 0, __builtin_return_address(0));
    cu_result code = free_untraced(ptr);

    if (traced)
        dropin_call_end(code);
    return code;
}

/* ---- other calls that allocate device memory ---- */

/* Returns what leat keeps to the driver, for a call that has failed because the device is full. Returns true if
 * the call should be made again. */
static bool make_room(cu_result code)
{
    cu_context context;
    cu_device device;

    return code == CU_OUT_OF_MEMORY && !dropin_inside && dropin_serves_pool() &&
           dropin_pool_place(&context, &device) == RUN_OUTCOME_LEAT && dropin_release_idle(device);
}

#define RETRY(symbol, parameters, arguments)                                                                      \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result(*typed_) parameters;                                                                            \
        cu_result code_;                                                                                          \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        code_ = typed_ arguments;                                                                                 \
        return make_room(code_) ? typed_ arguments : code_;                                                       \
    }

RETRY(cuMemCreate, (uint64_t * handle, size_t bytes, const void *properties, uint64_t flags),
      (handle, bytes, properties, flags))
RETRY(cuArrayCreate_v2, (void **array, const void *description), (array, description))
RETRY(cuArray3DCreate_v2, (void **array, const void *description), (array, description))
RETRY(cuMipmappedArrayCreate, (void **array, const void *description, unsigned levels),
      (array, description, levels))

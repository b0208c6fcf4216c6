/*
 * pool.c - replaces cuMemAllocAsync(), cuMemAllocFromPoolAsync() on the default pool, and cuMemFreeAsync(), for
 * --pool: the memory is a block of a pool of leat's (leat/pool.h), in the program's own streams.
 *
 * The pool makes its driver calls with the thread's capture mode relaxed, so that they do not end a capture of
 * another thread. It works only between dropin_pool_enter() and dropin_pool_leave() (captures.c).
 */
#include "pool.h"
#include "wrappers.h"

#include <errno.h>
#include <string.h>

/* Bounds of all addresses that the pool has returned, for a negative lookup without a lock. Relaxed: a thread that
 * knows an address has seen the bounds with it. */
static _Atomic cu_address lowest = UINT64_MAX, highest;

static void widen(cu_address ptr, size_t bytes)
{
    cu_address low = atomic_load_explicit(&lowest, memory_order_relaxed),
               high = atomic_load_explicit(&highest, memory_order_relaxed);

    while (ptr < low &&
           !atomic_compare_exchange_weak_explicit(&lowest, &low, ptr, memory_order_relaxed, memory_order_relaxed))
        ;
    while (ptr + bytes > high && !atomic_compare_exchange_weak_explicit(
                                     &highest, &high, ptr + bytes, memory_order_relaxed, memory_order_relaxed))
        ;
}

bool dropin_pool_find(cu_address ptr, struct dropin_block *block)
{
    const struct engine *made_by;
    uint64_t base = 0;
    bool found = false;

    if (dropin_inside || ptr < atomic_load_explicit(&lowest, memory_order_relaxed) ||
        ptr >= atomic_load_explicit(&highest, memory_order_relaxed) || dropin_is_forked() ||
        !(made_by = dropin_loaded_engine()))
        return false;
    dropin_pool_enter();
    dropin_inside++;
    found = made_by->pool_find(ptr, &base) && dropin_block_get(base, block) && block->pooled;
    dropin_inside--;
    dropin_pool_leave();
    return found;
}

bool dropin_is_default_pool(cu_pool pool, cu_device *device)
{
    cu_pool own = NULL;

    return dropin_driver.context_device(device) == CU_SUCCESS &&
           dropin_driver.device_default_pool(&own, *device) == CU_SUCCESS && own == pool;
}

/* ---- allocating ---- */

/* A call to allocate. */
struct request {
    enum run_call call;
    cu_address *ptr;
    size_t bytes;
    cu_pool pool; /* of cuMemAllocFromPoolAsync() */
    cu_stream stream;
};

/* Returns true if leat's pool stands for the pool that the call means. */
static bool is_of_default_pool(const struct request *request, cu_device device)
{
    cu_pool own = NULL, current = request->pool;

    if (request->call == RUN_CALL_ALLOC_ASYNC && dropin_driver.device_pool(&current, device) != CU_SUCCESS)
        return false;
    return dropin_driver.device_default_pool(&own, device) == CU_SUCCESS && own && current == own;
}

/* Returns true if the stream is one of the primary context itself. */
static bool is_plain(cu_stream stream)
{
    void *green = NULL;

    return stream == LEGACY_STREAM || stream == PER_THREAD_STREAM || !dropin_driver.stream_green ||
           (dropin_driver.stream_green(stream, &green) == CU_SUCCESS && !green);
}

static enum run_outcome may_serve(const struct request *request, cu_context *context, cu_device *device)
{
    enum run_outcome outcome = dropin_pool_place(context, device);
    int capturing = CU_CAPTURE_NONE, devices = 0;

    if (outcome != RUN_OUTCOME_LEAT)
        return outcome;
    if (!request->ptr || !request->bytes)
        return RUN_OUTCOME_FAILED_ALLOC; /* the driver reports the mistake */
    if (dropin_driver.stream_capturing(request->stream, &capturing) != CU_SUCCESS || capturing != CU_CAPTURE_NONE)
        return RUN_OUTCOME_CAPTURE;
    if (!is_of_default_pool(request, *device))
        return RUN_OUTCOME_OWN_POOL;
    /* The program may give other devices access to the default pool, also after it has allocated from it. */
    if (dropin_driver.device_count(&devices) != CU_SUCCESS || devices != 1)
        return RUN_OUTCOME_SEVERAL_GPUS;
    return dropin_only_observes() ? RUN_OUTCOME_OBSERVED : RUN_OUTCOME_LEAT;
}

/* One attempt, between dropin_pool_enter() and dropin_pool_leave(). */
static enum run_outcome take_entered(const struct engine *made_by, const struct engine_block *wanted,
                                     uint64_t *ptr)
{
    char message[RUN_MESSAGE_BYTES] = "";
    enum engine_result result;
    enum run_outcome outcome;

    if (dropin_is_any_capturing())
        return RUN_OUTCOME_CAPTURE;
    if (!made_by->pool_knows(wanted->device, wanted->stream) && !is_plain(wanted->stream))
        return RUN_OUTCOME_CONTEXT;
    result = made_by->pool_alloc(wanted, ptr, message, sizeof message);
    switch (result) {
    case ENGINE_DONE:
        return RUN_OUTCOME_LEAT;
    case ENGINE_FULL:
        return RUN_OUTCOME_FULL;
    default:
        outcome = dropin_engine_failed(result, message);
        return outcome == RUN_OUTCOME_FAILED ? RUN_OUTCOME_FAILED_ALLOC : outcome;
    }
}

static enum run_outcome take(const struct engine *made_by, const struct engine_block *wanted, uint64_t *ptr)
{
    int mode = CU_CAPTURE_MODE_RELAXED;
    enum run_outcome outcome;

    if (dropin_driver.capture_mode(&mode) != CU_SUCCESS)
        return RUN_OUTCOME_OLD_DRIVER;
    dropin_pool_enter();
    dropin_inside++;
    outcome = take_entered(made_by, wanted, ptr);
    dropin_inside--;
    dropin_pool_leave();
    (void)dropin_driver.capture_mode(&mode);
    return outcome;
}

static enum run_outcome serve(const struct request *request, cu_context context, cu_device device)
{
    const struct engine *made_by = dropin_usable_engine();
    struct engine_block wanted = {
        .device = device, .context = context, .stream = request->stream, .bytes = request->bytes};
    struct dropin_block made = {
        .shape = {.bytes = request->bytes}, .context = context, .device = device, .pooled = true};
    enum run_outcome outcome;
    uint64_t ptr = 0;

    if (!made_by)
        return RUN_OUTCOME_NO_LEAT;
    outcome = take(made_by, &wanted, &ptr);
    if (outcome == RUN_OUTCOME_FULL && dropin_release_idle(device))
        outcome = take(made_by, &wanted, &ptr);
    if (outcome != RUN_OUTCOME_LEAT)
        return outcome;
    made.ptr = ptr;
    widen(ptr, request->bytes);
    if (!dropin_block_add(&made)) {
        dropin_pool_enter();
        dropin_inside++;
        (void)made_by->pool_free_now(ptr);
        dropin_inside--;
        dropin_pool_leave();
        return RUN_OUTCOME_FAILED_ALLOC;
    }
    *request->ptr = ptr;
    return RUN_OUTCOME_LEAT;
}

/* Defines the replacement of a function that allocates. */
#define ALLOCATE(symbol, kind, parameters, arguments, of_pool, on)                                                \
    cu_result symbol parameters                                                                                   \
    {                                                                                                             \
        void *real_ = dropin_real(DROPIN_##symbol);                                                               \
        cu_result(*typed_) parameters;                                                                            \
        struct request request_ = {RUN_CALL_##kind, ptr, bytes, of_pool, on};                                     \
        enum run_outcome outcome_;                                                                                \
        cu_result code_ = CU_SUCCESS;                                                                             \
        uint64_t begun_ns_;                                                                                       \
        cu_device device_ = 0;                                                                                    \
        bool traced_;                                                                                             \
                                                                                                                  \
        if (!real_)                                                                                               \
            return CU_NOT_FOUND;                                                                                  \
        memcpy(&typed_, &real_, sizeof real_);                                                                    \
        traced_ = dropin_memory_begin(request_.call, bytes, __builtin_return_address(0));                         \
        if (dropin_inside || !dropin_serves_pool()) {                                                             \
            code_ = typed_ arguments;                                                                             \
        } else {                                                                                                  \
            begun_ns_ = dropin_clock_ns();                                                                        \
            outcome_ = begin(&request_, &device_);                                                                \
            if (outcome_ != RUN_OUTCOME_LEAT) {                                                                   \
                code_ = typed_ arguments;                                                                         \
                if (may_retry(outcome_, code_) && dropin_release_idle(device_))                                   \
                    code_ = typed_ arguments;                                                                     \
            }                                                                                                     \
            dropin_count(request_.call, outcome_, bytes, dropin_clock_ns() - begun_ns_);                          \
        }                                                                                                         \
        if (traced_)                                                                                              \
            dropin_call_end(code_);                                                                               \
        return code_;                                                                                             \
    }

static enum run_outcome begin(const struct request *request, cu_device *device)
{
    int error = errno;
    cu_context context = NULL;
    enum run_outcome outcome = may_serve(request, &context, device);

    if (outcome == RUN_OUTCOME_LEAT)
        outcome = serve(request, context, *device);
    errno = error;
    return outcome;
}

/* Returns true if the driver's call has failed because the device is full, and leat may keep memory of it. */
static bool may_retry(enum run_outcome outcome, cu_result code)
{
    return code == CU_OUT_OF_MEMORY && (outcome == RUN_OUTCOME_OWN_POOL || outcome == RUN_OUTCOME_SEVERAL_GPUS ||
                                        outcome == RUN_OUTCOME_FULL || outcome == RUN_OUTCOME_FAILED_ALLOC);
}

#define ASYNC (cu_address * ptr, size_t bytes, cu_stream stream)
#define FROM_POOL (cu_address * ptr, size_t bytes, cu_pool pool, cu_stream stream)

// clang-format off
ALLOCATE(cuMemAllocAsync, ALLOC_ASYNC, ASYNC, (ptr, bytes, stream), NULL, or_legacy(stream))
ALLOCATE(cuMemAllocAsync_ptsz, ALLOC_ASYNC, ASYNC, (ptr, bytes, stream), NULL, or_per_thread(stream))
ALLOCATE(cuMemAllocFromPoolAsync, ALLOC_FROM_POOL, FROM_POOL, (ptr, bytes, pool, stream), pool, or_legacy(stream))
ALLOCATE(cuMemAllocFromPoolAsync_ptsz, ALLOC_FROM_POOL, FROM_POOL, (ptr, bytes, pool, stream), pool, or_per_thread(stream))
// clang-format on

/* ---- freeing ---- */

/* Frees a block for the pool to use where the stream reaches this point; at once if stream is NULL. */
static cu_result give(const struct dropin_block *block, cu_stream stream)
{
    const struct engine *made_by = dropin_loaded_engine();
    struct engine_block given = {
        .device = block->device, .context = block->context, .stream = stream, .bytes = block->shape.bytes};
    char message[RUN_MESSAGE_BYTES] = "";
    int mode = CU_CAPTURE_MODE_RELAXED;
    enum engine_result result;
    cu_result code;

    if (!made_by)
        return CU_INVALID_VALUE;
    code = dropin_driver.capture_mode(&mode);
    if (code != CU_SUCCESS)
        return code;
    dropin_pool_enter();
    dropin_inside++;
    /* During a capture the pool must not remember streams. */
    given.once = dropin_is_any_capturing();
    result = stream ? made_by->pool_free(block->ptr, &given, message, sizeof message)
                    : made_by->pool_free_now(block->ptr);
    dropin_inside--;
    dropin_pool_leave();
    (void)dropin_driver.capture_mode(&mode);
    if (result == ENGINE_DONE)
        return CU_SUCCESS;
    if (result != ENGINE_OTHER_CONTEXT)
        dropin_count_message(message);
    return CU_INVALID_VALUE;
}

static cu_result finish(struct dropin_block *block, cu_result code)
{
    if (code == CU_SUCCESS)
        dropin_block_forget(block);
    else
        dropin_block_restore(block);
    return code;
}

/* While a stream captures, cuMemFree() may fail and end the capture. A short allocation of the driver's shows what
 * the driver would do. */
static cu_result probe(void)
{
    void *allocate = dropin_real(DROPIN_cuMemAlloc_v2), *release = dropin_real(DROPIN_cuMemFree_v2);
    cu_result (*typed_allocate)(cu_address *, size_t);
    cu_result (*typed_release)(cu_address);
    cu_address ptr = 0;
    cu_result code;

    memcpy(&typed_allocate, &allocate, sizeof allocate);
    memcpy(&typed_release, &release, sizeof release);
    if (!allocate || !release)
        return CU_NOT_FOUND;
    code = typed_allocate(&ptr, 1);
    return code == CU_SUCCESS ? typed_release(ptr) : code;
}

/* The driver does not wait either where a program frees memory of its pool by cuMemFree(): all work that uses it
 * must be complete. */
cu_result dropin_pool_free(struct dropin_block *block)
{
    uint64_t begun_ns = dropin_clock_ns(), bytes = block->shape.bytes;
    cu_result code = dropin_is_any_capturing() ? probe() : CU_SUCCESS;

    code = finish(block, code == CU_SUCCESS ? give(block, NULL) : code);
    dropin_count(RUN_CALL_FREE, RUN_OUTCOME_LEAT, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

/* cuMemFreeAsync() of a claimed block of leat's. */
static cu_result free_in_order(struct dropin_block *block, cu_stream stream,
                               cu_result (*real)(cu_address, cu_stream), cu_stream given)
{
    int capturing = CU_CAPTURE_NONE;
    cu_result code = dropin_driver.stream_capturing(stream, &capturing);

    if (code != CU_SUCCESS)
        return finish(block, code);
    if (capturing != CU_CAPTURE_NONE) {
        /* A graph can free only memory that it has allocated; the driver reports that. */
        code = real(block->ptr, given);
        dropin_block_restore(block);
        return code;
    }
    code = is_plain(stream) ? give(block, stream) : CU_INVALID_VALUE;
    if (code != CU_SUCCESS) {
        /* A stream of another context: its work so far is complete after this. */
        code = dropin_driver.stream_synchronize(stream);
        if (code == CU_SUCCESS)
            code = give(block, NULL);
    }
    return finish(block, code);
}

static cu_result free_async(enum dropin_name name, cu_address ptr, cu_stream given, cu_stream stream)
{
    void *real = dropin_real(name);
    cu_result (*typed)(cu_address, cu_stream), code;
    uint64_t begun_ns, bytes;
    struct dropin_block *block;
    enum run_outcome outcome;
    bool known;

    if (!real)
        return CU_NOT_FOUND;
    memcpy(&typed, &real, sizeof real);
    if (dropin_inside || !dropin_serves_pool() || !ptr)
        return typed(ptr, given);
    begun_ns = dropin_clock_ns();
    block = dropin_block_claim(ptr, &known);
    if (!block)
        return known ? CU_INVALID_VALUE : typed(ptr, given);
    bytes = dropin_block_bytes(block);
    if (block->pooled) {
        outcome = RUN_OUTCOME_LEAT;
        code = free_in_order(block, stream, typed, given);
    } else {
        /* Memory of cuMemAlloc() is the driver's. */
        outcome = RUN_OUTCOME_DRIVERS;
        code = finish(block, typed(ptr, given));
    }
    dropin_count(RUN_CALL_FREE_ASYNC, outcome, bytes, dropin_clock_ns() - begun_ns);
    return code;
}

/* Defines the replacement of a function that frees. */
#define FREE(symbol, on)                                                                                          \
    cu_result symbol(cu_address ptr, cu_stream stream)                                                            \
    {                                                                                                             \
        bool traced_ = dropin_memory_begin(RUN_CALL_FREE_ASYNC, 0, __builtin_return_address(0));                  \
        cu_result code_ = free_async(DROPIN_##symbol, ptr, stream, on(stream));                                   \
                                                                                                                  \
        if (traced_)                                                                                              \
            dropin_call_end(code_);                                                                               \
        return code_;                                                                                             \
    }

FREE(cuMemFreeAsync, or_legacy)
FREE(cuMemFreeAsync_ptsz, or_per_thread)

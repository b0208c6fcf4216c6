/* stream.c - implements streams, host functions, and stream memory operations, in which a stream waits for a word
 * in memory or writes it. */
#include "cuda/names.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static CUresult create(CUstream *stream, unsigned flags, int priority)
{
    struct leatc_stream *made;
    CUcontext context;

    CU_TRY(leatcu_enter(&context));
    CU_CHECK(stream);
    priority = leatc_priority_limited(priority, LEATC_PRIORITY_HIGHEST, 0);
    CU_TRY(leatcu_result(leatc_stream_create(flags, priority, &made)));
    *stream = (CUstream)made;
    leatcu_stream_made(*stream, context);
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    return create(stream, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    return create(stream, flags, priority);
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
    CU_TRY(leatcu_started());
    CU_TRY(leatcu_result(leatc_stream_destroy(leatcu_stream(stream))));
    leatcu_stream_gone(stream);
    return CUDA_SUCCESS;
}

static CUresult get_context(struct leatc_stream *on, CUcontext *context)
{
    int ordinal;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(context);
    CU_TRY(leatcu_result(leatc_stream_ordinal(on, &ordinal)));
    *context = leatcu_stream_context((CUstream)on, ordinal);
    return CUDA_SUCCESS;
}

FORWARD_STREAM(cuStreamQuery, cuStreamQuery_ptsz, (CUstream stream), leatcu_or_lost(leatc_stream_query(on)))
FORWARD_STREAM(cuStreamSynchronize, cuStreamSynchronize_ptsz, (CUstream stream),
               leatcu_or_lost(leatc_stream_synchronize(on)))
FORWARD_STREAM(cuStreamGetPriority, cuStreamGetPriority_ptsz, (CUstream stream, int *priority),
               leatc_stream_priority(on, priority))
FORWARD_STREAM(cuStreamGetFlags, cuStreamGetFlags_ptsz, (CUstream stream, unsigned *flags),
               leatc_stream_flags(on, flags))
FORWARD_STREAM(cuStreamGetId, cuStreamGetId_ptsz, (CUstream stream, unsigned long long *id),
               leatc_stream_id(on, id))
FORWARD_STREAM(cuStreamGetDevice, cuStreamGetDevice_ptsz, (CUstream stream, CUdevice *device),
               leatc_stream_ordinal(on, device))
BOTH(cuStreamGetCtx, cuStreamGetCtx_ptsz, (CUstream stream, CUcontext *context), get_context(on, context))

/* leat's devices have no green contexts, so each stream has an ordinary one. */
static CUresult get_contexts(struct leatc_stream *stream, CUcontext *context, CUgreenCtx *green)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(green);
    CU_TRY(get_context(stream, context));
    *green = NULL;
    return CUDA_SUCCESS;
}

BOTH(cuStreamGetCtx_v2, cuStreamGetCtx_v2_ptsz, (CUstream stream, CUcontext *context, CUgreenCtx *green),
     get_contexts(on, context, green))

/* ---- host functions ---- */

struct callback {
    CUstreamCallback function;
    void *argument;
};

static void run_callback(void *stream, int result, void *argument)
{
    struct callback *callback = argument;

    callback->function((CUstream)stream, leatcu_result(result), callback->argument);
    free(callback);
}

static CUresult add_callback(struct leatc_stream *on, CUstreamCallback function, void *argument, unsigned flags)
{
    struct callback *callback;
    CUresult result;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(function && !flags);
    callback = malloc(sizeof *callback);
    if (!callback)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *callback = (struct callback){function, argument};
    result = leatcu_result(leatc_stream_callback(on, run_callback, callback));
    if (result != CUDA_SUCCESS)
        free(callback);
    return result;
}

BOTH(cuStreamAddCallback, cuStreamAddCallback_ptsz,
     (CUstream stream, CUstreamCallback function, void *argument, unsigned flags),
     add_callback(on, function, argument, flags))
FORWARD_STREAM(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, (CUstream stream, CUhostFn function, void *argument),
               function ? leatc_stream_host_function(on, function, argument) : LEATC_INVALID_VALUE)

/* mode says how the stream waits for the function: it may sleep (0) or spin (1). leat decides that itself. */
FORWARD_STREAM(cuLaunchHostFunc_v2, cuLaunchHostFunc_v2_ptsz,
               (CUstream stream, CUhostFn function, void *argument, unsigned mode),
               mode > 1 ? LEATC_INVALID_VALUE : leatc_stream_host_function(on, function, argument))

/* ---- attributes: only the synchronization policy can be changed, and has no effect ---- */

static CUresult get_attribute(struct leatc_stream *on, CUstreamAttrID attribute, CUstreamAttrValue *value)
{
    int number;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(value);
    CU_TRY(leatcu_result(leatc_stream_check(on)));
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        CU_TRY(leatcu_result(leatc_stream_policy(on, &number)));
        value->syncPolicy = (CUsynchronizationPolicy)number;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        return leatcu_result(leatc_stream_priority(on, &value->priority));
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = (CUaccessPolicyWindow){.base_ptr = NULL};
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* Sets an attribute. Refuses windows whose size is not 0, because devices report a maximum window size of 0. */
static CUresult set_attribute(struct leatc_stream *on, CUstreamAttrID attribute, const CUstreamAttrValue *value)
{
    int priority;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(value);
    CU_TRY(leatcu_result(leatc_stream_check(on)));
    switch (attribute) {
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        CU_CHECK(value->syncPolicy >= CU_SYNC_POLICY_AUTO && value->syncPolicy <= CU_SYNC_POLICY_BLOCKING_SYNC);
        return leatcu_result(leatc_stream_set_policy(on, (int)value->syncPolicy));
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        CU_CHECK(!value->accessPolicyWindow.num_bytes);
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        CU_TRY(leatcu_result(leatc_stream_priority(on, &priority)));
        return priority == value->priority ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult copy_attributes(struct leatc_stream *to, struct leatc_stream *from)
{
    int policy;

    CU_TRY(leatcu_enter(NULL));
    CU_TRY(leatcu_result(leatc_stream_policy(from, &policy)));
    return leatcu_result(leatc_stream_set_policy(to, policy));
}

BOTH(cuStreamGetAttribute, cuStreamGetAttribute_ptsz,
     (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value), get_attribute(on, attribute, value))
BOTH(cuStreamSetAttribute, cuStreamSetAttribute_ptsz,
     (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *value),
     set_attribute(on, attribute, value))

CUresult cuStreamCopyAttributes(CUstream to, CUstream from)
{
    return copy_attributes(leatcu_stream(to), leatcu_stream(from));
}

CUresult cuStreamCopyAttributes_ptsz(CUstream to, CUstream from)
{
    return copy_attributes(leatc_per_thread(to), leatc_per_thread(from));
}

/* ---- stream memory operations ---- */

/*
 * Operations on words in memory. A host function in the stream performs them. To wait for a word, it polls the
 * word, at first without sleeping and then with pauses, because the writer of the word cannot wake it.
 */
struct value_work {
    unsigned count;
    struct value_operation {
        void *word;
        uint64_t value;
        unsigned flags;
        bool wait, wide;
    } operations[];
};

static bool is_reached(const struct value_operation *operation)
{
    uint64_t mask = operation->wide ? UINT64_MAX : UINT32_MAX;
    /* Acquire: later work of the stream sees all writes that the writer of the word made before it. */
    uint64_t now = operation->wide
                       ? atomic_load_explicit((_Atomic uint64_t *)operation->word, memory_order_acquire)
                       : atomic_load_explicit((_Atomic uint32_t *)operation->word, memory_order_acquire);

    switch (operation->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return operation->wide ? (int64_t)(now - operation->value) >= 0
                               : (int32_t)((uint32_t)now - (uint32_t)operation->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return now == (operation->value & mask);
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & operation->value) != 0;
    default:
        return (~(now | operation->value) & mask) != 0;
    }
}

static void wait_for_value(const struct value_operation *operation)
{
    for (unsigned looks = 0; !is_reached(operation); looks++) {
        if (looks < 100)
            sched_yield();
        else
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

static void run_values(void *argument)
{
    struct value_work *work = argument;

    for (unsigned i = 0; i < work->count; i++) {
        struct value_operation *operation = &work->operations[i];

        if (operation->wait)
            wait_for_value(operation);
        else if (operation->wide)
            atomic_store_explicit((_Atomic uint64_t *)operation->word, operation->value, memory_order_release);
        else
            atomic_store_explicit((_Atomic uint32_t *)operation->word, (uint32_t)operation->value,
                                  memory_order_release);
    }
    free(work);
}

static CUresult check_operand(const struct value_operation *operation)
{
    struct leatc_memory memory;
    size_t bytes = operation->wide ? 8 : 4;

    CU_CHECK(operation->word && (uintptr_t)operation->word % bytes == 0);
    CU_TRY(leatcu_result(leatc_memory_find(operation->word, &memory)));
    CU_CHECK(memory.kind != LEATC_MEMORY_PAGEABLE &&
             bytes <= memory.bytes - (size_t)((char *)operation->word - (char *)memory.base));
    /* The host function can access only memory that the host can access. */
    return memory.kind == LEATC_MEMORY_DEVICE && !leatcu_host_reaches_device(memory.ordinal)
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

/* Converts one of the vendor's operations. *skip: true if the operation needs no action in this library. */
static CUresult take_operation(const CUstreamBatchMemOpParams *given, struct value_operation *taken, bool *skip)
{
    *skip = false;
    switch (given->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        CU_CHECK(!(given->waitValue.flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)));
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        CU_CHECK(!(given->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
        break;
    case CU_STREAM_MEM_OP_BARRIER:
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        *skip = true;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    taken->wait =
        given->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || given->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    taken->wide =
        given->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 || given->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    taken->word = leatcu_pointer(given->waitValue.address);
    taken->value = taken->wide ? given->waitValue.value64 : given->waitValue.value;
    taken->flags = given->waitValue.flags;
    return check_operand(taken);
}

static CUresult take_operations(struct value_work *work, const CUstreamBatchMemOpParams *given, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        bool skip;

        CU_TRY(take_operation(&given[i], &work->operations[work->count], &skip));
        if (!skip)
            work->count++;
    }
    return CUDA_SUCCESS;
}

#define OPERATIONS_MAX 256

static size_t work_bytes(unsigned count)
{
    return sizeof(struct value_work) + count * sizeof(struct value_operation);
}

/* Converts the vendor's operations. The caller frees the result. */
static CUresult make_work(unsigned count, const CUstreamBatchMemOpParams *given, unsigned flags,
                          struct value_work **made)
{
    struct value_work *work;
    CUresult result;

    CU_CHECK(given && count && count <= OPERATIONS_MAX && !flags);
    work = calloc(1, work_bytes(count));
    if (!work)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = take_operations(work, given, count);
    if (result == CUDA_SUCCESS)
        *made = work;
    else
        free(work);
    return result;
}

/* Submits the operations. The host function gets its own copy and frees it, because a graph submits the same
 * operations at each launch. */
static int give_work(const void *payload, struct leatc_work *to)
{
    const struct value_work *work = payload;
    struct value_work *copy;
    leat_status status;

    if (!work->count)
        return LEATC_OK;
    copy = malloc(work_bytes(work->count));
    if (!copy)
        return LEATC_OUT_OF_MEMORY;
    memcpy(copy, work, work_bytes(work->count));
    status = leat_launch_host(to->stream, run_values, copy);
    if (status != LEAT_OK)
        free(copy);
    return leatc_result_of(status);
}

/* The address of this variable is the tag under which the vendor's struct, followed by its list, is stored with a
 * task. */
static const char batch_tag;

static CUresult keep_batch(struct leatc_task *task, const CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    size_t list = p->count * sizeof *p->paramArray;
    char *kept = malloc(sizeof *p + list);
    int result;

    if (!kept)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(kept, p, sizeof *p);
    memcpy(kept + sizeof *p, p->paramArray, list);
    result = leatc_task_keep(task, &batch_tag, kept, sizeof *p + list);
    free(kept);
    return leatcu_result(result);
}

CUresult leatcu_batch_make(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, struct leatc_task **task)
{
    struct value_work *work;
    CUresult result;

    CU_TRY(make_work(p->count, p->paramArray, p->flags, &work));
    result =
        leatcu_result(leatc_task_create(LEATC_NODE_BATCH, give_work, NULL, work, work_bytes(work->count), task));
    free(work);
    CU_TRY(result);
    result = keep_batch(*task, p);
    if (result != CUDA_SUCCESS)
        leatc_task_drop(*task);
    return result;
}

CUresult leatcu_batch_describe(const struct leatc_task *task, CUDA_BATCH_MEM_OP_NODE_PARAMS *p)
{
    const CUDA_BATCH_MEM_OP_NODE_PARAMS *kept = leatc_task_kept(task, &batch_tag);

    if (!kept)
        return CUDA_ERROR_NOT_SUPPORTED; /* another library captured the operations */
    *p = *kept;
    p->paramArray = (CUstreamBatchMemOpParams *)(uintptr_t)(kept + 1);
    return CUDA_SUCCESS;
}

static CUresult batch(struct leatc_stream *on, unsigned count, CUstreamBatchMemOpParams *given, unsigned flags)
{
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {.count = count, .paramArray = given, .flags = flags};
    struct leatc_task *task;
    struct leatc_work to;
    int result;

    CU_TRY(leatcu_enter(&p.ctx));
    CU_TRY(leatcu_result(leatc_stream_check(on)));
    CU_TRY(leatcu_batch_make(&p, &task));
    result = leatc_work_begin_capturable(on, &to);
    if (result == LEATC_OK && to.captured)
        return leatcu_result(leatc_capture_add(&to, task));
    if (result == LEATC_OK)
        result = give_work(leatc_task_payload(task), &to);
    leatc_task_drop(task);
    return leatcu_result(result == LEATC_OK ? leatc_work_end(&to, LEAT_OK) : result);
}

static CUresult one(struct leatc_stream *on, CUstreamBatchMemOpType operation, CUdeviceptr address, uint64_t value,
                    unsigned flags)
{
    CUstreamBatchMemOpParams given = {.operation = operation};

    given.waitValue.address = address;
    given.waitValue.value64 = value;
    given.waitValue.flags = flags;
    return batch(on, 1, &given, 0);
}

BOTH(cuStreamBatchMemOp_v2, cuStreamBatchMemOp_v2_ptsz,
     (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags),
     batch(on, count, operations, flags))
BOTH(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz,
     (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
     one(on, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags))
BOTH(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz,
     (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
     one(on, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags))
BOTH(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz,
     (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
     one(on, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags))
BOTH(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz,
     (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
     one(on, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags))

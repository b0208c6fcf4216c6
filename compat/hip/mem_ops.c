/*
 * mem_ops.c - implements stream memory operations. A host function in the stream writes a word of memory, or waits
 * for the word by polling it. So the host must be able to access the word: it must be in pinned, registered or
 * managed memory, or in memory of a CPU device that is not in strict mode.
 */
#include "hip/layer.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct word {
    void *ptr;
    uint64_t value, mask;
    unsigned condition;
    bool wide, write;
};

struct words {
    unsigned count;
    struct word list[];
};

static const char batch_tag; /* the address of this variable is the tag under which the vendor's operations are
                              * stored with a task */

/* ---- host functions that run operations ---- */

#define SPINS_MOST 1000
#define PAUSE_NS 20000

static bool is_reached(const struct word *word)
{
    uint64_t now = word->wide ? atomic_load_explicit((_Atomic uint64_t *)word->ptr, memory_order_acquire)
                              : atomic_load_explicit((_Atomic uint32_t *)word->ptr, memory_order_acquire);
    uint64_t all = word->wide ? UINT64_MAX : UINT32_MAX;

    switch (word->condition) {
    case hipStreamWaitValueGte:
        return (now & word->mask) >= word->value;
    case hipStreamWaitValueEq:
        return (now & word->mask) == word->value;
    case hipStreamWaitValueAnd:
        return (now & word->mask & word->value) != 0;
    default:
        return (~((now & word->mask) | word->value) & all) != 0;
    }
}

static void wait_for_value(const struct word *word)
{
    struct timespec pause = {0, PAUSE_NS};

    for (unsigned i = 0; !is_reached(word); i++) {
        if (i < SPINS_MOST)
            sched_yield();
        else
            nanosleep(&pause, NULL);
    }
}

static void write_value(const struct word *word)
{
    if (word->wide)
        atomic_store_explicit((_Atomic uint64_t *)word->ptr, word->value, memory_order_release);
    else
        atomic_store_explicit((_Atomic uint32_t *)word->ptr, (uint32_t)word->value, memory_order_release);
}

static void run_mem_ops(void *argument)
{
    struct words *words = argument;

    for (unsigned i = 0; i < words->count; i++)
        if (words->list[i].write)
            write_value(&words->list[i]);
        else
            wait_for_value(&words->list[i]);
    free(words);
}

static size_t bytes_of(unsigned count)
{
    return sizeof(struct words) + count * sizeof(struct word);
}

/* Submits the operations. The host function gets its own copy and frees it, because a graph submits the same
 * operations at each launch. */
static int submit_mem_ops(const void *payload, struct leatc_work *work)
{
    const struct words *words = payload;
    struct words *copy;
    leat_status status;

    if (!words->count)
        return LEATC_OK;
    copy = malloc(bytes_of(words->count));
    if (!copy)
        return LEATC_OUT_OF_MEMORY;
    memcpy(copy, words, bytes_of(words->count));
    status = leat_launch_host(work->stream, run_mem_ops, copy);
    if (status != LEAT_OK)
        free(copy);
    return leatc_result_of(status);
}

/* ---- tasks ---- */

static int check_operand(const struct word *word)
{
    struct leatc_memory memory;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    size_t bytes = word->wide ? 8 : 4;

    if (word->condition > hipStreamWaitValueNor)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_memory_find(word->ptr, &memory));
    if (memory.kind == LEATC_MEMORY_PAGEABLE || (uintptr_t)word->ptr % bytes || memory.bytes < bytes ||
        (uintptr_t)word->ptr - (uintptr_t)memory.base > memory.bytes - bytes)
        return LEATC_INVALID_VALUE;
    if (memory.kind != LEATC_MEMORY_DEVICE)
        return LEATC_OK;
    LEATC_TRY(leatc_device_describe(memory.ordinal, &info));
    return strcmp(info.driver, "cpu") || info.strict ? LEATC_NOT_SUPPORTED : LEATC_OK;
}

/* Converts one of the vendor's operations. *flush: true for a flush of remote writes. It needs no action, because
 * remote writes are visible at once. */
static int value_of(const hipStreamBatchMemOpParams *it, struct word *word, bool *flush)
{
    const struct hipStreamMemOpWaitValueParams_t *wait = &it->waitValue;
    const struct hipStreamMemOpWriteValueParams_t *write = &it->writeValue;

    *flush = false;
    switch (it->operation) {
    case hipStreamMemOpWaitValue32:
        *word = (struct word){wait->address, wait->value, UINT32_MAX, wait->flags, false, false};
        return LEATC_OK;
    case hipStreamMemOpWaitValue64:
        *word = (struct word){wait->address, wait->value64, UINT64_MAX, wait->flags, true, false};
        return LEATC_OK;
    case hipStreamMemOpWriteValue32:
        *word = (struct word){.ptr = write->address, .value = write->value, .write = true};
        return LEATC_OK;
    case hipStreamMemOpWriteValue64:
        *word = (struct word){.ptr = write->address, .value = write->value64, .wide = true, .write = true};
        return LEATC_OK;
    case hipStreamMemOpFlushRemoteWrites:
        *flush = true;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

static int make_task(const struct words *words, struct leatc_task **task)
{
    return leatc_task_create(LEATC_NODE_BATCH, submit_mem_ops, NULL, words, bytes_of(words->count), task);
}

static int take_mem_ops(unsigned count, const hipStreamBatchMemOpParams *given, struct words *words)
{
    bool flush;

    for (unsigned i = 0; i < count; i++) {
        struct word *word = &words->list[words->count];

        LEATC_TRY(value_of(&given[i], word, &flush));
        if (flush)
            continue;
        LEATC_TRY(check_operand(word));
        words->count++;
    }
    return LEATC_OK;
}

#define OPERATIONS_MOST 256

/* Stores the vendor's struct, followed by its list, with the task. */
static int keep_batch(struct leatc_task *task, const hipBatchMemOpNodeParams *p)
{
    size_t list = p->count * sizeof *p->paramArray;
    char *kept = malloc(sizeof *p + list);
    int result;

    if (!kept)
        return LEATC_OUT_OF_MEMORY;
    memcpy(kept, p, sizeof *p);
    memcpy(kept + sizeof *p, p->paramArray, list);
    result = leatc_task_keep(task, &batch_tag, kept, sizeof *p + list);
    free(kept);
    return result;
}

int leatc_hip_batch_make(const hipBatchMemOpNodeParams *p, struct leatc_task **task)
{
    struct words *words;
    int result;

    if (!p || !p->paramArray || !p->count || p->count > OPERATIONS_MOST || p->flags)
        return LEATC_INVALID_VALUE;
    words = calloc(1, bytes_of(p->count));
    if (!words)
        return LEATC_OUT_OF_MEMORY;
    result = take_mem_ops(p->count, p->paramArray, words);
    if (result == LEATC_OK)
        result = make_task(words, task);
    free(words);
    LEATC_TRY(result);
    result = keep_batch(*task, p);
    if (result != LEATC_OK)
        leatc_task_drop(*task);
    return result;
}

int leatc_hip_batch_describe(const struct leatc_task *task, hipBatchMemOpNodeParams *p)
{
    const hipBatchMemOpNodeParams *kept = leatc_task_kept(task, &batch_tag);

    if (!kept)
        return LEATC_NOT_SUPPORTED; /* a wait with a mask, for which HIP's struct has no field, or an operation
                                     * that another library captured */
    *p = *kept;
    p->paramArray = (hipStreamBatchMemOpParams *)(uintptr_t)(kept + 1);
    return LEATC_OK;
}

/* ---- exported functions ---- */

/* Submits a task to the stream, or adds it to a capture. Takes ownership of the task. */
static int give_task(struct leatc_stream *stream, struct leatc_task *task)
{
    struct leatc_work work;
    int result = of_stream(leatc_work_begin_capturable(stream, &work));

    if (result == LEATC_OK && work.captured)
        return leatc_capture_add(&work, task);
    if (result == LEATC_OK)
        result = submit_mem_ops(leatc_task_payload(task), &work);
    leatc_task_drop(task);
    return result == LEATC_OK ? leatc_work_end(&work, LEAT_OK) : result;
}

static int batch(hipStream_t stream, unsigned count, hipStreamBatchMemOpParams *operations, unsigned flags)
{
    hipBatchMemOpNodeParams p = {.count = count, .paramArray = operations, .flags = flags};
    struct leatc_task *task = NULL;
    int ordinal = 0;

    LEATC_TRY(check_stream(stream_of(stream)));
    LEATC_TRY(leatc_stream_ordinal(stream_of(stream), &ordinal));
    p.ctx = leatc_hip_context(ordinal);
    LEATC_TRY(leatc_hip_batch_make(&p, &task));
    return give_task(stream_of(stream), task);
}

/* Waits for a word with a mask. It makes its own task, because HIP's operations in batches have no mask. */
static int wait_masked(hipStream_t stream, const struct word *word)
{
    struct words *words;
    struct leatc_task *task = NULL;
    int result;

    LEATC_TRY(check_stream(stream_of(stream)));
    LEATC_TRY(check_operand(word));
    words = calloc(1, bytes_of(1));
    if (!words)
        return LEATC_OUT_OF_MEMORY;
    words->count = 1;
    words->list[0] = *word;
    result = make_task(words, &task);
    free(words);
    return result == LEATC_OK ? give_task(stream_of(stream), task) : result;
}

static int one(hipStream_t stream, hipStreamBatchMemOpType operation, void *ptr, uint64_t value, unsigned flags)
{
    hipStreamBatchMemOpParams given = {.operation = operation};

    given.waitValue.address = ptr;
    given.waitValue.value64 = value;
    given.waitValue.flags = flags;
    return batch(stream, 1, &given, 0);
}

FORWARD(hipError_t hipStreamWaitValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags,
                                        uint32_t mask),
        mask == UINT32_MAX ? one(stream, hipStreamMemOpWaitValue32, ptr, value, flags)
                           : wait_masked(stream, &(struct word){ptr, value, mask, flags, false, false}))
FORWARD(hipError_t hipStreamWaitValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags,
                                        uint64_t mask),
        mask == UINT64_MAX ? one(stream, hipStreamMemOpWaitValue64, ptr, value, flags)
                           : wait_masked(stream, &(struct word){ptr, value, mask, flags, true, false}))

/* Writes a word. flags are reserved, and ignored as by AMD's runtime. */
FORWARD(hipError_t hipStreamWriteValue32(hipStream_t stream, void *ptr, uint32_t value, unsigned int flags),
        one(stream, hipStreamMemOpWriteValue32, ptr, value, flags))

FORWARD(hipError_t hipStreamWriteValue64(hipStream_t stream, void *ptr, uint64_t value, unsigned int flags),
        one(stream, hipStreamMemOpWriteValue64, ptr, value, flags))
FORWARD(hipError_t hipStreamBatchMemOp(hipStream_t stream, unsigned int count,
                                       hipStreamBatchMemOpParams *operations, unsigned int flags),
        batch(stream, count, operations, flags))

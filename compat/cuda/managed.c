/* managed.c - prefetches, advises and queries managed memory, with the calls of leat/managed.h. */
#include "cuda/names.h"

#include <string.h>

/* Returns CUDA_SUCCESS if the range lies within one allocation of managed memory. */
static CUresult check_range(CUdeviceptr address, size_t bytes)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(address && bytes);
    CU_TRY(leatcu_result(leatc_memory_find(leatcu_pointer(address), &memory)));
    CU_CHECK(memory.kind == LEATC_MEMORY_MANAGED);
    CU_CHECK(bytes <= memory.bytes - (size_t)((char *)leatcu_pointer(address) - (char *)memory.base));
    return CUDA_SUCCESS;
}

/* Returns the leat device with this number, or LEAT_HOST for CU_DEVICE_CPU. */
static CUresult find_place(CUdevice number, leat_device **place)
{
    *place = LEAT_HOST;
    if (number == CU_DEVICE_CPU)
        return CUDA_SUCCESS;
    CU_TRY(leatcu_check_device(number));
    return leatcu_result(leatc_device_open(number, place));
}

/* Converts a location to a device number. A NUMA node of the host becomes the whole host. INVALID_DEVICE: a
 * negative number, which could mean the host. */
static CUresult number_of(CUmemLocation location, CUdevice *number)
{
    switch ((unsigned)location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *number = location.id;
        return location.id < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *number = CU_DEVICE_CPU;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- prefetch ---- */

static CUresult prefetch(CUdeviceptr address, size_t bytes, CUdevice number, struct leatc_stream *stream)
{
    struct leatc_work work;
    leat_device *place;

    CU_TRY(check_range(address, bytes));
    CU_TRY(find_place(number, &place));
    CU_TRY(leatcu_result(leatc_work_begin(stream, &work)));
    leatc_managed_reported(leatcu_pointer(address), true);
    return leatcu_result(
        leatc_work_end(&work, leat_managed_prefetch(work.stream, leatcu_pointer(address), bytes, place)));
}

static CUresult prefetch_to(CUdeviceptr address, size_t bytes, CUmemLocation location, unsigned flags,
                            struct leatc_stream *stream)
{
    CUdevice number;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(!flags);
    CU_TRY(number_of(location, &number));
    return prefetch(address, bytes, number, stream);
}

BOTH(cuMemPrefetchAsync, cuMemPrefetchAsync_ptsz,
     (CUdeviceptr address, size_t bytes, CUdevice place, CUstream stream), prefetch(address, bytes, place, on))
BOTH(cuMemPrefetchAsync_v2, cuMemPrefetchAsync_v2_ptsz,
     (CUdeviceptr address, size_t bytes, CUmemLocation place, unsigned flags, CUstream stream),
     prefetch_to(address, bytes, place, flags, on))

/* Prefetches ranges. Place i applies to the ranges from indexes[i] up to the next index. CUDA does not allow the
 * legacy default stream for batches. Checks all arguments before the first prefetch. */
static CUresult prefetch_batch(const CUdeviceptr *ranges, const size_t *sizes, size_t count,
                               const CUmemLocation *places, const size_t *indexes, size_t place_count,
                               unsigned long long flags, struct leatc_stream *stream)
{
    CUdevice number;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(ranges && sizes && count && places && indexes && !flags && stream && stream != LEATC_STREAM_LEGACY);
    CU_CHECK(place_count && place_count <= count && !indexes[0]);
    for (size_t i = 1; i < place_count; i++)
        CU_CHECK(indexes[i] > indexes[i - 1] && indexes[i] < count);
    for (size_t i = 0; i < place_count; i++)
        CU_TRY(number_of(places[i], &number));
    CU_TRY(leatcu_result(leatc_stream_check(stream)));
    for (size_t i = 0; i < count; i++)
        CU_TRY(check_range(ranges[i], sizes[i]));
    for (size_t i = 0, place = 0; i < count; i++) {
        if (place + 1 < place_count && indexes[place + 1] == i)
            place++;
        CU_TRY(prefetch_to(ranges[i], sizes[i], places[place], 0, stream));
    }
    return CUDA_SUCCESS;
}

/* Checks the arguments and does nothing else. CUDA allows a driver to drop the contents of discarded memory, but
 * does not require it. */
static CUresult discard_batch(const CUdeviceptr *ranges, const size_t *sizes, size_t count,
                              unsigned long long flags, struct leatc_stream *stream)
{
    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(ranges && sizes && count && !flags && stream && stream != LEATC_STREAM_LEGACY);
    CU_TRY(leatcu_result(leatc_stream_check(stream)));
    for (size_t i = 0; i < count; i++)
        CU_TRY(check_range(ranges[i], sizes[i]));
    return CUDA_SUCCESS;
}

BOTH(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz,
     (CUdeviceptr * ranges, size_t *sizes, size_t count, CUmemLocation *places, size_t *indexes,
      size_t place_count, unsigned long long flags, CUstream stream),
     prefetch_batch(ranges, sizes, count, places, indexes, place_count, flags, on))
BOTH(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz,
     (CUdeviceptr * ranges, size_t *sizes, size_t count, CUmemLocation *places, size_t *indexes,
      size_t place_count, unsigned long long flags, CUstream stream),
     prefetch_batch(ranges, sizes, count, places, indexes, place_count, flags, on))
BOTH(cuMemDiscardBatchAsync, cuMemDiscardBatchAsync_ptsz,
     (CUdeviceptr * ranges, size_t *sizes, size_t count, unsigned long long flags, CUstream stream),
     discard_batch(ranges, sizes, count, flags, on))

/* ---- advice ---- */

CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice number)
{
    bool has_place = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                     advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    leat_device *place = LEAT_HOST;

    CU_TRY(check_range(address, bytes));
    CU_CHECK(advice >= CU_MEM_ADVISE_SET_READ_MOSTLY && advice <= CU_MEM_ADVISE_UNSET_ACCESSED_BY);
    if (has_place)
        CU_TRY(find_place(number, &place));
    leatc_managed_reported(leatcu_pointer(address), false);
    return leatcu_result(
        leatc_result_of(leat_managed_advise(leatcu_pointer(address), bytes, (leat_advice)advice, place)));
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    CUdevice number = CU_DEVICE_CPU;

    CU_TRY(leatcu_enter(NULL));
    if (advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION && advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION)
        CU_TRY(number_of(location, &number));
    return cuMemAdvise(address, bytes, advice, number);
}

/* ---- range attributes ---- */

static int number_at(leat_location location)
{
    switch (location.kind) {
    case LEAT_LOCATION_KIND_HOST:
        return CU_DEVICE_CPU;
    case LEAT_LOCATION_KIND_DEVICE:
        return location.ordinal;
    default:
        return CU_DEVICE_INVALID;
    }
}

static int type_at(leat_location location)
{
    switch (location.kind) {
    case LEAT_LOCATION_KIND_HOST:
        return CU_MEM_LOCATION_TYPE_HOST;
    case LEAT_LOCATION_KIND_DEVICE:
        return CU_MEM_LOCATION_TYPE_DEVICE;
    default:
        return CU_MEM_LOCATION_TYPE_INVALID;
    }
}

/* Writes the host and then the devices that have accessed-by advice to a list, and fills the rest with
 * CU_DEVICE_INVALID. */
static void list_users(const leat_managed_info *info, int *list, size_t count)
{
    size_t at = 0;

    if (info->accessed_by_host && at < count)
        list[at++] = CU_DEVICE_CPU;
    for (int i = 0; i < 32 && at < count; i++)
        if (info->accessed_by >> i & 1)
            list[at++] = i;
    while (at < count)
        list[at++] = CU_DEVICE_INVALID;
}

static CUresult check_question(void *data, size_t bytes, CUmem_range_attribute attribute)
{
    CU_CHECK(data && attribute >= CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY &&
             attribute <= CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID);
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        CU_CHECK(bytes && bytes % sizeof(int) == 0);
    else
        CU_CHECK(bytes == sizeof(int));
    return CUDA_SUCCESS;
}

static void answer(const leat_managed_info *info, void *data, size_t bytes, CUmem_range_attribute attribute)
{
    int *value = data;

    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *value = info->read_mostly;
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *value = number_at(info->preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
        list_users(info, value, bytes / sizeof *value);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *value = number_at(info->last_prefetch);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *value = type_at(info->preferred);
        break;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *value = type_at(info->last_prefetch);
        break;
    }
}

CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes, size_t count,
                                 CUdeviceptr address, size_t bytes)
{
    leat_managed_info info = {.size = sizeof info};

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(data && sizes && attributes && count);
    for (size_t i = 0; i < count; i++)
        CU_TRY(check_question(data[i], sizes[i], attributes[i]));
    CU_TRY(check_range(address, bytes));
    CU_TRY(leatcu_result(leatc_managed_query(leatcu_pointer(address), bytes, &info)));
    for (size_t i = 0; i < count; i++)
        answer(&info, data[i], sizes[i], attributes[i]);
    return CUDA_SUCCESS;
}

CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute, CUdeviceptr address,
                                size_t bytes)
{
    return cuMemRangeGetAttributes(&data, &size, &attribute, 1, address, bytes);
}

/* ---- attaching ---- */

/* Checks the arguments and does nothing else. A program attaches memory to promise which device or stream will
 * access it. leat does not need the promise, because its devices can access managed memory at the same time as the
 * host. */
static CUresult attach(struct leatc_stream *stream, CUdeviceptr address, size_t bytes, unsigned flags)
{
    struct leatc_memory memory;

    CU_TRY(leatcu_enter(NULL));
    CU_CHECK(flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST || flags == CU_MEM_ATTACH_SINGLE);
    CU_CHECK(flags != CU_MEM_ATTACH_SINGLE || (stream && stream != LEATC_STREAM_LEGACY));
    CU_TRY(leatcu_result(leatc_stream_check(stream)));
    CU_TRY(leatcu_result(leatc_memory_find(leatcu_pointer(address), &memory)));
    CU_CHECK(memory.kind == LEATC_MEMORY_MANAGED && memory.base == leatcu_pointer(address));
    CU_CHECK(!bytes || bytes == memory.bytes);
    return CUDA_SUCCESS;
}

BOTH(cuStreamAttachMemAsync, cuStreamAttachMemAsync_ptsz,
     (CUstream stream, CUdeviceptr address, size_t bytes, unsigned flags), attach(on, address, bytes, flags))

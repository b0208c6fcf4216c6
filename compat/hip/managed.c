/* managed.c - prefetches, advises and queries managed memory, with the calls of leat/managed.h. */
#include "hip/layer.h"

#include <leat/managed.h>

#include <pthread.h>
#include <stdlib.h>

/* Returns OK if the range lies within one allocation of managed memory. */
static int check_range(const void *ptr, size_t bytes)
{
    struct leatc_memory memory;

    if (!ptr || !bytes)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.kind != LEATC_MEMORY_MANAGED ||
        bytes > memory.bytes - (size_t)((const char *)ptr - (const char *)memory.base))
        return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

/* Returns the leat device with HIP's number, or LEAT_HOST for hipCpuDeviceId. */
static int place_of(int number, leat_device **device)
{
    *device = LEAT_HOST;
    return number == hipCpuDeviceId ? LEATC_OK : leatc_device_open(number, device);
}

static int prefetch(const void *ptr, size_t bytes, int number, struct leatc_stream *stream)
{
    LEATC_TRY(check_range(ptr, bytes));
    return leatc_prefetch(ptr, bytes, number == hipCpuDeviceId ? LEATC_HOST : number, stream);
}

FORWARD(hipError_t hipMemPrefetchAsync(const void *ptr, size_t bytes, int device, hipStream_t stream),
        of_stream(prefetch(ptr, bytes, device, stream_of(stream))))

/* Converts a location to HIP's number. A NUMA node of the host becomes the whole host. INVALID_DEVICE: a negative
 * number, which could mean the host. */
static int number_of_place(const hipMemLocation *place, int *number)
{
    switch (place->type) {
    case hipMemLocationTypeDevice:
        *number = place->id;
        return place->id < 0 ? LEATC_INVALID_DEVICE : LEATC_OK;
    case hipMemLocationTypeHost:
    case hipMemLocationTypeHostNuma:
    case hipMemLocationTypeHostNumaCurrent:
        *number = hipCpuDeviceId;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

static int prefetch_to_place(const void *ptr, size_t bytes, const hipMemLocation *place,
                             struct leatc_stream *stream)
{
    int number = 0;

    LEATC_TRY(check_range(ptr, bytes));
    LEATC_TRY(number_of_place(place, &number));
    return of_stream(prefetch(ptr, bytes, number, stream));
}

FORWARD(hipError_t hipMemPrefetchAsync_v2(const void *ptr, size_t bytes, hipMemLocation place, unsigned int flags,
                                          hipStream_t stream),
        flags ? LEATC_INVALID_VALUE : prefetch_to_place(ptr, bytes, &place, stream_of(stream)))

static int prefetch_all(void **ptrs, const size_t *bytes, size_t count, const hipMemLocation *places,
                        const size_t *indexes, size_t place_count, struct leatc_stream *stream)
{
    size_t place = 0;

    if (!ptrs || !bytes || !count || !places || !indexes || !place_count || place_count > count || indexes[0])
        return LEATC_INVALID_VALUE;
    for (size_t i = 1; i < place_count; i++)
        if (indexes[i] <= indexes[i - 1] || indexes[i] >= count)
            return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream));
    for (size_t i = 0; i < count; i++) {
        if (place + 1 < place_count && indexes[place + 1] == i)
            place++;
        LEATC_TRY(prefetch_to_place(ptrs[i], bytes[i], &places[place], stream));
    }
    return LEATC_OK;
}

FORWARD(hipError_t hipMemPrefetchBatchAsync(void **ptrs, size_t *bytes, size_t count, hipMemLocation *places,
                                            size_t *placeIndexes, size_t placeCount, unsigned long long flags,
                                            hipStream_t stream),
        flags ? LEATC_INVALID_VALUE
              : prefetch_all(ptrs, bytes, count, places, placeIndexes, placeCount, stream_of(stream)))

/* ---- coarse-grained coherency: an attribute for the caches of AMD's GPUs, stored and returned ---- */

#define PAGE_BYTES 4096

/* A range of whole pages with coarse-grained coherency. The ranges in the list do not overlap. */
struct coarse {
    struct coarse *next;
    unsigned long long id; /* id of the allocation; if the address belongs to another allocation by now, the range
                            * is stale */
    uintptr_t start, end;
};

static pthread_mutex_t coarse_lock = PTHREAD_MUTEX_INITIALIZER;
static struct coarse *coarse_ranges;

static bool is_stale(const struct coarse *range)
{
    struct leatc_memory memory;

    return leatc_memory_find((const void *)range->start, &memory) != LEATC_OK || memory.id != range->id;
}

/* Removes the part between start and end from all ranges, and all stale ranges. If that splits a range, *spare
 * becomes its second part, and the function sets *spare to NULL. The caller holds the lock. */
static void remove_coarse(uintptr_t start, uintptr_t end, struct coarse **spare)
{
    struct coarse **link = &coarse_ranges, *it;

    while ((it = *link)) {
        bool overlaps = it->start < end && start < it->end;

        if (is_stale(it) || (overlaps && start <= it->start && it->end <= end)) {
            *link = it->next;
            free(it);
            continue;
        }
        if (overlaps && it->start < start && end < it->end) {
            **spare = (struct coarse){.next = it->next, .id = it->id, .start = end, .end = it->end};
            it->next = *spare;
            it->end = start;
            *spare = NULL;
            return;
        }
        if (overlaps && it->start < start)
            it->end = start;
        else if (overlaps)
            it->start = end;
        link = &it->next;
    }
}

static void pages_of(const void *ptr, size_t bytes, uintptr_t *start, uintptr_t *end)
{
    *start = (uintptr_t)ptr & ~(uintptr_t)(PAGE_BYTES - 1);
    *end = ((uintptr_t)ptr + bytes + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
}

static int set_coarse(const void *ptr, size_t bytes, bool on)
{
    struct coarse *made = calloc(1, sizeof *made), *spare = calloc(1, sizeof *spare);
    struct leatc_memory memory;
    int result = made && spare ? leatc_memory_find(ptr, &memory) : LEATC_OUT_OF_MEMORY;

    if (result == LEATC_OK) {
        pages_of(ptr, bytes, &made->start, &made->end);
        pthread_mutex_lock(&coarse_lock);
        remove_coarse(made->start, made->end, &spare);
        if (on) {
            made->id = memory.id;
            made->next = coarse_ranges;
            coarse_ranges = made;
            made = NULL;
        }
        pthread_mutex_unlock(&coarse_lock);
    }
    free(made);
    free(spare);
    return result;
}

static int coherency_of(const void *ptr, size_t bytes, int *mode)
{
    struct leatc_memory memory;
    uintptr_t start, end, covered = 0;

    LEATC_TRY(leatc_memory_find(ptr, &memory));
    pages_of(ptr, bytes, &start, &end);
    pthread_mutex_lock(&coarse_lock);
    for (const struct coarse *it = coarse_ranges; it; it = it->next)
        if (it->id == memory.id && it->start < end && start < it->end)
            covered += (it->end < end ? it->end : end) - (it->start > start ? it->start : start);
    pthread_mutex_unlock(&coarse_lock);
    *mode = !covered                 ? hipMemRangeCoherencyModeFineGrain
            : covered == end - start ? hipMemRangeCoherencyModeCoarseGrain
                                     : hipMemRangeCoherencyModeIndeterminate;
    return LEATC_OK;
}

/* ---- advice ---- */

static int advise(const void *ptr, size_t bytes, hipMemoryAdvise advice, int number)
{
    leat_device *where = LEAT_HOST;

    LEATC_TRY(check_range(ptr, bytes));
    if (advice == hipMemAdviseSetCoarseGrain || advice == hipMemAdviseUnsetCoarseGrain)
        return set_coarse(ptr, bytes, advice == hipMemAdviseSetCoarseGrain);
    if (advice < hipMemAdviseSetReadMostly || advice > hipMemAdviseUnsetAccessedBy)
        return LEATC_INVALID_VALUE;
    if (advice > hipMemAdviseUnsetReadMostly && advice != hipMemAdviseUnsetPreferredLocation)
        LEATC_TRY(place_of(number, &where));
    leatc_managed_reported(ptr, false);
    /* leat_advice has the same values as HIP's enumeration. */
    return leatc_result_of(leat_managed_advise((void *)(uintptr_t)ptr, bytes, (leat_advice)advice, where));
}

FORWARD(hipError_t hipMemAdvise(const void *ptr, size_t bytes, hipMemoryAdvise advice, int device),
        advise(ptr, bytes, advice, device))

static int advise_place(const void *ptr, size_t bytes, hipMemoryAdvise advice, const hipMemLocation *place)
{
    int number = 0;

    LEATC_TRY(number_of_place(place, &number));
    return advise(ptr, bytes, advice, number);
}

FORWARD(hipError_t hipMemAdvise_v2(const void *ptr, size_t bytes, hipMemoryAdvise advice, hipMemLocation place),
        advise_place(ptr, bytes, advice, &place))

/* ---- range attributes ---- */

static int number_of(leat_location place)
{
    return place.kind == LEAT_LOCATION_KIND_HOST     ? hipCpuDeviceId
           : place.kind == LEAT_LOCATION_KIND_DEVICE ? place.ordinal
                                                     : hipInvalidDeviceId;
}

/* Writes the devices that have accessed-by advice and then the host to a list, and fills the rest with a value for
 * no device. */
static void put_users(const leat_managed_info *info, int *users, size_t count)
{
    size_t used = 0;

    for (int i = 0; i < 32 && used < count; i++)
        if (info->accessed_by >> i & 1)
            users[used++] = i;
    if (info->accessed_by_host && used < count)
        users[used++] = hipCpuDeviceId;
    while (used < count)
        users[used++] = hipInvalidDeviceId;
}

/* The values that a query about a range can return. */
struct range_info {
    leat_managed_info managed;
    int coherency;
};

static int get(void *data, size_t data_bytes, hipMemRangeAttribute attribute, const struct range_info *range)
{
    const leat_managed_info *info = &range->managed;

    if (!data || !data_bytes || data_bytes % sizeof(int) ||
        (attribute != hipMemRangeAttributeAccessedBy && data_bytes != sizeof(int)))
        return LEATC_INVALID_VALUE;
    switch (attribute) {
    case hipMemRangeAttributeReadMostly:
        *(int *)data = info->read_mostly;
        return LEATC_OK;
    case hipMemRangeAttributePreferredLocation:
        *(int *)data = number_of(info->preferred);
        return LEATC_OK;
    case hipMemRangeAttributeAccessedBy:
        put_users(info, data, data_bytes / sizeof(int));
        return LEATC_OK;
    case hipMemRangeAttributeLastPrefetchLocation:
        *(int *)data = number_of(info->last_prefetch);
        return LEATC_OK;
    case hipMemRangeAttributeCoherencyMode:
        *(int *)data = range->coherency;
        return LEATC_OK;
    default:
        return LEATC_INVALID_VALUE;
    }
}

static int query(const void *ptr, size_t bytes, struct range_info *info)
{
    LEATC_TRY(check_range(ptr, bytes));
    LEATC_TRY(coherency_of(ptr, bytes, &info->coherency));
    return leatc_managed_query(ptr, bytes, &info->managed);
}

hipError_t hipMemRangeGetAttribute(void *data, size_t dataBytes, hipMemRangeAttribute attribute, const void *ptr,
                                   size_t bytes)
{
    struct range_info info = {.managed = LEAT_MANAGED_INFO_INIT};
    int result = query(ptr, bytes, &info);

    return note(result == LEATC_OK ? get(data, dataBytes, attribute, &info) : result);
}

hipError_t hipMemRangeGetAttributes(void **data, size_t *dataBytes, hipMemRangeAttribute *attributes, size_t count,
                                    const void *ptr, size_t bytes)
{
    struct range_info info = {.managed = LEAT_MANAGED_INFO_INIT};
    int result = data && dataBytes && attributes && count ? query(ptr, bytes, &info) : LEATC_INVALID_VALUE;

    for (size_t i = 0; i < count && result == LEATC_OK; i++)
        result = get(data[i], dataBytes[i], attributes[i], &info);
    return note(result);
}

/* Checks the arguments and does nothing else. A program attaches memory to promise which device or stream will
 * access it, and leat does not need the promise. */
static int attach(struct leatc_stream *stream, void *ptr, size_t bytes, unsigned flags)
{
    struct leatc_memory memory;

    if (!ptr || (flags != hipMemAttachGlobal && flags != hipMemAttachHost && flags != hipMemAttachSingle))
        return LEATC_INVALID_VALUE;
    /* HIP does not allow a program to attach memory to a default stream. */
    if (flags == hipMemAttachSingle && (!stream || stream == LEATC_STREAM_LEGACY))
        return LEATC_INVALID_VALUE;
    LEATC_TRY(check_stream(stream));
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.kind != LEATC_MEMORY_MANAGED || (bytes && (ptr != memory.base || bytes != memory.bytes)))
        return LEATC_INVALID_VALUE;
    return LEATC_OK;
}

FORWARD(hipError_t hipStreamAttachMemAsync(hipStream_t stream, void *ptr, size_t bytes, unsigned int flags),
        attach(stream_of(stream), ptr, bytes, flags))

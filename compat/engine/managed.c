/* managed.c - prefetches, advises and queries managed memory. */
#include "engine/inside.h"

/* Returns OK if the range lies within one allocation of managed memory. */
static int check_range(const void *ptr, size_t bytes)
{
    struct leatc_memory memory;

    LEATC_TRY(leatc_init());
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    return bytes && memory.kind == LEATC_MEMORY_MANAGED &&
                   bytes <= memory.bytes - (size_t)((const char *)ptr - (char *)memory.base)
               ? LEATC_OK
               : LEATC_INVALID_VALUE;
}

/* Returns the leat device of an ordinal, or LEAT_HOST. */
static int find_place(int ordinal, leat_device **place)
{
    *place = LEAT_HOST;
    return ordinal == LEATC_HOST ? LEATC_OK : leatc_device_open(ordinal, place);
}

int leatc_prefetch(const void *ptr, size_t bytes, int ordinal, struct leatc_stream *stream)
{
    struct leatc_work work;
    leat_device *to;

    LEATC_TRY(check_range(ptr, bytes));
    LEATC_TRY(find_place(ordinal, &to));
    LEATC_TRY(leatc_work_begin(stream, &work));
    leatc_managed_reported(ptr, true);
    return leatc_work_end(&work, leat_managed_prefetch(work.stream, (void *)(uintptr_t)ptr, bytes, to));
}

int leatc_advise(const void *ptr, size_t bytes, int advice, int ordinal)
{
    leat_device *where = LEAT_HOST;

    LEATC_TRY(check_range(ptr, bytes));
    if (advice < LEAT_ADVICE_READ_MOSTLY || advice > LEAT_ADVICE_NOT_ACCESSED_BY)
        return LEATC_INVALID_VALUE;
    /* The ordinal may have any value if the advice ignores the location: read-mostly advice and the end of a
     * preference. */
    if (advice == LEAT_ADVICE_PREFERRED || advice >= LEAT_ADVICE_ACCESSED_BY)
        LEATC_TRY(find_place(ordinal, &where));
    leatc_managed_reported(ptr, false);
    return leatc_result_of(leat_managed_advise((void *)(uintptr_t)ptr, bytes, (leat_advice)advice, where));
}

/* Converts the ordinal of a location to that of this process. A device that is not visible becomes
 * LEAT_LOCATION_KIND_NONE. */
static void translate(leat_location *place)
{
    if (place->kind != LEAT_LOCATION_KIND_DEVICE)
        return;
    place->ordinal = leatc_ordinal_of(place->ordinal);
    if (place->ordinal < 0)
        place->kind = LEAT_LOCATION_KIND_NONE;
}

static uint32_t translate_all(uint32_t devices)
{
    uint32_t here = 0;
    int ordinal;

    for (int i = 0; i < 32; i++)
        if (devices >> i & 1 && (ordinal = leatc_ordinal_of(i)) >= 0 && ordinal < 32)
            here |= (uint32_t)1 << ordinal;
    return here;
}

int leatc_managed_query(const void *ptr, size_t bytes, leat_managed_info *info)
{
    struct leatc_memory memory;

    LEATC_TRY(check_range(ptr, bytes));
    *info = (leat_managed_info)LEAT_MANAGED_INFO_INIT;
    LEATC_TRY(leatc_result_of(leat_managed_get_info(ptr, bytes, info)));
    translate(&info->preferred);
    translate(&info->last_prefetch);
    info->accessed_by = translate_all(info->accessed_by);
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    /* The driver may report the prefetch of an earlier allocation of these pages. If this allocation was not
     * prefetched, report no prefetch. */
    if (!memory.sent)
        info->last_prefetch = (leat_location){.kind = LEAT_LOCATION_KIND_NONE, .ordinal = -1};
    return LEATC_OK;
}

int leatc_attach(struct leatc_stream *stream, void *ptr, size_t bytes, unsigned flags)
{
    struct leatc_work work;
    struct leatc_memory memory;
    leat_status status;

    if (flags != LEAT_ATTACH_ALL && flags != LEAT_ATTACH_HOST && flags != LEAT_ATTACH_STREAM)
        return LEATC_INVALID_VALUE;
    LEATC_TRY(leatc_work_begin(stream, &work));
    LEATC_TRY(leatc_memory_find(ptr, &memory));
    if (memory.kind != LEATC_MEMORY_MANAGED || memory.base != ptr || (bytes && bytes != memory.bytes))
        return LEATC_INVALID_VALUE;
    status = leat_managed_attach(work.stream, ptr, (leat_attach)flags);
    /* Single blocks of a pool cannot be attached. Such a block stays accessible to all devices and the host, which
     * includes every access that an attachment allows, so report success. */
    return leatc_work_end(&work, status == LEAT_ERROR_UNSUPPORTED ? LEAT_OK : status);
}

/* fill.c - fills memory, by the driver's call for patterns of up to 4 bytes, else by a kernel. */
#include "core/access.h"

#include <string.h>

/* Checks that a fill can write to dst, and sets endpoint->device_pointer. */
static leat_status find_fillable(leat_stream *stream, void *dst, size_t bytes, struct leati_endpoint *endpoint)
{
    struct leati_driver *driver = stream->device->driver;

    LEATI_TRY(leati_pointers_find_range(driver, "dst", dst, bytes, true, endpoint));
    LEATI_TRY(leati_check_reach(stream, "dst", endpoint));
    if (endpoint->location.kind == LEAT_KIND_PAGEABLE)
        return leati_fail(LEAT_ERROR_POINTER, "dst: %p is pageable host memory; use memset(), or pinned memory",
                          dst);
    if (endpoint->location.kind == LEAT_KIND_DEVICE && endpoint->device != stream->device)
        return leati_fail(LEAT_ERROR_INVALID, "dst: %p is memory of %s; fill it on a stream of that device", dst,
                          endpoint->device->name);
    if (endpoint->device_pointer)
        return LEAT_OK;
    endpoint->device_pointer = dst;
    if (endpoint->location.kind == LEAT_KIND_PINNED && driver->ops->host_device_pointer)
        return driver->ops->host_device_pointer(driver, stream->device->native, dst, &endpoint->device_pointer);
    return LEAT_OK;
}

/* A pattern of up to 16 bytes. */
struct pattern {
    unsigned char bytes[16];
    unsigned length; /* size of the pattern: 1, 2, 4, 8 or 16 */
};

/* Halves the pattern while both halves are equal, so that the driver's call can be used more often. */
static void shorten(struct pattern *pattern)
{
    while (pattern->length > 1 &&
           !memcmp(pattern->bytes, pattern->bytes + pattern->length / 2, pattern->length / 2))
        pattern->length /= 2;
}

/* Fills with a pattern of 8 or 16 bytes, for which drivers have no call. */
static leat_status fill_by_kernel(leat_stream *stream, void *dst, const struct pattern *pattern, size_t bytes)
{
    uint64_t count = bytes / pattern->length, words[2];
    void *args[] = {&dst, &count, &words[0], &words[1]};
    unsigned argument_count = pattern->length == 8 ? 3 : 4;
    uint64_t blocks = (count + 1023) / 1024;
    leat_kernel *kernel;

    memcpy(words, pattern->bytes, sizeof words);
    LEATI_TRY(leati_kernel_builtin(stream->device, LEATI_BUILTIN_BASIC,
                                   pattern->length == 8 ? "leat_fill_u64" : "leat_fill_u128", &kernel));
    return leat_launch(stream, kernel, leat_dim(blocks < 4096 ? (uint32_t)blocks : 4096, 1, 1),
                       leat_dim(256, 1, 1), 0, args, argument_count);
}

/* Fills with the driver's call if the pattern is short enough, else by a kernel. */
static leat_status fill_at(leat_stream *stream, void *dst, const struct pattern *pattern, size_t bytes)
{
    struct leati_driver *driver = stream->device->driver;
    uint32_t value = 0;

    if (pattern->length > 4)
        return fill_by_kernel(stream, dst, pattern, bytes);
    memcpy(&value, pattern->bytes, pattern->length);
    return driver->ops->fill(driver, stream->native, dst, value, pattern->length, bytes / pattern->length);
}

static leat_status fill(leat_stream *stream, void *dst, struct pattern pattern, size_t bytes)
{
    struct leati_endpoint endpoint;
    struct leati_access written;
    leat_status status;

    LEATI_TRY(find_fillable(stream, dst, bytes, &endpoint));
    LEATI_TRY(leati_may_use(&written, stream, "dst", &endpoint, bytes, true));
    shorten(&pattern);
    leati_stream_piece_begins(stream);
    if (leati_traced()) {
        leati_span_stream(&stream->traced);
        leati_span_bytes(bytes, dst);
        leati_span_kinds(LEATI_TRACE_MEMORY_NONE, leati_span_kind(endpoint.location.kind));
        leati_span_work_begins(&stream->traced);
    }
    status = fill_at(stream, endpoint.device_pointer, &pattern, bytes);
    if (leati_traced())
        leati_span_work_ends(&stream->traced);
    leati_stream_piece_ends(stream);
    leati_timeline_submitted(stream->timeline);
    LEATI_TRY(status);
    leati_was_used(&written, stream, &endpoint, bytes, true);
    return LEAT_OK;
}

leat_status leat_fill(leat_stream *stream, void *dst, uint8_t value, size_t bytes)
{
    struct pattern pattern = {.bytes = {value}, .length = 1};
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_FILL, "leat_fill");
    LEATI_TRY(leati_check_permitted("leat_fill"));
    LEATI_TRY(leati_check_stream("leat_fill", stream));
    if (!bytes)
        return LEAT_OK;
    status = fill(stream, dst, pattern, bytes);
    return status == LEAT_OK ? status
                             : leati_fail_in(status, "leat_fill of %zu bytes on %s", bytes, stream->device->name);
}

leat_status leat_fill_pattern(leat_stream *stream, void *dst, const void *pattern, size_t pattern_bytes,
                              size_t bytes)
{
    struct pattern copied = {.length = (unsigned)pattern_bytes};
    leat_status status;

    LEATI_SPAN(LEATI_TRACE_FILL, "leat_fill_pattern");
    LEATI_TRY(leati_check_permitted("leat_fill_pattern"));
    LEATI_TRY(leati_check_stream("leat_fill_pattern", stream));
    LEATI_TRY(leati_check_not_null("leat_fill_pattern", "pattern", pattern));
    if (pattern_bytes > 16 || !pattern_bytes || pattern_bytes & (pattern_bytes - 1))
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_fill_pattern: a pattern of %zu bytes; it may have 1, 2, 4, 8 or 16",
                          pattern_bytes);
    if (bytes % pattern_bytes || (bytes && (uintptr_t)dst % pattern_bytes))
        return leati_fail(
            LEAT_ERROR_INVALID,
            "leat_fill_pattern: dst %p must be aligned to the pattern's %zu bytes, and the size %zu a multiple of it",
            dst, pattern_bytes, bytes);
    if (!bytes)
        return LEAT_OK;
    memcpy(copied.bytes, pattern, pattern_bytes);
    status = fill(stream, dst, copied, bytes);
    return status == LEAT_OK
               ? status
               : leati_fail_in(status, "leat_fill_pattern of %zu bytes on %s", bytes, stream->device->name);
}

/*
 * fault_copies.c - scenarios of fault_walk: copies of pageable memory, files and tickets. If leat cannot stage a
 * copy, it copies in another way, so a failed driver call may go unreported. All bytes must be right then.
 */
#include "fault_scenarios.h"

#include "layouts.h"

#include <string.h>

/* ---- pageable memory -------------------------------------------------------------------------- */

static void expect_bytes(const unsigned char *seen, size_t bytes, uint64_t seed, const char *what)
{
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = leat_pattern_value(i / 8, seed);

        if (memcmp(seen + i, &word, bytes - i < 8 ? bytes - i : 8))
            give_up("%s: the word at byte %zu of %zu is wrong, without an error", what, i, bytes);
    }
}

static bool open_for_copies(struct world *w)
{
    char other_name[16];

    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_DEVICE, LONG_BYTES, &w->plain));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, LONG_BYTES, &w->pinned));
    STEP(leat_event_create(w->device, &w->end));
    if (wrapper->device_count > 1) {
        snprintf(other_name, sizeof other_name, "%s:%d", wrapper->name, device_info.ordinal == 0);
        STEP(leat_device_open(other_name, &w->other));
        STEP(leat_stream_create(w->other, &w->far_stream));
        STEP(leat_memory_alloc(w->other, LEAT_KIND_DEVICE, LONG_BYTES, &w->far));
    }
    return true;
}

/* Copies short and long ranges to the device and back with plain calls. The long ones fill the ring more than
 * once. */
static bool copy_both_ways(struct world *w)
{
    static const size_t sizes[] = {100, BYTES, 300 << 10, LONG_BYTES};

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        test_pattern(host_in, sizes[i], i);
        memset(host_out, 0, sizes[i]);
        STEP(leat_copy(w->stream, w->plain, host_in, sizes[i]));
        STEP(leat_copy(w->stream, host_out, w->plain, sizes[i]));
        STEP(leat_stream_synchronize(w->stream));
        expect_bytes(host_out, sizes[i], i, "both ways");
        memset(host_out, 0, sizes[i]);
        STEP(leat_copy_sync(w->stream, w->plain, host_in, sizes[i]));
        test_pattern(host_in, sizes[i], 10 + i);
        STEP(leat_copy_sync(w->stream, host_out, w->plain, sizes[i]));
        expect_bytes(host_out, sizes[i], i, "both ways, waiting");
    }
    test_pattern(host_in, LONG_BYTES, 15);
    if (!move_rows(w, host_out, host_in, 1000, 450, 1150))
        return false;
    return move_rows(w, host_out, host_in, 10, 50, 30);
}

/* Makes copies from one host buffer to another, between streams and between devices. Slow work precedes them. */
static bool copy_in_order(struct world *w)
{
    test_pattern(host_in, LONG_BYTES, 20);
    memset(host_out, 0, LONG_BYTES);
    memset(host_other, 0, LONG_BYTES);
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy(w->stream, host_other, host_in, LONG_BYTES));
    STEP(leat_copy(w->stream, w->plain, host_other, LONG_BYTES));
    STEP(leat_event_record(w->stream, w->end));
    STEP(leat_stream_wait(w->second, w->end));
    STEP(leat_copy(w->second, host_out, w->plain, LONG_BYTES));
    STEP(leat_copy(w->second, w->pinned, host_out, LONG_BYTES));
    STEP(leat_stream_synchronize(w->second));
    expect_bytes(host_out, LONG_BYTES, 20, "two streams");
    expect_bytes(w->pinned, LONG_BYTES, 20, "two streams, to pinned memory");
    if (!w->far)
        return true;
    memset(host_other, 0, LONG_BYTES);
    STEP(leat_copy(w->far_stream, w->far, host_in, LONG_BYTES));
    STEP(leat_copy(w->far_stream, host_other, w->far, LONG_BYTES));
    STEP(leat_stream_synchronize(w->far_stream));
    expect_bytes(host_other, LONG_BYTES, 20, "the other device");
    return true;
}

/* Makes 3-D copies between the device and both kinds of host memory. On the device there are gaps between the
 * rows. */
static bool copy_regions(struct world *w)
{
    enum { WIDTH = 3000, HEIGHT = 40, PITCH = 4096, ALL = WIDTH * HEIGHT };
    leat_copy_region in = {WIDTH, HEIGHT, 1, PITCH, WIDTH, 0, 0}, out = {WIDTH, HEIGHT, 1, WIDTH, PITCH, 0, 0};
    unsigned char *pinned = w->pinned;

    test_pattern(host_in, ALL, 70);
    test_pattern(pinned, ALL, 71);
    memset(host_out, 0, ALL);
    STEP(leat_copy_3d(w->stream, w->plain, host_in, &in));
    STEP(leat_copy_3d(w->stream, pinned + ALL, w->plain, &out));
    STEP(leat_copy_3d(w->stream, w->plain, pinned, &in));
    STEP(leat_copy_3d(w->stream, host_out, w->plain, &out));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(pinned + ALL, ALL, 70, "rectangles to pinned memory");
    expect_bytes(host_out, ALL, 71, "rectangles to pageable memory");
    return true;
}

/* Fails unless each element of dst equals the same element of src. */
static void expect_elements(const void *dst, const leat_layout *dst_layout, const void *src,
                            const leat_layout *src_layout, const char *what)
{
    uint64_t elements = 0, bytes;

    (void)leat_layout_count(dst_layout, &elements, &bytes);
    for (uint64_t i = 0; i < elements; i++)
        if (memcmp((const char *)dst + layouts_at(dst_layout, i), (const char *)src + layouts_at(src_layout, i),
                   dst_layout->element_bytes) != 0)
            give_up("%s: element %llu is wrong", what, (unsigned long long)i);
}

/* Copies layouts on every path: whole, packed to and from the device, with a list of indices, and from host to
 * host. */
static bool copy_layouts(struct world *w)
{
    enum { ROWS = 100, COLUMNS = 300, SOME = 60, ALL = ROWS * COLUMNS * 4 };
    leat_layout matrix, turned, view, rows, narrow, wide;
    unsigned char *pinned = w->pinned;
    int32_t list[ROWS];

    for (int32_t i = 0; i < ROWS; i++)
        list[i] = ROWS - 1 - i;
    STEP(leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    STEP(leat_layout_dense(&turned, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    view = matrix;
    STEP(leat_layout_transpose(&view, 0, 1));
    rows = matrix;
    STEP(leat_layout_index(&rows, 0, list, ROWS, 4, NULL));
    wide = matrix;
    STEP(leat_layout_slice(&wide, 1, 100, 100 + SOME, 1));
    STEP(leat_layout_dense(&narrow, 2, (int64_t[]){ROWS, SOME}, 4));

    test_pattern(host_in, ALL, 73);
    memset(host_out, 0, ALL);
    memset(host_other, 0, ALL);
    memset(pinned, 0, 2 * ALL);
    STEP(leat_copy_layout(w->stream, w->plain, &turned, host_in, &view));
    STEP(leat_copy_layout(w->stream, host_out, &view, w->plain, &turned));
    STEP(leat_copy_layout(w->stream, pinned, &rows, host_in, &matrix));
    STEP(leat_copy_layout(w->stream, w->plain, &narrow, host_in, &wide));
    STEP(leat_copy_layout(w->stream, pinned + ALL, &wide, w->plain, &narrow));
    STEP(leat_copy_layout(w->stream, host_other, &wide, w->plain, &narrow));
    STEP(leat_copy_layout(w->stream, host_other + ALL, &turned, host_in, &view));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(host_out, ALL, 73, "layouts, there and back");
    expect_elements(pinned, &rows, host_in, &matrix, "layouts, scattered rows");
    expect_elements(pinned + ALL, &wide, host_in, &wide, "layouts, columns to pinned memory");
    expect_elements(host_other, &wide, host_in, &wide, "layouts, columns to pageable memory");
    expect_elements(host_other + ALL, &turned, host_in, &view, "layouts, from host to host");
    return true;
}

/* Reverses bytes on the paths of layouts: twice each, so that the elements are as before. */
static bool convert_layouts(struct world *w)
{
    enum { ROWS = 100, COLUMNS = 300, SOME = 60, ALL = ROWS * COLUMNS * 4 };
    leat_layout matrix, turned, view, narrow, wide;
    leat_conversion swap = LEAT_CONVERSION_INIT;
    unsigned char *pinned = w->pinned;

    swap.flags = LEAT_CONVERT_SWAP_SRC;
    STEP(leat_layout_dense(&matrix, 2, (int64_t[]){ROWS, COLUMNS}, 4));
    STEP(leat_layout_dense(&turned, 2, (int64_t[]){COLUMNS, ROWS}, 4));
    view = matrix;
    STEP(leat_layout_transpose(&view, 0, 1));
    wide = matrix;
    STEP(leat_layout_slice(&wide, 1, 100, 100 + SOME, 1));
    STEP(leat_layout_dense(&narrow, 2, (int64_t[]){ROWS, SOME}, 4));

    test_pattern(host_in, ALL, 74);
    memset(host_out, 0, ALL);
    memset(host_other, 0, 2 * ALL);
    memset(pinned, 0, ALL);
    STEP(leat_copy_convert(w->stream, w->plain, &turned, host_in, &view, &swap));
    STEP(leat_copy_convert(w->stream, host_out, &view, w->plain, &turned, &swap));
    STEP(leat_copy_convert(w->stream, w->plain, &narrow, host_in, &wide, &swap));
    STEP(leat_copy_convert(w->stream, pinned, &wide, w->plain, &narrow, &swap));
    STEP(leat_copy_convert(w->stream, host_other, &wide, w->plain, &narrow, &swap));
    swap.flags = LEAT_CONVERT_SWAP_SRC | LEAT_CONVERT_SWAP_DST;
    STEP(leat_copy_convert(w->stream, host_other + ALL, &turned, host_in, &view, &swap));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(host_out, ALL, 74, "conversions, there and back");
    expect_elements(pinned, &wide, host_in, &wide, "conversions, columns to pinned memory");
    expect_elements(host_other, &wide, host_in, &wide, "conversions, columns to pageable memory");
    expect_elements(host_other + ALL, &turned, host_in, &view, "conversions, from host to host");
    return true;
}

/* Copies many images in one call, in several launches: most from pinned memory to the device, of which some
 * reverse their bytes, and some from pageable memory; then all of them back. */
static bool copy_layout_batch(struct world *w)
{
    enum { IMAGES = 150, HEIGHT = 8, WIDTH = 16, EACH = HEIGHT * WIDTH * 4, ALL = IMAGES * EACH };
    leat_layout planes, pixels;
    leat_conversion same = LEAT_CONVERSION_INIT;
    leat_layout_copy in[IMAGES], out[IMAGES];
    unsigned char *device = w->plain, *pinned = w->pinned;

    same.flags = LEAT_CONVERT_SWAP_SRC | LEAT_CONVERT_SWAP_DST;
    STEP(leat_layout_dense(&planes, 3, (int64_t[]){2, HEIGHT, WIDTH}, 2));
    STEP(leat_layout_dense(&pixels, 3, (int64_t[]){HEIGHT, WIDTH, 2}, 2));
    STEP(leat_layout_permute(&pixels, (uint32_t[]){2, 0, 1}));
    test_pattern(host_in, ALL, 75);
    memcpy(pinned, host_in, ALL);
    memset(pinned + ALL, 0, ALL);
    for (size_t i = 0; i < IMAGES; i++) {
        size_t at = i * 7 % IMAGES * EACH;

        in[i] = (leat_layout_copy){.dst = device + at,
                                   .dst_layout = &planes,
                                   .src = (i % 50 == 49 ? host_in : pinned) + at,
                                   .src_layout = &pixels,
                                   .conversion = i % 3 ? NULL : &same};
        out[i] = (leat_layout_copy){
            .dst = pinned + ALL + at, .dst_layout = &pixels, .src = device + at, .src_layout = &planes};
    }
    STEP(leat_copy_layouts(w->stream, in, IMAGES));
    STEP(leat_copy_layouts(w->stream, out, IMAGES));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(pinned + ALL, ALL, 75, "many layouts, there and back");
    return true;
}

/* Copies a batch of small ranges from and to both kinds of host memory. */
static bool copy_ops(struct world *w)
{
    enum { PAIRS = 20, EACH = 6000, ALL = PAIRS * EACH };
    unsigned char *pinned = w->pinned, *device = w->plain;
    leat_copy_op in[PAIRS], out[PAIRS];

    test_pattern(host_in, ALL, 71);
    test_pattern(pinned, ALL, 72);
    memset(host_out, 0, ALL);
    memset(pinned + ALL, 0, ALL);
    /* The batch to the device lists the ranges in ascending order, and the batch back lists them in descending
     * order. */
    for (size_t i = 0; i < PAIRS; i++) {
        size_t at = i * EACH;
        unsigned char *there = device + at + (i % 2 ? 0 : ALL);

        in[i] = (leat_copy_op){there, (i % 3 ? pinned : host_in) + at, EACH};
        out[PAIRS - 1 - i] = (leat_copy_op){(i % 5 ? pinned + ALL : host_out) + at, there, EACH};
    }
    STEP(leat_copy_batch(w->stream, in, PAIRS));
    STEP(leat_copy_batch(w->stream, out, PAIRS));
    STEP(leat_stream_synchronize(w->stream));
    for (size_t i = 0; i < PAIRS; i++)
        if (memcmp(in[i].src, out[PAIRS - 1 - i].dst, EACH))
            give_up("pair %zu of %d: wrong bytes without an error", i, PAIRS);
    return true;
}

/* Waits for a ticket that was cancelled. Both LEAT_OK and LEAT_ERROR_CANCELLED count as success, because the copy
 * may have ended before the cancel. */
static leat_status wait_cancelled(leat_ticket *ticket, leat_copy_point point)
{
    leat_status status = leat_ticket_wait(ticket, point, LEAT_FOREVER);

    return status == LEAT_ERROR_CANCELLED ? LEAT_OK : status;
}

static bool use_tickets(struct world *w)
{
    leat_copy_options options = {.size = sizeof options, .deadline_ns = UINT64_C(100000000000)};
    leat_ticket **tickets = w->tickets;
    leat_ticket_info info = LEAT_TICKET_INFO_INIT;

    test_pattern(host_in, LONG_BYTES, 30);
    memset(host_out, 0, LONG_BYTES);
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy_start(w->stream, w->plain, host_in, LONG_BYTES, &options, &tickets[0]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &tickets[1]));
    STEP(leat_copy_start(w->stream, w->pinned, w->plain, LONG_BYTES, NULL, &tickets[2]));
    STEP(leat_ticket_extend(tickets[1], w->stream));
    STEP(leat_ticket_extend(tickets[2], w->stream));
    STEP(leat_ticket_get_info(tickets[0], &info));
    STEP(leat_ticket_wait(tickets[0], LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    memset(host_in, 0, LONG_BYTES);
    STEP(leat_ticket_wait(tickets[2], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    STEP(leat_ticket_wait(tickets[1], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    STEP(leat_ticket_get_info(tickets[1], &info));
    STEP(info.status);
    if (!info.done || info.arrived_bytes != LONG_BYTES)
        give_up("a copy that was waited for has %llu bytes", (unsigned long long)info.arrived_bytes);
    expect_bytes(host_out, LONG_BYTES, 30, "tickets");
    expect_bytes(w->pinned, LONG_BYTES, 30, "tickets, to pinned memory");
    /* These copies are so small that they need no worker thread. */
    STEP(leat_copy_start(w->stream, w->plain, host_in, 100, NULL, &tickets[3]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, 100, NULL, &tickets[4]));
    STEP(leat_ticket_wait(tickets[3], LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    STEP(leat_ticket_wait(tickets[4], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    if (host_out[0] || memcmp(host_out, host_out + 1, 99))
        give_up("small copies with tickets: wrong bytes without an error");
    STEP(leat_launch_host(w->stream, count_slowly, &w->host_calls));
    STEP(leat_copy_start(w->stream, w->plain, host_in, LONG_BYTES, NULL, &tickets[5]));
    STEP(leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &tickets[6]));
    STEP(leat_ticket_cancel(tickets[5]));
    STEP(leat_ticket_cancel(tickets[6]));
    STEP(wait_cancelled(tickets[5], LEAT_COPY_POINT_STAGED));
    STEP(wait_cancelled(tickets[6], LEAT_COPY_POINT_DONE));
    return true;
}

/* Writes device memory to a file, and reads the file back to device memory and to the host. */
static bool copy_files(struct world *w)
{
    memset(host_out, 0, LONG_BYTES);
    memset(w->pinned, 0, LONG_BYTES);
    test_pattern(host_in, LONG_BYTES, 80);
    STEP(leat_copy(w->stream, w->plain, host_in, LONG_BYTES));
    STEP(leat_file_write(w->stream, walk_file, 0, w->plain, LONG_BYTES));
    STEP(leat_fill(w->stream, w->plain, 0, LONG_BYTES));
    STEP(leat_file_read(w->stream, w->plain, walk_file, 0, LONG_BYTES));
    STEP(leat_file_read(w->stream, host_out, walk_file, 0, LONG_BYTES));
    STEP(leat_copy(w->stream, w->pinned, w->plain, LONG_BYTES));
    STEP(leat_stream_synchronize(w->stream));
    expect_bytes(w->pinned, LONG_BYTES, 80, "a file, to the device");
    expect_bytes(host_out, LONG_BYTES, 80, "a file, to the host");
    return true;
}

/* Destroys a stream while short and long copies are running on it. */
static bool end_a_stream_that_copies(struct world *w)
{
    leat_stream *gone = NULL;
    bool given;

    test_pattern(host_in, LONG_BYTES, 40);
    memset(host_out, 0, LONG_BYTES);
    STEP(leat_stream_create(w->device, &gone));
    given = keep(w, "short", leat_copy(gone, w->plain, host_in, 100)) == LEAT_OK &&
            keep(w, "slow", leat_launch_host(gone, count_slowly, &w->host_calls)) == LEAT_OK &&
            keep(w, "in", leat_copy(gone, w->plain, host_in, LONG_BYTES)) == LEAT_OK &&
            keep(w, "out", leat_copy(gone, host_out, w->plain, LONG_BYTES)) == LEAT_OK;
    END(leat_stream_destroy(gone));
    if (!given || w->failed)
        return false;
    STEP(leat_device_synchronize(w->device));
    expect_bytes(host_out, LONG_BYTES, 40, "a stream that ended");
    return true;
}

/* Fails unless the device can still stage copies. */
static void copies_must_work(leat_device *device)
{
    leat_stream *stream;
    void *memory;
    bool good;

    test_pattern(host_in, LONG_BYTES, 50);
    memset(host_out, 0, LONG_BYTES);
    good = leat_stream_create(device, &stream) == LEAT_OK && leat_alloc(stream, LONG_BYTES, &memory) == LEAT_OK &&
           leat_copy(stream, memory, host_in, LONG_BYTES) == LEAT_OK &&
           leat_copy_sync(stream, host_out, memory, LONG_BYTES) == LEAT_OK &&
           leat_free(stream, memory) == LEAT_OK && leat_stream_synchronize(stream) == LEAT_OK &&
           leat_stream_destroy(stream) == LEAT_OK;
    if (!good)
        give_up("the device does not copy any more: %s", leat_last_error());
    expect_bytes(host_out, LONG_BYTES, 50, "after the failure");
}

static void free_tickets(struct world *w)
{
    for (int i = 0; i < TICKETS; i++)
        if (w->tickets[i])
            END(leat_ticket_destroy(w->tickets[i]));
}

void copy_scenario(struct world *w)
{
    if (open_for_copies(w) && copy_both_ways(w) && copy_in_order(w) && use_tickets(w) && copy_regions(w) &&
        copy_layouts(w) && convert_layouts(w) && copy_layout_batch(w) && copy_ops(w) && copy_files(w))
        end_a_stream_that_copies(w);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    if (w->other)
        FREE(leat_device_synchronize(w->other));
    free_tickets(w);
    if (w->device && leati_fault_fired(wrapper))
        copies_must_work(w->device);
    FREE(leat_memory_free(w->plain));
    FREE(leat_memory_free(w->pinned));
    FREE(leat_memory_free(w->far));
    END(leat_event_destroy(w->end));
    END(leat_stream_destroy(w->far_stream));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
}

void lazy_copy_scenario(struct world *w)
{
    bool given = false;

    if (open_for_copies(w)) {
        test_pattern(host_in, LONG_BYTES, 60);
        memset(host_out, 0, LONG_BYTES);
        given = keep(w, "short", leat_copy(w->stream, w->plain, host_in, 100)) == LEAT_OK &&
                keep(w, "slow", leat_launch_host(w->stream, count_slowly, &w->host_calls)) == LEAT_OK &&
                keep(w, "in", leat_copy(w->stream, w->plain, host_in, LONG_BYTES)) == LEAT_OK &&
                keep(w, "out", leat_copy_start(w->stream, host_out, w->plain, LONG_BYTES, NULL, &w->tickets[0])) ==
                    LEAT_OK;
    }
    END(leat_device_close(w->other));
    END(leat_device_close(w->device));
    if (given && !w->failed)
        expect_bytes(host_out, LONG_BYTES, 60, "a device that was closed");
    /* leat may have freed the ticket when it closed the device, so the status does not matter. */
    if (w->tickets[0])
        (void)leat_ticket_destroy(w->tickets[0]);
}

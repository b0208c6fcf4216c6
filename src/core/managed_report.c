/* managed_report.c - writes a text report about the pages that moved between host and devices, with advice. */
#include "base/strbuf.h"
#include "core/core.h"

#include <leat/managed.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOVES_SHOWN = 20, MOVES_ASKED = 4096 };

static void add_count(struct leati_strbuf *text, uint64_t pages, const char *what)
{
    if (pages)
        leati_strbuf_add(text, "  %8" PRIu64 "  %s\n", pages, what);
}

static void add_counts(struct leati_strbuf *text, const leat_managed_stats *c)
{
    leati_strbuf_add(text, "%" PRIu64 " pages of %zu bytes\n", c->pages, c->page_bytes);
    add_count(text, c->first_touch_host, "touched first by the host, which gave them their place");
    add_count(text, c->first_touch_device, "touched first by a device");
    add_count(text, c->faults_to_device, "moved to a device because it touched them elsewhere (faults)");
    add_count(text, c->faults_to_host, "moved to the host because it touched them elsewhere (faults)");
    add_count(text, c->prefetched_to_device, "moved to a device by prefetch");
    add_count(text, c->prefetched_to_host, "moved to the host by prefetch");
    add_count(text, c->prefetched_in_vain, "prefetched to where they were already");
    add_count(text, c->copied, "copied for a reader (read mostly)");
    add_count(text, c->copies_ended, "times that a page's copies ended");
    add_count(text, c->used_in_place, "touched from elsewhere without a move, as advised");
    add_count(text, c->thrashing, "thrashing: moved to and fro by three faults or more");
}

static void add_advice(struct leati_strbuf *text, const leat_managed_stats *c)
{
    if (c->thrashing)
        leati_strbuf_add(
            text,
            "Thrashing: let one side finish before the other begins, or keep what both use in pinned memory, or advise LEAT_ADVICE_PREFERRED at the host with LEAT_ADVICE_ACCESSED_BY for the device.\n");
    if (c->faults_to_device)
        leati_strbuf_add(
            text, "Faults to a device: leat_managed_prefetch() to it on the stream before the work that uses the memory; what is only read there may be LEAT_ADVICE_READ_MOSTLY.\n");
    if (c->faults_to_host)
        leati_strbuf_add(
            text,
            "Faults to the host: leat_managed_prefetch() to LEAT_HOST before the host reads, and wait for the stream.\n");
    if (c->prefetched_in_vain)
        leati_strbuf_add(text,
                         "Prefetched in vain: pages were there already; that costs a call and moves nothing.\n");
    if (c->copies_ended)
        leati_strbuf_add(text,
                         "Copies ended: read mostly memory is written; advise that only while it is read.\n");
    if (c->unseen)
        leati_strbuf_add(text, "Some touches were not seen: the system has no room for so many pieces of memory (vm.max_map_count).\n");
}

static const char *place_words(leat_location location, const char *driver, char text[32])
{
    if (location.kind == LEAT_LOCATION_KIND_HOST)
        return "the host";
    if (location.kind != LEAT_LOCATION_KIND_DEVICE)
        return "nowhere";
    snprintf(text, 32, "%.16s:%d", driver, location.ordinal);
    return text;
}

static const char *cause_words(leat_move_cause cause)
{
    switch (cause) {
    case LEAT_MOVE_CAUSE_FIRST_TOUCH:
        return "first touch";
    case LEAT_MOVE_CAUSE_FAULT:
        return "fault";
    case LEAT_MOVE_CAUSE_PREFETCH:
        return "prefetch";
    case LEAT_MOVE_CAUSE_COPY:
        return "copy for a reader";
    case LEAT_MOVE_CAUSE_END_COPIES:
        return "copies ended by a write";
    }
    return "unknown";
}

static void add_moves(struct leati_strbuf *text, const char *driver, const leat_managed_move *moves, size_t count)
{
    size_t first = count > MOVES_SHOWN ? count - MOVES_SHOWN : 0;
    char from[32], to[32];

    if (count)
        leati_strbuf_add(text, "The latest %zu of %zu moves:\n", count - first, count);
    for (size_t i = first; i < count; i++)
        leati_strbuf_add(text, "  %10.3f ms  %p + %" PRIu64 ": %s to %s, %s\n", (double)moves[i].time_ns / 1e6,
                         moves[i].ptr, moves[i].bytes, place_words(moves[i].from, driver, from),
                         place_words(moves[i].to, driver, to), cause_words(moves[i].cause));
}

/* Removes the moves that do not touch [base, base + bytes), and returns how many are left. */
static size_t keep_within(leat_managed_move *moves, size_t count, uintptr_t base, size_t bytes)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)moves[i].ptr < base + bytes && base < (uintptr_t)moves[i].ptr + moves[i].bytes)
            moves[kept++] = moves[i];
    return kept;
}

leat_status leat_managed_report(leat_device *device, const void *ptr, size_t bytes, char *text, size_t text_bytes)
{
    leat_managed_stats counts = {.size = sizeof counts};
    struct leati_strbuf words = {text, text_bytes};
    size_t count = MOVES_ASKED;
    leat_managed_move *moves;
    leat_status status;

    LEATI_TRY(leati_check_permitted("leat_managed_report"));
    LEATI_TRY(leati_check_not_null("leat_managed_report", "text", text));
    if (!text_bytes)
        return leati_fail(LEAT_ERROR_INVALID,
                          "leat_managed_report: text_bytes is 0; even the closing 0 needs one");
    status = leat_managed_get_stats(device, ptr, bytes, &counts);
    if (status != LEAT_OK)
        return leati_fail_in(status, "leat_managed_report");
    moves = malloc(MOVES_ASKED * sizeof *moves);
    if (!moves)
        return leati_fail(LEAT_ERROR_HOST_MEMORY, "leat_managed_report: no memory for the moves");
    status = leat_managed_history(device, moves, &count);
    if (status == LEAT_OK) {
        if (ptr)
            count = keep_within(moves, count, (uintptr_t)ptr, counts.pages * counts.page_bytes);
        *text = '\0';
        add_counts(&words, &counts);
        add_advice(&words, &counts);
        add_moves(&words, device->driver->name, moves, count);
    }
    free(moves);
    return status == LEAT_OK ? status : leati_fail_in(status, "leat_managed_report");
}

/*
 * layout_arenas.h - helpers for the tests of layout copies: memory of every kind for both sides of a copy, and a
 * function that makes one copy and compares it with a plain loop.
 */
#ifndef LAYOUT_ARENAS_H
#define LAYOUT_ARENAS_H

#include "harness.h"
#include "layouts.h"
#include "seed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define SMALL_BYTES ((uint64_t)8 << 10)

enum place { PAGEABLE, PINNED, REGISTERED, DEVICE, MANAGED, OTHER_DEVICE, PLACES };

static const char *const place_names[] = {"pageable", "pinned",  "registered",
                                          "device",   "managed", "the other device"};

static uint64_t seed, random_state;
static unsigned many = 250;

static inline uint64_t chance(uint64_t below)
{
    return layouts_random(&random_state, below);
}

/* For each kind of memory: two arenas, index lists and error counters. Also host buffers to compare with. */
struct arenas {
    leat_device *device, *other;
    size_t bytes;
    unsigned char *arena[2][PLACES]; /* NULL if the kind is unavailable */
    uint64_t *list[PLACES], *wrong[PLACES];
    unsigned char *in, *wanted, *seen;
};

#define LIST_BYTES ((size_t)256 * 8)

static inline void *place_memory(const struct arenas *arenas, enum place place, size_t bytes)
{
    void *ptr = NULL;

    switch (place) {
    case PAGEABLE:
        return test_buffer(bytes);
    case REGISTERED:
        ptr = test_buffer(bytes);
        OK(leat_register(arenas->device, ptr, bytes));
        return ptr;
    case OTHER_DEVICE:
        return arenas->other ? test_alloc(arenas->other, LEAT_KIND_DEVICE, bytes) : NULL;
    case MANAGED:
        return leat_memory_alloc(arenas->device, LEAT_KIND_MANAGED, bytes, &ptr) == LEAT_OK ? ptr : NULL;
    default:
        return test_alloc(arenas->device, place == PINNED ? LEAT_KIND_PINNED : LEAT_KIND_DEVICE, bytes);
    }
}

static inline void free_place(enum place place, void *ptr)
{
    if (place == REGISTERED)
        OK(leat_unregister(ptr));
    if (place == PAGEABLE || place == REGISTERED)
        free(ptr);
    else
        OK(leat_memory_free(ptr));
}

static inline void make_arenas(struct test_state *t, struct arenas *arenas, size_t bytes)
{
    arenas->device = t->device;
    arenas->other = test_open_other();
    arenas->bytes = bytes;
    for (enum place place = 0; place < PLACES; place++) {
        arenas->arena[0][place] = place_memory(arenas, place, bytes);
        arenas->arena[1][place] = place_memory(arenas, place, bytes);
        arenas->list[place] = place_memory(arenas, place, LIST_BYTES);
        arenas->wrong[place] = place_memory(arenas, place, sizeof(uint64_t));
    }
    arenas->in = test_buffer(bytes);
    arenas->wanted = test_buffer(bytes);
    arenas->seen = test_buffer(bytes);
    test_pattern(arenas->in, bytes, 1);
}

static inline void end_arenas(struct arenas *arenas)
{
    for (enum place place = 0; place < PLACES; place++) {
        free_place(place, arenas->arena[0][place]);
        free_place(place, arenas->arena[1][place]);
        free_place(place, arenas->list[place]);
        free_place(place, arenas->wrong[place]);
    }
    OK(leat_device_close(arenas->other));
    free(arenas->in);
    free(arenas->wanted);
    free(arenas->seen);
}

/* ---- one copy, with all its bytes compared ---- */

static inline void complain(const struct layouts_pair *pair, const char *what, enum place to, enum place from)
{
    char dst[1024], src[1024];

    layouts_print(&pair->dst, dst, sizeof dst);
    layouts_print(&pair->src, src, sizeof src);
    fail_msg("seed %llu, %s to %s: %s; dst has %s; src has %s", (unsigned long long)seed, place_names[from],
             place_names[to], what, dst, src);
}

static inline void expect_same(const struct arenas *arenas, const unsigned char *wanted, size_t bytes,
                               const struct layouts_pair *pair, const char *side, enum place to, enum place from)
{
    char what[100];
    size_t i = 0;

    if (!memcmp(arenas->seen, wanted, bytes))
        return;
    while (arenas->seen[i] == wanted[i])
        i++;
    snprintf(what, sizeof what, "byte %zu of %s is %02x and not %02x", i - GUARD_BYTES, side, arenas->seen[i],
             wanted[i]);
    complain(pair, what, to, from);
}

/* Returns a base pointer in the arena for a layout whose lowest byte is at base + low. GUARD_BYTES or more of the
 * arena lie in front of that byte. */
static inline unsigned char *base_for(unsigned char *arena, int64_t low, size_t shift)
{
    return arena + GUARD_BYTES + shift + (low < 0 ? -low : 0);
}

static inline bool has_gaps(const struct layouts_pair *pair)
{
    return (uint64_t)(pair->dst_high - pair->dst_low) != pair->elements * pair->dst.element_bytes;
}

/* Returns true if leat/layout.h says that a GPU cannot do this copy. The stream belongs to the device under
 * test. */
static inline bool may_be_refused(enum place to, enum place from, enum place list, const struct layouts_pair *pair)
{
    bool on_device = list == DEVICE || list == MANAGED;

    if (to == OTHER_DEVICE)
        return from == OTHER_DEVICE || has_gaps(pair) || pair->dst.index;
    return to == PAGEABLE && on_device && (from == PAGEABLE || pair->dst.index);
}

/* Copies the pair once and compares all bytes of both sides with the plain loop. list is the kind of memory that
 * holds the index list, if the pair has one. */
static inline void copy_pair(leat_stream *stream, struct arenas *arenas, enum place to, enum place from,
                             enum place list, const struct layouts_pair *pair, const leat_layout *dst_layout,
                             const leat_layout *src_layout)
{
    unsigned char *dst = base_for(arenas->arena[0][to], pair->dst_low, chance(2) ? chance(32) : 0);
    unsigned char *src = base_for(arenas->arena[1][from], pair->src_low, chance(2) ? chance(32) : 0);
    size_t dst_window = (size_t)(pair->dst_high - pair->dst_low) + 2 * GUARD_BYTES;
    size_t src_window = (size_t)(pair->src_high - pair->src_low) + 2 * GUARD_BYTES;
    leat_status status;

    assert_true(dst_window + 200 <= arenas->bytes && src_window + 200 <= arenas->bytes);
    memset(arenas->wanted, 0xa5, dst_window);
    OK(leat_copy(stream, dst + pair->dst_low - GUARD_BYTES, arenas->wanted, dst_window));
    OK(leat_copy_sync(stream, src + pair->src_low - GUARD_BYTES, arenas->in, src_window));
    status = leat_copy_layout(stream, dst, dst_layout, src, src_layout);
    if (status == LEAT_ERROR_UNSUPPORTED && may_be_refused(to, from, list, pair)) {
        /* The work submitted so far uses the arenas, and the caller may free them after this call. */
        OK(leat_stream_synchronize(stream));
        return;
    }
    if (status != LEAT_OK)
        complain(pair, leat_last_error(), to, from);
    OK(leat_copy_sync(stream, arenas->seen, dst + pair->dst_low - GUARD_BYTES, dst_window));
    layouts_copy(pair, arenas->wanted + GUARD_BYTES, arenas->in + GUARD_BYTES);
    expect_same(arenas, arenas->wanted, dst_window, pair, "dst", to, from);
    OK(leat_copy_sync(stream, arenas->seen, src + pair->src_low - GUARD_BYTES, src_window));
    expect_same(arenas, arenas->in, src_window, pair, "src", to, from);
}

static inline bool is_there(const struct arenas *arenas, enum place to, enum place from)
{
    return arenas->arena[0][to] && arenas->arena[1][from];
}

/* Reads TEST_SEED and LAYOUT_MANY, seeds the random numbers and prints the seed. */
static inline void begin_random(const char *program)
{
    const char *given_many = getenv("LAYOUT_MANY");

    seed = test_seed();
    if (given_many)
        many = (unsigned)strtoul(given_many, NULL, 0);
    random_state = seed * 2 + 1;
    printf("%s: TEST_SEED=%llu\n", program, (unsigned long long)seed);
    fflush(stdout);
}

#endif

/*
 * unit_chunks.c - tests how staged copies are cut into chunks: each byte once and in order, no ring memory
 * overwritten too early, and small chunks at the end for which the link or the host waits.
 */
#include "staging/chunks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static struct leati_chunk *cut_all(const struct leati_cut *cut, uint32_t *count)
{
    struct leati_chunk *chunks;

    *count = leati_staging_cut(cut, NULL);
    chunks = calloc(*count, sizeof *chunks);
    assert_non_null(chunks);
    assert_int_equal(leati_staging_cut(cut, chunks), *count);
    return chunks;
}

/* The parts must cover every byte of the chunk once. With in_blocks, each part except the first of the copy must
 * begin at a multiple of 4096 bytes of the storage, and all parts must be aligned in the ring as in the
 * storage. */
static void check_parts(const struct leati_cut *cut, const struct leati_chunk *chunk)
{
    size_t at = 0;

    assert_true(chunk->parts >= 1);
    for (uint32_t part = 0; part < chunk->parts; part++) {
        size_t start, bytes = leati_chunk_part(chunk, part, &start), in_blocks = chunk->offset + start;

        assert_int_equal(start, at);
        assert_in_range(bytes, 1, chunk->part_bytes);
        at += bytes;
        if (!cut->in_blocks)
            continue;
        in_blocks += cut->lead_bytes;
        assert_true(!chunk->offset && !start ? in_blocks == cut->lead_bytes : in_blocks % 4096 == 0);
        assert_true(!cut->ring_bytes || (chunk->place + start) % 4096 == in_blocks % 4096);
    }
    assert_int_equal(at, chunk->bytes);
}

static void check_bytes(const struct leati_cut *cut, const struct leati_chunk *chunks, uint32_t count)
{
    size_t at = 0;

    for (uint32_t c = 0; c < count; c++) {
        assert_int_equal(chunks[c].offset, at);
        assert_true(chunks[c].bytes > 0);
        assert_true(!cut->most_bytes || chunks[c].bytes <= cut->most_bytes);
        at += chunks[c].bytes;
        check_parts(cut, &chunks[c]);
    }
    assert_int_equal(at, cut->bytes);
}

static bool share(const struct leati_chunk *a, const struct leati_chunk *b)
{
    return a->place < b->place + b->bytes && b->place < a->place + a->bytes;
}

/* A chunk must be inside the ring. It may reuse ring memory only of chunks that it waits for. */
static void check_ring(const struct leati_cut *cut, const struct leati_chunk *chunks, uint32_t count)
{
    for (uint32_t c = 0; c < count; c++) {
        assert_true(chunks[c].place + chunks[c].bytes <= (cut->ring_bytes + 4095) / 4096 * 4096);
        assert_true(chunks[c].after <= c);
        assert_true(!c || chunks[c].after >= chunks[c - 1].after);
        for (uint32_t earlier = chunks[c].after; earlier < c; earlier++)
            assert_false(share(&chunks[c], &chunks[earlier]));
        /* A chunk must not wait for more chunks than necessary. */
        assert_true(!chunks[c].after || chunks[c].after == (c ? chunks[c - 1].after : 0) ||
                    share(&chunks[c], &chunks[chunks[c].after - 1]));
    }
}

static void all_sizes(void **state)
{
    static const size_t rings[] = {256 * KIB, 1 * MIB, 3 * MIB + 4096, 64 * MIB};
    size_t sizes[80], many = 0;

    (void)state;
    for (size_t base = 1; base <= 512 * MIB; base *= 4)
        for (size_t i = 0; i < 3; i++)
            if (base + i > 1)
                sizes[many++] = base + i - 1;
    for (size_t i = 0; i < many; i++)
        for (size_t r = 0; r < sizeof rings / sizeof rings[0]; r++)
            for (int form = 0; form < 8; form++) {
                struct leati_cut cut = {.bytes = sizes[i],
                                        .ring_bytes = leati_staging_ring_bytes(sizes[i], rings[r]),
                                        .most_bytes = form & 2 ? 16 * MIB : 0,
                                        .even_bytes = form & 4 ? 256 * KIB : 0,
                                        .out = form & 1,
                                        .threads = 1 + (unsigned)i % 9};
                uint32_t count;
                struct leati_chunk *chunks = cut_all(&cut, &count);

                check_bytes(&cut, chunks, count);
                check_ring(&cut, chunks, count);
                free(chunks);
            }
}

static void blocks_are_not_cut(void **state)
{
    static const size_t rings[] = {0, 256 * KIB, 3 * MIB + 4096, 64 * MIB}, leads[] = {0, 1, 512, 4095};

    (void)state;
    for (size_t base = 1; base <= 256 * MIB; base *= 4)
        for (size_t i = 0; i < 3; i++)
            for (size_t form = 0; form < 4 * 4 * 2; form++) {
                size_t ring = rings[form / 4 % 4], lead = leads[form % 4];
                struct leati_cut cut = {.bytes = base + i,
                                        .ring_bytes = leati_staging_ring_bytes(base + i + lead, ring),
                                        .in_blocks = true,
                                        .lead_bytes = lead,
                                        .part_bytes = form % 3 == 2 ? MIB : 0,
                                        .out = form / 16,
                                        .threads = 1 + (unsigned)form % 9};
                uint32_t count;
                struct leati_chunk *chunks = cut_all(&cut, &count);

                check_bytes(&cut, chunks, count);
                if (ring)
                    check_ring(&cut, chunks, count);
                free(chunks);
            }
}

/* A copy to the device must begin with a small chunk, because the link waits until the first chunk is staged. A
 * copy from the device must end with a small chunk, because the host waits until the last chunk has arrived. */
static void small_chunks_are_at_the_end_that_waits(void **state)
{
    struct leati_cut cut = {.bytes = 256 * MIB, .ring_bytes = 64 * MIB, .threads = 8};
    struct leati_chunk *chunks;
    uint32_t count;

    (void)state;
    chunks = cut_all(&cut, &count);
    assert_true(chunks[0].bytes < chunks[1].bytes && chunks[0].bytes <= 2 * MIB);
    assert_true(chunks[count / 2].bytes >= 8 * MIB);
    free(chunks);
    cut.out = true;
    chunks = cut_all(&cut, &count);
    assert_true(chunks[count - 1].bytes < chunks[count - 2].bytes && chunks[count - 1].bytes <= MIB);
    assert_true(chunks[count / 2].bytes >= 8 * MIB);
    free(chunks);
}

static bool share_pages(const struct leati_chunk *a, const struct leati_chunk *b)
{
    return a->place / 4096 <= (b->place + b->bytes - 1) / 4096 && b->place / 4096 <= (a->place + a->bytes - 1) / 4096;
}

/* Copies to the device that follow each other in a ring, with sizes from most bytes down to 1. A chunk waits for all chunks
 * whose memory it takes, of any copy before. */
static void follow_in_a_ring(size_t ring, size_t most, unsigned seed)
{
    enum { COPIES = 100, CHUNKS_MOST = 10000 };
    static struct leati_chunk all[CHUNKS_MOST];
    struct leati_ring_queue queue = {.at = 0};
    uint32_t begins[COPIES], total = 0, gate = 0; /* where each copy begins in all, chunks so far, chunks that left */

    for (unsigned i = 0; i < COPIES; i++) {
        struct leati_cut cut = {.bytes = 1 + (size_t)rand_r(&seed) % most,
                                .ring_bytes = ring,
                                .in_blocks = rand_r(&seed) % 2,
                                .threads = 3,
                                .queue = &queue,
                                .copy = i,
                                .follows = i && rand_r(&seed) % 2};
        struct leati_chunk *chunks;
        uint32_t count;

        cut.lead_bytes = cut.in_blocks ? (size_t)rand_r(&seed) % 4096 : 0;
        chunks = cut_all(&cut, &count);
        assert_true(total + count <= CHUNKS_MOST);
        check_bytes(&cut, chunks, count);
        begins[i] = total;
        for (uint32_t c = 0; c < count; c++) {
            uint32_t back = chunks[c].copies_back, left = chunks[c].after ? begins[i - back] + chunks[c].after : 0;

            assert_true(back <= LEATI_RING_COPIES_BACK);
            assert_true(chunks[c].place + chunks[c].bytes <= ring);
            assert_true(left >= gate && left <= total + c);
            gate = left;
            all[total + c] = chunks[c];
            for (uint32_t before = gate; before < total + c; before++)
                assert_false(share_pages(&chunks[c], &all[before]));
        }
        assert_true(!cut.follows || count == 1 || chunks[0].bytes >= ring / 4 / 4096 * 4096 - cut.lead_bytes);
        free(chunks);
        total += count;
    }
    assert_true(gate > 0);
}

static void copies_follow_in_a_ring(void **state)
{
    unsigned seed = 7;

    (void)state;
    for (unsigned round = 0; round < 100; round++) {
        const size_t ring = (size_t)(1 + rand_r(&seed) % 3) * MIB + (size_t)(rand_r(&seed) % 3) * 4096;

        follow_in_a_ring(ring, 5 * MIB, round);
        follow_in_a_ring(ring, ring / 3, round);
        /* The gate is the copy that is so many back, though the ring has room for more. */
        follow_in_a_ring(64 * MIB, 4096, round);
    }
}

static void without_a_ring_chunks_have_one_size(void **state)
{
    struct leati_cut cut = {.bytes = 100 * MIB + 1, .threads = 4};
    struct leati_chunk *chunks;
    uint32_t count;

    (void)state;
    chunks = cut_all(&cut, &count);
    /* The last chunk also takes the remaining byte. */
    assert_int_equal(count, 25);
    check_bytes(&cut, chunks, count);
    for (uint32_t c = 0; c < count; c++)
        assert_int_equal(chunks[c].bytes, 4 * MIB + (c + 1 == count));
    free(chunks);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_sizes),
        cmocka_unit_test(blocks_are_not_cut),
        cmocka_unit_test(small_chunks_are_at_the_end_that_waits),
        cmocka_unit_test(copies_follow_in_a_ring),
        cmocka_unit_test(without_a_ring_chunks_have_one_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

/* unit_hugepage.c - tests that memory gets huge pages before it is written for the first time: the functions
 * alone, and in copies, fills and layouts. */
#include "harness.h"

#include "base/hugepage.h"

#include <leat/layout.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((size_t)2 << 20)

/* Returns how many KiB of the mapping that contains ptr are in huge pages. */
static size_t huge_kib(const void *ptr)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    bool here = false;
    char line[512];
    size_t kib = 0;

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;

        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            here = (uintptr_t)ptr >= from && (uintptr_t)ptr < to;
        else if (here && !strncmp(line, "ShmemPmdMapped:", 15))
            kib = strtoul(line + 15, NULL, 10);
    }
    fclose(maps);
    return kib;
}

/* Maps a memory file of four pieces of 2 MiB, at an address that is a multiple of 2 MiB. */
static char *map_file(void)
{
    char *room = mmap(NULL, 5 * PIECE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *start = room + (PIECE - (uintptr_t)room % PIECE) % PIECE;
    int file = memfd_create("unit_hugepage", MFD_CLOEXEC);

    assert_true(room != MAP_FAILED && file >= 0 && !ftruncate(file, 4 * PIECE));
    assert_ptr_equal(mmap(start, 4 * PIECE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0), start);
    close(file);
    return start;
}

/* Returns true if this system can put memory files into huge pages. Does not use leat. */
static bool system_has_them(void)
{
    char *file = map_file();
    bool has;

    *(volatile char *)file = 1;
    has = !madvise(file, PIECE, 25 /* MADV_COLLAPSE */);
    munmap(file, 4 * PIECE);
    return has;
}

static void pieces_are_those_that_are_touched(void **state)
{
    char *at = (char *)(7 * PIECE);

    (void)state;
    assert_int_equal(leati_hugepage_count(at, PIECE), 1);
    assert_int_equal(leati_hugepage_count(at, PIECE + 1), 2);
    assert_int_equal(leati_hugepage_count(at + PIECE - 1, PIECE), 2);
    assert_int_equal(leati_hugepage_count(at + PIECE - 1, 2 * PIECE), 3);
    assert_int_equal(leati_hugepage_count(at, 3 * PIECE), 3);
    assert_int_equal(leati_hugepage_count(at, 100), 0);
    assert_int_equal(leati_hugepage_count(at, 0), 0);
}

static void only_pieces_without_pages_are_taken(void **state)
{
    char *file = map_file();

    (void)state;
    assert_true(leati_hugepage_any_missing(file, 4 * PIECE));
    /* This write by the test allocates a small page. leat must then leave the piece in small pages. */
    file[PIECE] = 5;
    leati_hugepage_collapse(file, 1);
    assert_int_equal(huge_kib(file), 0);
    assert_int_equal(file[PIECE], 5);
    /* This range begins inside a piece. */
    assert_true(leati_hugepage_any_missing(file + 5000, PIECE));
    for (uint64_t i = 0; i < leati_hugepage_count(file + 5000, PIECE); i++)
        leati_hugepage_collapse(file + 5000, i);
    assert_false(leati_hugepage_any_missing(file + 5000, PIECE));
    assert_true(leati_hugepage_any_missing(file + 2 * PIECE, PIECE));
    for (size_t i = 0; i < 4 * PIECE; i++)
        assert_true(file[i] == (i == PIECE ? 5 : 0));
    munmap(file, 4 * PIECE);
}

static void taken_pieces_are_huge(void **state)
{
    char *file = map_file();

    (void)state;
    if (!system_has_them())
        SKIP_OTHER("this system gives memory files no huge pages (Linux 6.1 and later may)");
    for (uint64_t i = 1; i < 3; i++)
        leati_hugepage_collapse(file, i);
    memset(file, 7, 4 * PIECE);
    /* The system may have too few huge pages for both pieces. */
    assert_true(huge_kib(file) > 0 && huge_kib(file) <= 2 * PIECE / 1024);
    munmap(file, 4 * PIECE);
}

/* The call that writes a block for the first time. */
enum first_write { BY_COPY, BY_FILL, BY_LAYOUT, WRITES };

static leat_status write_first(leat_stream *stream, enum first_write how, void *block, const void *src,
                               size_t bytes)
{
    int64_t sizes[2] = {(int64_t)bytes / 4096, 1024};
    leat_layout dense, rows;

    if (how == BY_COPY)
        return leat_copy(stream, block, src, bytes);
    if (how == BY_FILL)
        return leat_fill(stream, block, 3, bytes);
    OK(leat_layout_dense(&rows, 2, sizes, 4));
    OK(leat_layout_transpose(&rows, 0, 1));
    OK(leat_layout_dense(&dense, 2, rows.size, 4));
    return leat_copy_layout(stream, block, &dense, src, &rows);
}

static void first_writes_bring_huge_pages(void **state)
{
    struct test_state *t = *state;
    size_t bytes = 8 * PIECE;
    char *src = test_alloc(t->device, LEAT_KIND_PINNED, bytes);

    memset(src, 9, bytes);
    for (enum first_write how = BY_COPY; how < WRITES; how++) {
        /* A new pool, so that its memory is new too. */
        leat_pool_options options = {.size = sizeof options, .name = "huge"};
        leat_pool *pool;
        void *block;

        OK(leat_pool_create(t->device, &options, &pool));
        OK(leat_pool_alloc(t->stream, pool, bytes, &block));
        OK(write_first(t->stream, how, block, src, bytes));
        OK(leat_stream_synchronize(t->stream));
        if (!system_has_them())
            assert_int_equal(huge_kib(block), 0);
        else
            assert_true(huge_kib(block) > 0);
        OK(leat_free(t->stream, block));
        OK(leat_pool_destroy(pool));
    }
    OK(leat_memory_free(src));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(pieces_are_those_that_are_touched),
    cmocka_unit_test(only_pieces_without_pages_are_taken),
    cmocka_unit_test(taken_pieces_are_huge),
    STATE_TEST(first_writes_bring_huge_pages),
};

TEST_MAIN(tests)

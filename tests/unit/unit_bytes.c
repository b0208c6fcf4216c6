/*
 * unit_bytes.c - tests how the copy engine moves bytes: every variant of the code, prefaulting of pages, and the
 * choice of store policies.
 *
 * It can also measure the speed. The second argument is the number of threads:
 *
 *     unit_bytes measure 8
 */
#include "bytes_child.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/stream_copy.h"
#include "staging/bytes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- copying ----------------------------------------------------------------------------------------------- */

struct places {
    unsigned char *dst, *src, *wanted;
    size_t bytes;
};

static void make_places(struct places *p, size_t bytes)
{
    *p = (struct places){test_buffer(bytes), test_buffer(bytes), test_buffer(bytes), bytes};
    test_pattern(p->src, bytes, 11);
}

static void free_places(const struct places *p)
{
    free(p->dst);
    free(p->src);
    free(p->wanted);
}

/* Makes one copy. The bytes before and after the destination must stay unchanged. */
static void copy_one(const struct places *p, int variant, size_t to, size_t from, size_t bytes)
{
    size_t around = to + bytes + 256;

    assert_true(around <= p->bytes && from + bytes <= p->bytes);
    memset(p->dst, 0xa5, around);
    memset(p->wanted, 0xa5, around);
    memcpy(p->wanted + to, p->src + from, bytes);
    if (variant < 0)
        leati_staging_copy(p->dst + to, p->src + from, bytes, LEATI_STORE_POLICY_CACHED);
    else
        leati_stream_copy_by((enum leati_stream_isa)variant, p->dst + to, p->src + from, bytes);
    if (memcmp(p->dst, p->wanted, around))
        fail_msg("variant %d: %zu bytes from offset %zu to offset %zu went wrong", variant, bytes, from, to);
}

static void every_variant_copies(void **state)
{
    static const size_t from[] = {0, 1, 7, 16, 31, 32, 33, 63, 64, 65, 70};
    static const size_t edges[] = {4 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 256 * KIB};
    static const long beside[] = {-65, -64, -63, -1, 0, 1, 63, 64, 65};
    struct places p;

    (void)state;
    make_places(&p, 300 * KIB);
    for (int variant = -1; variant <= (int)leati_stream_best(); variant++) {
        for (size_t to = 0; to <= 70; to++)
            for (size_t i = 0; i < sizeof from / sizeof *from; i++)
                for (size_t bytes = 0; bytes < 330; bytes += bytes < 132 ? 1 : 11)
                    copy_one(&p, variant, to, from[i], bytes);
        for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
            for (size_t j = 0; j < sizeof beside / sizeof *beside; j++)
                for (size_t to = 0; to <= 70; to += to < 2 ? 1 : 17)
                    copy_one(&p, variant, to, from[(i + j + to) % 11], edges[i] + (size_t)beside[j]);
    }
    free_places(&p);
}

static void stores_have_names(void **state)
{
    (void)state;
    assert_string_equal(leati_store_policy_name(LEATI_STORE_POLICY_CACHED), "cached");
    assert_string_equal(leati_store_policy_name(LEATI_STORE_POLICY_STREAMING), "streaming");
    assert_string_equal(leati_staging_streaming_by(), leati_stream_name(leati_stream_best()));
    assert_string_equal(leati_stream_name(LEATI_STREAM_PLAIN), "memcpy");
}

/* ---- which pages are resident ------------------------------------------------------------------------------- */

static void prefault_leaves_what_is_there(void **state)
{
    size_t bytes = 64 * page_bytes;
    unsigned char *ptr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool can;

    (void)state;
    assert_true(ptr != MAP_FAILED);
    madvise(ptr, bytes, MADV_NOHUGEPAGE);
    assert_true(leati_staging_resident(ptr, 0));
    assert_false(leati_staging_resident(ptr, bytes));
    for (size_t i = 0; i < bytes; i += 2 * page_bytes)
        test_pattern(ptr + i, page_bytes, i);
    assert_false(leati_staging_resident(ptr, bytes));
    assert_true(leati_staging_resident(ptr + 10, 5));
    assert_false(leati_staging_resident(ptr + page_bytes - 1, 2));
    /* The range that is prefaulted neither starts nor ends at a page boundary. */
    can = !madvise(ptr + page_bytes, page_bytes, 23);
    leati_staging_prefault(ptr + 100, bytes - page_bytes);
    assert_int_equal(leati_staging_resident(ptr, bytes), can);
    for (size_t i = 0; i < bytes; i += 2 * page_bytes) {
        EXPECT_PATTERN(ptr + i, page_bytes, i);
        EXPECT_BYTES(ptr + i + page_bytes, page_bytes, 0);
    }
    assert_int_equal(munmap(ptr, bytes), 0);
}

static void prefault_says_nothing(void **state)
{
    unsigned char *ptr = mmap(NULL, 4 * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    assert_true(ptr != MAP_FAILED);
    leati_staging_prefault(ptr, 0);
    leati_staging_prefault(ptr, 4 * page_bytes);
    assert_int_equal(munmap(ptr, 4 * page_bytes), 0);
    leati_staging_prefault(ptr, 4 * page_bytes);
    leati_staging_prefault(NULL, 100);
    assert_false(leati_staging_resident(ptr, 4 * page_bytes));
    assert_false(leati_staging_resident(NULL, 1));
}

/* ---- the choice of stores ----------------------------------------------------------------------------------- */

static struct leati_workers *start_workers(unsigned threads)
{
    struct leati_workers *workers;

    assert_int_equal(leati_workers_get(-1, LEATI_WORK_COPIES, threads, &workers), 0);
    return workers;
}

static void the_probe_measures(void **state)
{
    struct leati_workers *workers = start_workers(2);
    size_t bytes = 1024 * KIB;
    void *slot = test_buffer(bytes);
    struct leati_staging_choice choice;

    (void)state;
    for (unsigned threads = 1; threads <= 4; threads++) {
        leati_staging_probe(workers, slot, bytes, threads, &choice);
        assert_int_equal(choice.probed, leati_stream_best() != LEATI_STREAM_PLAIN);
        for (int i = 0; i < 2 && choice.probed; i++)
            assert_true(choice.in_gbps[i] >= 0 && choice.out_gbps[i] >= 0);
        assert_int_equal(choice.in, choice.in_gbps[0] > 0 && choice.in_gbps[1] > choice.in_gbps[0] * 1.5);
        assert_int_equal(choice.out, choice.out_gbps[0] > 0 && choice.out_gbps[1] > choice.out_gbps[0] * 1.05);
    }
    /* The first two probes have too little memory to measure with, and the last one has no threads. */
    leati_staging_probe(workers, slot, 20 * KIB, 4, &choice);
    leati_staging_probe(workers, slot, 100, 4, &choice);
    assert_true(!choice.probed && choice.in == LEATI_STORE_POLICY_CACHED &&
                choice.out == LEATI_STORE_POLICY_CACHED);
    leati_staging_probe(workers, slot, bytes, 0, &choice);
    assert_false(choice.probed);
    leati_workers_put(workers, LEATI_WORK_COPIES);
    free(slot);
}

/* Runs in a child process, because leat reads LEAT_COPY_STORE_POLICY only once. */
static int choose(const char *word)
{
    static char slot[64 << 10];
    struct leati_staging_choice choice;
    struct leati_workers *workers = start_workers(1);
    leat_status status;

    setenv("LEAT_COPY_STORE_POLICY", word, 1);
    status = leati_staging_choose(workers, slot, sizeof slot, 2, &choice);
    leati_workers_put(workers, LEATI_WORK_COPIES);
    if (!strcmp(word, "fast")) {
        CHECK(status == LEAT_ERROR_INVALID);
        CHECK(strstr(leat_last_error(), "LEAT_COPY_STORE_POLICY is set to 'fast'"));
        return 0;
    }
    CHECK(status == LEAT_OK);
    if (!*word || !strcmp(word, "probe"))
        return choice.probed != (leati_stream_best() != LEATI_STREAM_PLAIN);
    CHECK(!choice.probed && choice.in == choice.out && !strcmp(leati_store_policy_name(choice.in), word));
    return 0;
}

static void the_option_decides(void **state)
{
    static const char *const words[] = {"cached", "streaming", "probe", "", "fast"};

    bool stopped;

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        assert_int_equal(run_child("choose", words[i], &stopped), 0);
}

/* ---- measurements ------------------------------------------------------------------------------------------- */

static double gbps_of(unsigned char *dst, unsigned char *src, size_t bytes, int variant, bool guarded)
{
    double best = 0;

    for (int round = 0; round < 7; round++) {
        uint64_t start_ns = leati_clock_ns();
        uintptr_t fault;
        double gbps;

        for (size_t at = 0; at < bytes; at += 256 * KIB) {
            if (guarded)
                leati_staging_copy_guarded(dst + at, src + at, 256 * KIB, (enum leati_store_policy)variant,
                                           &fault);
            else
                leati_stream_copy_by((enum leati_stream_isa)variant, dst + at, src + at, 256 * KIB);
        }
        gbps = (double)bytes / (double)(leati_clock_ns() - start_ns);
        best = gbps > best ? gbps : best;
    }
    return best;
}

static int measure(unsigned threads)
{
    size_t bytes = (size_t)256 << 20;
    unsigned char *dst = test_buffer(bytes), *src = test_buffer(bytes);
    struct leati_staging_choice choice;
    struct leati_workers *workers = start_workers(threads);
    uint64_t start_ns;
    uintptr_t fault;

    memset(src, 1, bytes);
    memset(dst, 2, bytes);
    printf("one thread, 256 MiB to 256 MiB in parts of 256 KiB, GB/s\n");
    for (int variant = LEATI_STREAM_PLAIN; variant <= (int)leati_stream_best(); variant++)
        printf("%-20s %6.2f\n", leati_stream_name((enum leati_stream_isa)variant),
               gbps_of(dst, src, bytes, variant, false));
    for (int stores = LEATI_STORE_POLICY_CACHED; stores <= LEATI_STORE_POLICY_STREAMING; stores++)
        printf("guarded %-12s %6.2f\n", leati_store_policy_name((enum leati_store_policy)stores),
               gbps_of(dst, src, bytes, stores, true));
    start_ns = leati_clock_ns();
    for (int i = 0; i < 1000000; i++)
        leati_staging_copy_guarded(dst, src, 8, LEATI_STORE_POLICY_CACHED, &fault);
    printf("guarding one copy    %6.1f ns\n", (double)(leati_clock_ns() - start_ns) / 1e6);
    start_ns = leati_clock_ns();
    for (int i = 0; i < 1000; i++)
        leati_staging_resident(dst, bytes);
    printf("looking for pages    %6.1f ns\n", (double)(leati_clock_ns() - start_ns) / 1e3);
    for (int prefault = 0; prefault < 2; prefault++) {
        free(dst);
        dst = test_buffer(bytes);
        start_ns = leati_clock_ns();
        for (size_t at = 0; at < bytes; at += 256 * KIB) {
            if (prefault)
                leati_staging_prefault(dst + at, 256 * KIB);
            leati_staging_copy(dst + at, src + at, 256 * KIB, LEATI_STORE_POLICY_STREAMING);
        }
        printf("new pages%-11s %6.2f\n", prefault ? ", prefault" : "",
               (double)bytes / (double)(leati_clock_ns() - start_ns));
    }
    for (int i = 0; i < 3; i++) {
        start_ns = leati_clock_ns();
        leati_staging_probe(workers, dst, 64 * 256 * KIB, threads, &choice);
        printf("probe %.1f ms: in %s (%.2f, %s %.2f), out %s (%.2f, %s %.2f)\n",
               (double)(leati_clock_ns() - start_ns) / 1e6, leati_store_policy_name(choice.in), choice.in_gbps[0],
               leati_staging_streaming_by(), choice.in_gbps[1], leati_store_policy_name(choice.out),
               choice.out_gbps[0], leati_staging_streaming_by(), choice.out_gbps[1]);
    }
    leati_workers_put(workers, LEATI_WORK_COPIES);
    free(dst);
    free(src);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_copies),
        cmocka_unit_test(stores_have_names),
        cmocka_unit_test(prefault_leaves_what_is_there),
        cmocka_unit_test(prefault_says_nothing),
        cmocka_unit_test(the_probe_measures),
        cmocka_unit_test(the_option_decides),
    };

    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    if (argc == 3 && !strcmp(argv[1], "choose"))
        return choose(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "measure"))
        return measure((unsigned)atoi(argv[2]));
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

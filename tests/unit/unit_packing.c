/*
 * unit_packing.c - tests the sequences of allocations of "leat bench pool --part packing": they are equal on every
 * machine, they free no block twice, and they reach the announced number of live bytes.
 */
#include "../../cli/packing_plan.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

static uint64_t hash_number(uint64_t hash, uint64_t number)
{
    for (int i = 0; i < 8; i++)
        hash = (hash ^ (number >> 8 * i & 255)) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t hash_plan(const struct packing_plan *plan)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (int i = 0; i < PACKING_SIZES; i++)
        hash = hash_number(hash_number(hash_number(hash, plan->sizes[i].bytes), plan->sizes[i].blocks),
                           plan->sizes[i].limit_bytes);
    for (int i = 0; i < PACKING_MIXES; i++)
        for (size_t step = 0; step < plan->mixes[i].step_count; step++)
            hash =
                hash_number(hash_number(hash, plan->mixes[i].steps[step].bytes), plan->mixes[i].steps[step].block);
    return hash;
}

/* Results of different versions can be compared only as long as these hashes stay the same. */
static void sequences_are_fixed(void **state)
{
    struct packing_plan *quick = packing_plan_make(0, true), *usual = packing_plan_make(0, false);

    (void)state;
    assert_int_equal(hash_plan(quick), UINT64_C(0xc69a4b01064c453e));
    assert_int_equal(hash_plan(usual), UINT64_C(0xa8eb8793c3f08eb3));
    packing_plan_destroy(quick);
    packing_plan_destroy(usual);
}

static void sizes_span_512_bytes_to_1_gib(void **state)
{
    struct packing_plan *plan = packing_plan_make(0, false);
    int multiples = 0;

    (void)state;
    assert_int_equal(plan->sizes[0].bytes, 512);
    assert_int_equal(plan->sizes[PACKING_SIZES - 1].bytes, 1 << 30);
    for (int i = 0; i < PACKING_SIZES; i++) {
        const struct packing_size *size = &plan->sizes[i];

        assert_true(i == 0 || size->bytes > size[-1].bytes);
        assert_true(i == 0 || size->bytes < size[-1].bytes + size[-1].bytes / 6);
        assert_true(size->blocks >= 4 && size->blocks * packing_round(size->bytes) >= 600000000);
        assert_true(size->blocks == 4 || (size->blocks - 1) * packing_round(size->bytes) < 600000000);
        assert_int_equal(size->limit_bytes, 1 << 30);
        multiples += size->bytes % PACKING_GRANULE_BYTES == 0;
    }
    assert_in_range(multiples, 50, 150);
    packing_plan_destroy(plan);
}

/* Plays a sequence. It must free each block at most once and after its allocation, and keep the live bytes near
 * their limit. */
static void play(const struct packing_mix *mix, unsigned turnover)
{
    uint64_t *live = calloc(mix->block_count, sizeof *live), live_bytes = 0, allocated_bytes = 0, largest = 0;
    uint64_t filled_bytes = 0;
    size_t blocks = 0;

    assert_non_null(live);
    assert_true(mix->fill_steps > 0 && mix->fill_steps < mix->step_count);
    for (size_t i = 0; i < mix->step_count; i++) {
        const struct packing_step *step = &mix->steps[i];

        if (i == mix->fill_steps)
            filled_bytes = live_bytes;
        if (step->bytes) {
            assert_int_equal(step->block, blocks);
            live[blocks] = packing_round(step->bytes);
            largest = live[blocks] > largest ? live[blocks] : largest;
            live_bytes += live[blocks];
            allocated_bytes += live[blocks++];
        } else {
            assert_true(i >= mix->fill_steps && step->block < blocks && live[step->block]);
            live_bytes -= live[step->block];
            live[step->block] = 0;
        }
        assert_true(live_bytes <= mix->live_bytes);
    }
    assert_int_equal(blocks, mix->block_count);
    assert_true(largest < mix->live_bytes / 4);
    assert_true(filled_bytes + largest > mix->live_bytes);
    assert_true(allocated_bytes >= filled_bytes + turnover * mix->live_bytes);
    free(live);
}

static void mixes_keep_their_live_bytes(void **state)
{
    struct packing_plan *quick = packing_plan_make(0, true), *small = packing_plan_make(1000000, true);
    struct packing_plan *usual = packing_plan_make(0, false);

    (void)state;
    for (int i = 0; i < PACKING_MIXES; i++) {
        play(&quick->mixes[i], 5);
        play(&small->mixes[i], 5);
        play(&usual->mixes[i], 20);
        assert_int_equal(usual->mixes[i].live_bytes, 2400000000);
    }
    assert_int_equal(packing_plan_most_bytes(usual), UINT64_C(4) << 30);
    packing_plan_destroy(quick);
    packing_plan_destroy(small);
    packing_plan_destroy(usual);
}

/* The plan in JSON, which other programs read, must be the same plan. */
static void json_is_the_plan(void **state)
{
    struct packing_plan *plan = packing_plan_make(1000000, true);
    json_t *json = packing_plan_json(plan), *sizes = json_object_get(json, "sizes");
    json_t *mixes = json_object_get(json, "mixes");

    (void)state;
    assert_string_equal(json_string_value(json_object_get(json, "format")), "leat-packing-1");
    assert_int_equal(json_array_size(sizes), PACKING_SIZES);
    assert_int_equal(json_array_size(mixes), PACKING_MIXES);
    for (size_t i = 0; i < PACKING_SIZES; i++) {
        json_t *size = json_array_get(sizes, i);

        assert_int_equal(json_integer_value(json_object_get(size, "bytes")), plan->sizes[i].bytes);
        assert_int_equal(json_integer_value(json_object_get(size, "blocks")), plan->sizes[i].blocks);
        assert_int_equal(json_integer_value(json_object_get(size, "limit_bytes")), plan->sizes[i].limit_bytes);
    }
    for (size_t i = 0; i < PACKING_MIXES; i++) {
        const struct packing_mix *mix = &plan->mixes[i];
        json_t *object = json_array_get(mixes, i), *steps = json_object_get(object, "steps");

        assert_string_equal(json_string_value(json_object_get(object, "name")), mix->name);
        assert_int_equal(json_integer_value(json_object_get(object, "fill_steps")), mix->fill_steps);
        assert_int_equal(json_integer_value(json_object_get(object, "live_bytes")), mix->live_bytes);
        assert_int_equal(json_array_size(steps), mix->step_count);
        for (size_t step = 0; step < mix->step_count; step++) {
            json_int_t number = json_integer_value(json_array_get(steps, step));

            if (mix->steps[step].bytes)
                assert_int_equal(number, mix->steps[step].bytes);
            else
                assert_int_equal(-number, mix->steps[step].block);
        }
    }
    json_decref(json);
    packing_plan_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences_are_fixed),
        cmocka_unit_test(sizes_span_512_bytes_to_1_gib),
        cmocka_unit_test(mixes_keep_their_live_bytes),
        cmocka_unit_test(json_is_the_plan),
    };

    return cmocka_run_group_tests_name("unit_packing", tests, NULL, NULL);
}

/*
 * test_hip_threads.c - tests several threads that change and use the library's table of reserved addresses at the
 * same time.
 */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <pthread.h>

static atomic_int over;

struct user {
    char *memory;
    size_t bytes;
    int result;
    long rounds;
};

/* Uses memory that stays mapped during the test. */
static void *use_memory(void *argument)
{
    struct user *user = argument;
    char word[64];

    while (!user->result && !atomic_load(&over)) {
        write_pattern(word, sizeof word, (unsigned)user->rounds);
        user->result = (int)hipMemcpy(user->memory, word, sizeof word, hipMemcpyHostToDevice);
        if (!user->result)
            user->result = (int)hipMemset(user->memory + 64, (int)user->rounds, user->bytes - 64);
        user->rounds++;
    }
    return NULL;
}

static hipMemAllocationProp properties = {
    .type = hipMemAllocationTypePinned,
    .location = {.type = hipMemLocationTypeDevice, .id = 0},
};
static const hipMemAccessDesc access_both = {
    .location = {.type = hipMemLocationTypeDevice, .id = 0},
    .flags = hipMemAccessFlagsProtReadWrite,
};

static void map_part(char *at, size_t bytes)
{
    hipMemGenericAllocationHandle_t memory;

    OK(hipMemCreate(&memory, bytes, &properties, 0));
    OK(hipMemMap(at, bytes, 0, memory, 0));
    OK(hipMemRelease(memory));
    OK(hipMemSetAccess(at, bytes, &access_both, 1));
}

/* One thread uses a part of a reservation. Meanwhile the test maps and unmaps other parts, and tries to free the
 * whole reservation, which must fail. */
static void reserved_addresses_stay_known(void **state)
{
    struct user user = {0};
    pthread_t thread;
    size_t unit;
    void *base;

    (void)state;
    OK(hipMemGetAllocationGranularity(&unit, &properties, hipMemAllocationGranularityMinimum));
    OK(hipMemAddressReserve(&base, 2 * unit, 0, NULL, 0));
    map_part(base, unit);
    user.memory = base;
    user.bytes = unit < 4096 ? unit : 4096;
    atomic_store(&over, 0);
    assert_int_equal(pthread_create(&thread, NULL, use_memory, &user), 0);
    for (int i = 0; i < 20000; i++) {
        GIVES(hipErrorInvalidValue, hipMemAddressFree(base, 2 * unit));
        if (i % 500)
            continue;
        map_part((char *)base + unit, unit);
        OK(hipMemUnmap((char *)base + unit, unit));
    }
    atomic_store(&over, 1);
    pthread_join(thread, NULL);
    OK(user.result);
    OK(hipMemUnmap(base, unit));
    OK(hipMemAddressFree(base, 2 * unit));
    GIVES(hipErrorInvalidValue, hipMemAddressFree(base, 2 * unit));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reserved_addresses_stay_known),
};

int main(void)
{
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    return failed || hipDeviceReset() != hipSuccess ? 1 : 0;
}

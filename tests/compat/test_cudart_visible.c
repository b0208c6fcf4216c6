/* test_cudart_visible.c - tests CUDA_VISIBLE_DEVICES on CPU devices. */
#include <cuda_runtime.h>

#include "visible.h"

/* Prints the result of cudaGetDeviceCount() and the number of each visible device, taken from its PCI bus ID. */
static int look(void)
{
    int count = 0, bus, number = -1;

    printf("%d", (int)cudaGetDeviceCount(&count));
    for (int i = 0; i < count; i++) {
        if (cudaDeviceGetAttribute(&bus, cudaDevAttrPciBusId, i) == cudaSuccess)
            number = bus - 1;
        printf(" %d", number);
    }
    printf("\n");
    return 0;
}

static void a_list_says_which_and_in_which_order(void **state)
{
    (void)state;
    SEES("0 0 1 2 3", "");
    SEES("0 2 1", "CUDA_VISIBLE_DEVICES=2,1");
    SEES("0 3", "CUDA_VISIBLE_DEVICES=3");
    SEES("0 1 3", "CUDA_VISIBLE_DEVICES=' 1 , 3 '");
    SEES("0 1 0", "CUDA_VISIBLE_DEVICES=1,1,0");
}

static void an_entry_that_is_no_device_ends_the_list(void **state)
{
    (void)state;
    SEES("0 0 2", "CUDA_VISIBLE_DEVICES=0,2,-1,1");
    SEES("0 1", "CUDA_VISIBLE_DEVICES=1,4,2");
    SEES("0 1", "CUDA_VISIBLE_DEVICES=1,,2");
    SEES("0 1", "CUDA_VISIBLE_DEVICES=1,2x,2");
    SEES("0 0", "CUDA_VISIBLE_DEVICES=0,99999999999999999999,1");
    SEES("100", "CUDA_VISIBLE_DEVICES=");
    SEES("100", "CUDA_VISIBLE_DEVICES=-1");
    SEES("100", "CUDA_VISIBLE_DEVICES=none");
}

/* The CPU devices are called cpu:0 and so on; their UUIDs contain these names as bytes. */
static void a_UUID_names_a_device_by_its_start(void **state)
{
    (void)state;
    SEES("0 2", "CUDA_VISIBLE_DEVICES=GPU-6370753a-3200-0000-0000-000000000000");
    SEES("0 3 1", "CUDA_VISIBLE_DEVICES=GPU-6370753a-33,gpu-6370753A-31");
    SEES("0 1 0", "CUDA_VISIBLE_DEVICES=GPU-6370753a-31,0");
    SEES("100", "CUDA_VISIBLE_DEVICES=GPU-6370"); /* ambiguous, because it matches all devices */
    SEES("0 0", "CUDA_VISIBLE_DEVICES=0,GPU-77,1");
    SEES("0 0", "CUDA_VISIBLE_DEVICES=0,GPU-6370753a-3100-0000-0000-000000000000-and-more,1");
}

/* The process does not use HIP, so HIP's variables have no effect. */
static void the_variables_of_HIP_change_nothing(void **state)
{
    (void)state;
    SEES("0 0 1 2 3", "HIP_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=2");
    SEES("0 3", "HIP_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=2 CUDA_VISIBLE_DEVICES=3");
}

/* Runs in a copy of the program that sees only cpu:2 and cpu:3. Locations must use the visible ordinals 0 and
 * 1. */
static int place(void)
{
    struct cudaMemLocation first = {cudaMemLocationTypeDevice, 0};
    int preferred = -9, sent = -9, users[2] = {-9, -9};
    unsigned char *managed, *there, back = 0;
    size_t bytes = 1 << 16;

    if (cudaMallocManaged((void **)&managed, bytes, cudaMemAttachGlobal) ||
        cudaMemAdvise(managed, bytes, cudaMemAdviseSetPreferredLocation, first) ||
        cudaMemAdvise(managed, bytes, cudaMemAdviseSetAccessedBy, (struct cudaMemLocation){.type = 1, .id = 1}) ||
        cudaMemPrefetchAsync(managed, bytes, first, 0, 0) ||
        cudaMemRangeGetAttribute(&preferred, sizeof preferred, cudaMemRangeAttributePreferredLocation, managed,
                                 bytes) ||
        cudaMemRangeGetAttribute(&sent, sizeof sent, cudaMemRangeAttributeLastPrefetchLocation, managed, bytes) ||
        cudaMemRangeGetAttribute(users, sizeof users, cudaMemRangeAttributeAccessedBy, managed, bytes) ||
        cudaSetDevice(1) || cudaMalloc((void **)&there, bytes) || cudaMemset(there, 7, bytes) ||
        cudaMemcpy(&back, there + bytes - 1, 1, cudaMemcpyDeviceToHost) ||
        cudaSetDevice(2) != cudaErrorInvalidDevice)
        return 1;
    printf("%d %d %d %d %d\n", preferred, sent, users[0], users[1], back);
    return cudaDeviceReset() || cudaSetDevice(0) || cudaDeviceReset();
}

static void places_are_told_by_visible_ordinals(void **state)
{
    (void)state;
    SEES("0 0 1 -2 7", "PLACE=1 CUDA_VISIBLE_DEVICES=2,3");
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_says_which_and_in_which_order),
        cmocka_unit_test(an_entry_that_is_no_device_ends_the_list),
        cmocka_unit_test(a_UUID_names_a_device_by_its_start),
        cmocka_unit_test(the_variables_of_HIP_change_nothing),
        cmocka_unit_test(places_are_told_by_visible_ordinals),
    };

    if (count > 1 && !strcmp(arguments[1], "look"))
        return getenv("PLACE") ? place() : look();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

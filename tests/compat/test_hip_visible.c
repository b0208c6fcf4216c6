/* test_hip_visible.c - tests ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES in HIP programs,
 * on CPU devices. */
#include <hip/hip_runtime.h>

#include "visible.h"

/* Prints the result of hipGetDeviceCount() and the number of each visible device, taken from its PCI bus ID. */
static int look(void)
{
    int count = 0, bus, number = -1;

    printf("%d", (int)hipGetDeviceCount(&count));
    for (int i = 0; i < count; i++) {
        if (hipDeviceGetAttribute(&bus, hipDeviceAttributePciBusId, i) == hipSuccess)
            number = bus - 1;
        printf(" %d", number);
    }
    printf("\n");
    return 0;
}

static void either_name_holds_and_HIPs_is_first(void **state)
{
    (void)state;
    SEES("0 0 1 2 3", "");
    SEES("0 2 0", "HIP_VISIBLE_DEVICES=2,0");
    SEES("0 3 1", "CUDA_VISIBLE_DEVICES=3,1");
    SEES("0 2", "HIP_VISIBLE_DEVICES=2 CUDA_VISIBLE_DEVICES=3,1");
    SEES("0 1 3", "HIP_VISIBLE_DEVICES=1,3,-1,0");
    SEES("100", "HIP_VISIBLE_DEVICES=-1");
    SEES("0 1 0", "HIP_VISIBLE_DEVICES=1,1,0");
}

static void ROCRs_filters_below(void **state)
{
    (void)state;
    SEES("0 3 1", "ROCR_VISIBLE_DEVICES=3,1");
    SEES("0 1 3", "ROCR_VISIBLE_DEVICES=3,1 HIP_VISIBLE_DEVICES=1,0");
    SEES("0 1", "ROCR_VISIBLE_DEVICES=3,1 CUDA_VISIBLE_DEVICES=1,2,0"); /* the list of ROCR_VISIBLE_DEVICES leaves
                                                                         * two devices */
    SEES("100", "ROCR_VISIBLE_DEVICES=7 HIP_VISIBLE_DEVICES=0");
}

static void empty_lists_are_as_AMD_has_them(void **state)
{
    (void)state;
    SEES("0 0 1 2 3", "HIP_VISIBLE_DEVICES=");
    SEES("0 2", "HIP_VISIBLE_DEVICES= CUDA_VISIBLE_DEVICES=2");
    SEES("100", "ROCR_VISIBLE_DEVICES=");
}

/* HIP prints a UUID as text. */
static void a_UUID_names_a_device(void **state)
{
    (void)state;
    SEES("0 2 0", "ROCR_VISIBLE_DEVICES=GPU-cpu:2,0");
    SEES("0 1", "HIP_VISIBLE_DEVICES=gpu-CPU:1");
    SEES("100", "HIP_VISIBLE_DEVICES=GPU-cpu:"); /* ambiguous, because it matches all devices */
}

int main(int count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(either_name_holds_and_HIPs_is_first),
        cmocka_unit_test(ROCRs_filters_below),
        cmocka_unit_test(empty_lists_are_as_AMD_has_them),
        cmocka_unit_test(a_UUID_names_a_device),
    };

    if (count > 1 && !strcmp(arguments[1], "look"))
        return look();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

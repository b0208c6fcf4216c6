/*
 * test_hip_symbols.c - tests which addresses are symbols, and their sizes. It also tests a program without
 * .symtab: it makes a stripped copy of itself and runs one test in that copy.
 */
#include <hip/hip_runtime.h>

#include "compat.h"

#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

int global_symbol[8] = {1};
static int static_symbol[4] = {1};
static const int constant_symbol[2] = {5, 6};
static char zeros[100]; /* a variable in .bss */

/* Runs a program and returns its exit status, or 127 if it cannot be run. */
static int run(char *const *arguments)
{
    pid_t child = fork();
    int status;

    if (!child) {
        execvp(arguments[0], arguments);
        _exit(127);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_copy_is_bounded_by_its_symbol(void **state)
{
    int in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {0};
    size_t bytes = 0;

    (void)state;
    OK(hipMemcpyToSymbol(global_symbol, in, sizeof in, 0, hipMemcpyHostToDevice));
    OK(hipMemcpyFromSymbol(out, global_symbol, 4, 28, hipMemcpyDeviceToHost));
    assert_int_equal(out[0], 8);
    GIVES(hipErrorInvalidValue, hipMemcpyToSymbol(global_symbol, in, 33, 0, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidValue, hipMemcpyToSymbol(global_symbol, in, 4, 29, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidValue, hipMemcpyToSymbol(global_symbol, in, 4, SIZE_MAX - 1, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidValue, hipMemcpyFromSymbol(out, static_symbol, 17, 0, hipMemcpyDeviceToHost));
    GIVES(hipErrorInvalidValue,
          hipMemcpyToSymbolAsync(static_symbol, in, 16, 4, hipMemcpyHostToDevice, hipStreamPerThread));
    GIVES(hipErrorInvalidValue, hipMemcpyFromSymbolAsync(out, zeros, 101, 0, hipMemcpyDeviceToHost, NULL));
    GIVES(hipErrorInvalidValue, hipMemcpyFromSymbol_spt(out, constant_symbol, 9, 0, hipMemcpyDeviceToHost));
    OK(hipMemcpyToSymbolAsync(static_symbol, in, 16, 0, hipMemcpyHostToDevice, NULL));
    OK(hipMemcpyFromSymbolAsync(out, static_symbol, 16, 0, hipMemcpyDeviceToHost, NULL));
    OK(hipStreamSynchronize(NULL));
    assert_memory_equal(in, out, 16);
    OK(hipMemcpyFromSymbol(out, constant_symbol, 8, 0, hipMemcpyDeviceToHost));
    assert_int_equal(out[1], 6);
    OK(hipGetSymbolSize(&bytes, global_symbol));
    assert_int_equal(bytes, sizeof global_symbol);
    OK(hipGetSymbolSize(&bytes, zeros));
    assert_int_equal(bytes, sizeof zeros);
}

/* Pointers that are not symbols: NULL, and addresses of the stack, the heap, device memory, code, and the middle
 * of a variable. */
static void what_is_no_symbol_is_an_invalid_symbol(void **state)
{
    int here = 0, *heap = malloc(64);
    void *device, *found = NULL;
    size_t bytes = 7;

    (void)state;
    OK(hipMalloc(&device, 64));
    const void *others[] = {NULL, &here, heap, device, static_symbol + 1, (void *)16, (void *)(uintptr_t)run};

    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        GIVES(hipErrorInvalidSymbol, hipMemcpyToSymbol(others[i], &here, 4, 0, hipMemcpyHostToDevice));
        GIVES(hipErrorInvalidSymbol, hipMemcpyFromSymbol(&here, others[i], 4, 0, hipMemcpyDeviceToHost));
        GIVES(hipErrorInvalidSymbol, hipGetSymbolAddress(&found, others[i]));
        GIVES(hipErrorInvalidSymbol, hipGetSymbolSize(&bytes, others[i]));
    }
    assert_null(found);
    assert_int_equal(bytes, 7);
    OK(hipGetSymbolAddress(&found, static_symbol));
    assert_ptr_equal(found, static_symbol);
    OK(hipFree(device));
    free(heap);
}

/* Runs in the stripped copy. */
static void a_stripped_program_copies_within_its_segment(void **state)
{
    int here = 0, in[4] = {4, 3, 2, 1}, out[4];
    size_t bytes;

    (void)state;
    OK(hipMemcpyToSymbol(static_symbol, in, sizeof in, 0, hipMemcpyHostToDevice));
    OK(hipMemcpyFromSymbol(out, static_symbol, sizeof out, 0, hipMemcpyDeviceToHost));
    assert_memory_equal(in, out, sizeof in);
    GIVES(hipErrorInvalidSymbol, hipGetSymbolSize(&bytes, static_symbol));
    GIVES(hipErrorInvalidValue, hipMemcpyToSymbol(static_symbol, in, 16, (size_t)1 << 40, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidSymbol, hipMemcpyToSymbol(&here, in, 4, 0, hipMemcpyHostToDevice));
    GIVES(hipErrorInvalidSymbol,
          hipMemcpyFromSymbol(out, (void *)(uintptr_t)run, 4, 0, hipMemcpyDeviceToHost)); /* not a variable */
}

static void a_stripped_program_has_symbols(void **state)
{
    char own[PATH_MAX] = "", copy[PATH_MAX + 16];
    char *strip[] = {"strip", "-o", copy, own, NULL}, *again[] = {copy, "stripped", NULL};
    int result;

    (void)state;
    assert_true(readlink("/proc/self/exe", own, sizeof own - 1) > 0);
    snprintf(copy, sizeof copy, "%s.stripped", own); /* the copy is in the same folder, so that it finds its
                                                      * libraries */
    if (run(strip) == 127) {
        print_message("skipped: there is no strip here\n");
        skip();
    }
    result = run(again);
    unlink(copy);
    assert_int_equal(result, 0);
}

static int end(int wrong)
{
    for (int i = 0; i < 2; i++) /* free everything, so that leak checkers find nothing */
        wrong += hipSetDevice(i) || hipDeviceReset();
    return wrong;
}

int main(int count, char **arguments)
{
    const struct CMUnitTest stripped[] = {cmocka_unit_test(a_stripped_program_copies_within_its_segment)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stripped_program_has_symbols), /* this test forks, so it must run before a device is
                                                           * used */
        cmocka_unit_test(a_copy_is_bounded_by_its_symbol),
        cmocka_unit_test(what_is_no_symbol_is_an_invalid_symbol),
    };

    if (count > 1 && !strcmp(arguments[1], "stripped"))
        return end(cmocka_run_group_tests(stripped, NULL, NULL));
    return end(cmocka_run_group_tests(tests, NULL, NULL));
}

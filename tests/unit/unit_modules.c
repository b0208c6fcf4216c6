/*
 * unit_modules.c - tests the modules of leat's built-in kernels: each module contains the kernels that are listed
 * for it, and leat loads it when its first kernel is needed, and not before.
 */
#include "harness.h"

#include "driver/fault/fault.h"
#include "driver/registry.h"
#include "kernels/builtin.h"

#include <leat/copy.h>
#include <leat/layout.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct listed {
    enum leati_builtin module;
    const char *name;
} listed[] = {
#define LISTED(module, name) {LEATI_BUILTIN_##module, #name},
    LEATI_LAYOUT_KERNEL_LIST(LISTED) LEATI_CONVERT_KERNEL_LIST(LISTED)
#undef LISTED
};
#define LISTED_COUNT (sizeof listed / sizeof listed[0])

/* Number of modules with kernels for layouts and conversions that leat_module_layout() loads. */
#define AHEAD (LEATI_BUILTIN_CONVERT - LEATI_BUILTIN_ELEMENTS + 1)

/* ---- contents of modules ---- */

static unsigned count_words(const struct leati_image *image, const char *word)
{
    const char *at = image->begin;
    unsigned count = 0;

    while ((at = memmem(at, (size_t)(image->end - at), word, strlen(word)))) {
        at += strlen(word);
        count++;
    }
    return count;
}

/* Checks the modules' contents. In PTX a kernel's name follows .entry; in a code object the name of its descriptor
 * ends with .kd. */
static void each_module_has_its_kernels(void **state)
{
    (void)state;
    for (unsigned which = LEATI_BUILTIN_ELEMENTS; which < LEATI_BUILTIN_COUNT; which++) {
        unsigned expected = 0;

        assert_int_equal(leati_ptx[which].end[-1], '\0');
        for (size_t i = 0; i < LISTED_COUNT; i++) {
            bool here = listed[i].module == which;
            char entry[80], descriptor[80];

            expected += here;
            snprintf(entry, sizeof entry, ".entry %s(", listed[i].name);
            snprintf(descriptor, sizeof descriptor, "%s.kd", listed[i].name);
            assert_int_equal(count_words(&leati_ptx[which], entry), here);
            for (size_t gpu = 0; gpu < leati_code_object_count; gpu++)
                assert_int_equal(count_words(&leati_code_objects[gpu].image[which], descriptor) > 0, here);
        }
        assert_true(expected > 0);
        assert_int_equal(count_words(&leati_ptx[which], ".entry "), expected);
    }
}

/* The headers of a fatbin, and of each image in it. */
struct fatbin_header {
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t content_bytes;
};

struct fatbin_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t padded_bytes;
    uint32_t compressed_bytes, unknown;
    uint16_t minor, major;
    uint32_t architecture;
    uint32_t name_offset, name_bytes;
    uint64_t flags, zero;
    uint64_t image_bytes; /* size when decompressed */
};

enum { FATBIN_MAGIC = 0xba55ed50, FATBIN_CUBIN = 2, FATBIN_BYTES_MIN = 1000 };

/* Checks that each fatbin has one cubin for each architecture, in the order of the list, and nothing else.
 * tools/build-kernels.sh checks that these cubins are made from the module's PTX. */
static void each_module_has_machine_code(void **state)
{
    static const unsigned architectures[] = {LEATI_MACHINE_CODE_LIST};
    const size_t count = sizeof architectures / sizeof architectures[0];

    (void)state;
    for (unsigned which = 0; which < LEATI_BUILTIN_COUNT; which++) {
        const char *at = leati_fatbins[which].begin, *end = leati_fatbins[which].end;
        struct fatbin_header header;
        struct fatbin_entry entry;

        assert_int_equal((uintptr_t)at % 8, 0);
        assert_true((size_t)(end - at) > sizeof header);
        memcpy(&header, at, sizeof header);
        assert_int_equal(header.magic, FATBIN_MAGIC);
        assert_int_equal(header.header_bytes + header.content_bytes, end - at);
        at += header.header_bytes;
        for (size_t i = 0; i < count; i++) {
            assert_true((size_t)(end - at) > sizeof entry);
            memcpy(&entry, at, sizeof entry);
            assert_int_equal(entry.kind, FATBIN_CUBIN);
            assert_int_equal(entry.architecture, architectures[i]);
            assert_true(entry.header_bytes >= sizeof entry);
            assert_true(entry.compressed_bytes <= entry.padded_bytes);
            assert_true(entry.image_bytes > FATBIN_BYTES_MIN && entry.image_bytes > entry.compressed_bytes);
            assert_true(entry.padded_bytes <= (size_t)(end - at) - entry.header_bytes);
            at += entry.header_bytes + entry.padded_bytes;
        }
        assert_ptr_equal(at, end);
    }
}

/* ---- when modules are loaded ---- */

static struct leati_driver *wrapper(void)
{
    struct leati_driver *driver;

    for (unsigned i = 0; (driver = leati_registry_driver(i, NULL, NULL)); i++)
        if (!strcmp(driver->name, "cpu"))
            return driver;
    fail_msg("no cpu driver");
    return NULL;
}

/* Returns the number of modules loaded since the last call. */
static unsigned loaded(void)
{
    static uint64_t before;
    struct leati_fault_visit visit;
    unsigned since = 0;

    for (unsigned i = 0; leati_fault_visited(wrapper(), i, &visit); i++)
        if (!strcmp(visit.entry, "module_builtin")) {
            since = (unsigned)(visit.calls - before);
            before = visit.calls;
        }
    return since;
}

/* Transposes a square matrix from one half of memory to the other. leat has a module for each element size. */
static leat_status transpose(struct test_state *t, char *memory, int64_t side, uint32_t element_bytes)
{
    leat_layout dense, turned;

    OK(leat_layout_dense(&dense, 2, (int64_t[]){side, side}, element_bytes));
    turned = dense;
    OK(leat_layout_transpose(&turned, 0, 1));
    return leat_copy_layout(t->stream, memory, &dense, memory + side * side * element_bytes, &turned);
}

enum { SMALL = 64, LARGE = 1024, MEMORY_BYTES = 2 * LARGE * LARGE * 4 };

static void a_copy_loads_what_it_needs(void **state)
{
    static const leat_copy_region region = {16, 100, 1, 32, 16, 0, 0};
    struct test_state *t = *state;
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MEMORY_BYTES);
    leat_module *module;
    leat_kernel *kernel;

    (void)loaded();
    OK(transpose(t, memory, SMALL, 4));
    assert_int_equal(loaded(), 1);
    OK(transpose(t, memory, SMALL, 4));
    assert_int_equal(loaded(), 0);
    OK(transpose(t, memory, SMALL, 2));
    assert_int_equal(loaded(), 1);
    OK(transpose(t, memory, LARGE, 4));
    assert_int_equal(loaded(), 1);
    OK(leat_copy_3d(t->stream, memory, memory + MEMORY_BYTES / 2, &region));
    assert_int_equal(loaded(), 1);
    OK(leat_copy_3d(t->stream, memory, memory + MEMORY_BYTES / 2, &region));
    assert_int_equal(loaded(), 0);

    /* leat_module_layout() must load all modules that are not loaded yet, except the module of the example
     * transposes, which no copy uses. */
    OK(leat_module_layout(t->device, &module));
    assert_int_equal(loaded(), AHEAD - 4);
    OK(leat_kernel_get(module, "leat_layout_transpose_wide_odd_16", &kernel));
    OK(leat_kernel_get(module, "leat_layout_elements", &kernel));
    assert_int_equal(loaded(), 0);
    OK(leat_kernel_get(module, "leat_transpose_naive_u32", &kernel));
    assert_int_equal(loaded(), 1);
    OK(leat_kernel_get(module, "leat_transpose_shared_u32", &kernel));
    assert_int_equal(loaded(), 0);
    REFUSED(leat_kernel_get(module, "leat_fill_u64", &kernel), LEAT_ERROR_NOT_FOUND, "leat_fill_u64");
    OK(leat_module_builtin(t->device, &module));
    REFUSED(leat_kernel_get(module, "leat_layout_rows_4", &kernel), LEAT_ERROR_NOT_FOUND, "leat_layout_rows_4");
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
}

/* A failed load must be reported and must leak nothing, and the next copy must try it again. */
static void a_load_that_fails_is_tried_again(void **state)
{
    static const char *const entries[] = {"module_builtin", "kernel_get"};
    struct test_state *t = *state;
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, MEMORY_BYTES);
    uint64_t live = leati_fault_live(wrapper());
    leat_module *module;

    for (unsigned i = 0; i < 2; i++) {
        leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, entries[i], 1);
        REFUSED(transpose(t, memory, SMALL, 8), LEAT_ERROR_DRIVER, entries[i]);
        assert_int_equal(leati_fault_live(wrapper()), live);
    }
    (void)loaded();
    OK(transpose(t, memory, SMALL, 8));
    assert_int_equal(loaded(), 1);

    /* If the third load fails, the modules that were loaded before must stay loaded. */
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "module_builtin", 3);
    REFUSED(leat_module_layout(t->device, &module), LEAT_ERROR_DRIVER, "module_builtin");
    assert_int_equal(leati_fault_live(wrapper()), live + 3);
    (void)loaded();
    OK(leat_module_layout(t->device, &module));
    assert_int_equal(loaded(), AHEAD - 3);
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    OK(leat_stream_synchronize(t->stream));
    OK(leat_memory_free(memory));
}

/* If leat cannot load the module, a 3-D copy must use another protocol, and the message of an earlier failure must
 * stay. */
static void a_3d_copy_goes_another_way(void **state)
{
    static const leat_copy_region region = {16, 100, 1, 32, 16, 0, 0};
    struct test_state *t = *state;
    char *memory = test_alloc(t->device, LEAT_KIND_DEVICE, 100 * 48), out[100 * 32], in[100 * 16];

    test_pattern(in, sizeof in, 3);
    OK(leat_copy_sync(t->stream, memory + sizeof out, in, sizeof in));
    REFUSED(leat_module_load(t->device, "?", 0, &(leat_module *){NULL}), LEAT_ERROR_INVALID, "0 bytes");
    leati_fault_arm(wrapper(), LEATI_FAULT_FAIL, "module_builtin", 1);
    OK(leat_copy_3d(t->stream, memory, memory + sizeof out, &region));
    assert_true(leati_fault_fired(wrapper()));
    assert_non_null(strstr(leat_last_error(), "0 bytes"));
    leati_fault_arm(wrapper(), LEATI_FAULT_NONE, NULL, 0);
    OK(leat_copy_sync(t->stream, out, memory, sizeof out));
    for (unsigned y = 0; y < region.height; y++)
        assert_memory_equal(out + y * 32, in + y * 16, 16);
    OK(leat_memory_free(memory));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_module_has_its_kernels), cmocka_unit_test(each_module_has_machine_code),
        STATE_TEST(a_copy_loads_what_it_needs),        STATE_TEST(a_load_that_fails_is_tried_again),
        STATE_TEST(a_3d_copy_goes_another_way),
    };

    setenv("LEAT_FAULT", "none", 1);
    setenv("LEAT_LAYOUT_AS_GPU", "1", 1);
    setenv("LEAT_COPY_PROTOCOL", "kernel", 1);
    setenv("LEAT_TEST_DEVICE", "cpu:0", 1);
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

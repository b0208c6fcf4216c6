/* file_room.h - helpers for the tests of copies between files and memory: files in the tests' folder, and memory
 * of every kind. */
#ifndef FILE_ROOM_H
#define FILE_ROOM_H

#include "harness.h"
#include "test_folder.h"

#include <stdio.h>
#include <stdlib.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Creates a file of this name in the tests' folder and fills it with the pattern of seed. Returns the path, which
 * is a result of path_of(). */
static inline const char *make_file(const char *name, size_t bytes, uint64_t seed)
{
    const char *path = path_of(name);
    unsigned char *data = test_buffer(bytes ? bytes : 1);
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    test_pattern(data, bytes, seed);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
    free(data);
    return path;
}

/* Returns the content of the file. Fails if the file does not have this size. The caller frees the content. */
static inline unsigned char *file_content(const char *path, size_t bytes)
{
    unsigned char *data = test_buffer(bytes + 1);
    FILE *file = fopen(path, "rb");

    assert_non_null(file);
    assert_int_equal(fread(data, 1, bytes + 1, file), bytes);
    assert_int_equal(fclose(file), 0);
    return data;
}

/* Opens a file, which must succeed. Without leat's handlers of faults leat would not store to mappings of files.
 */
static inline leat_file *open_file(const char *path, unsigned flags)
{
    leat_file *file = NULL;

    test_let_leat_catch_faults();
    OK(leat_file_open(path, flags, &file));
    assert_non_null(file);
    return file;
}

/* The kinds of memory that files are read into and written from. PAGEABLE stands for memory from malloc(). */
static const leat_kind kinds[] = {LEAT_KIND_DEVICE, LEAT_KIND_PINNED, LEAT_KIND_PAGEABLE};
#define KINDS (sizeof kinds / sizeof kinds[0])

static inline unsigned char *make_memory(struct test_state *t, leat_kind kind, size_t bytes)
{
    return kind == LEAT_KIND_PAGEABLE ? test_buffer(bytes) : test_alloc(t->device, kind, bytes);
}

static inline void end_memory(leat_kind kind, void *memory)
{
    if (kind == LEAT_KIND_PAGEABLE)
        free(memory);
    else
        OK(leat_memory_free(memory));
}

/* Defines a main() that runs an array of tests in a folder. Its exit status is 77 if the device under test does
 * not exist. */
#define FILE_TEST_MAIN(tests)                                                                                     \
    int main(void)                                                                                                \
    {                                                                                                             \
        if (!test_device_there())                                                                                 \
            return 77;                                                                                            \
        test_keep_handlers();                                                                                     \
        return cmocka_run_group_tests(tests, make_folder, remove_folder) ? 1 : 0;                                 \
    }

#endif

/*
 * test_folder.h - creates a temporary folder before the first test of a program, and removes it with its content
 * after the last test.
 *
 * Pass make_folder and remove_folder to cmocka_run_group_tests().
 */
#ifndef TEST_FOLDER_H
#define TEST_FOLDER_H

#include "temporary.h"

static char folder[TEMPORARY_PATH];

/* Returns a path in the folder. It stays valid until the eighth call after this one. */
static inline const char *path_of(const char *name)
{
    static char paths[8][TEMPORARY_PATH + 128];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static inline int make_folder(void **state)
{
    (void)state;
    if (temporary_folder(folder))
        return 0;
    perror("temporary_folder");
    return -1;
}

static inline int remove_folder(void **state)
{
    (void)state;
    if (temporary_folder_remove(folder))
        return 0;
    perror(folder);
    return -1;
}

#endif

/*
 * temporary.h - creates temporary files and folders of tests in the folder that TMPDIR names, or in /tmp.
 */
#ifndef TEMPORARY_H
#define TEMPORARY_H

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMPORARY_PATH 256 /* bytes of a path, with the final zero */

/* Returns the folder for temporary files. */
static inline const char *temporary_root(void)
{
    const char *root = getenv("TMPDIR");

    return root && *root ? root : "/tmp";
}

/* Writes the template of a temporary path to path. Returns false and sets errno if it would be too long. */
static inline bool temporary_template(char path[TEMPORARY_PATH])
{
    int length = snprintf(path, TEMPORARY_PATH, "%s/leat-test-XXXXXX", temporary_root());

    if (length < TEMPORARY_PATH)
        return true;
    errno = ENAMETOOLONG;
    return false;
}

/* Creates an empty file and writes its path to path. Returns a descriptor, or -1 and sets errno. */
static inline int temporary_file(char path[TEMPORARY_PATH])
{
    return temporary_template(path) ? mkstemp(path) : -1;
}

/* Creates an empty folder and writes its path to path. Returns false and sets errno if that failed. */
static inline bool temporary_folder(char path[TEMPORARY_PATH])
{
    return temporary_template(path) && mkdtemp(path);
}

static inline int temporary_remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

/* Removes a folder and everything in it. Returns false and sets errno if something stays. */
static inline bool temporary_folder_remove(const char *path)
{
    return !nftw(path, temporary_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif

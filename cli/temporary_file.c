/* temporary_file.c - see temporary_file.h. */
#include "temporary_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char *cli_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");

    return folder && folder[0] ? folder : "/tmp";
}

int cli_temporary_file(void)
{
    char path[4096];
    int file;

    snprintf(path, sizeof path, "%s/leat-XXXXXX", cli_temporary_folder());
    file = mkostemp(path, O_CLOEXEC);
    if (file >= 0)
        unlink(path);
    return file;
}

/*
 * temporary_file.h - finds the folder for temporary files, and creates files without a name in it.
 */
#ifndef TEMPORARY_FILE_H
#define TEMPORARY_FILE_H

/* Returns the folder that TMPDIR names, or /tmp. */
const char *cli_temporary_folder(void);

/* Creates an empty file without a name in that folder. The system deletes it when its last descriptor or mapping
 * is closed. Returns a descriptor, or -1 with errno set. */
int cli_temporary_file(void);

#endif

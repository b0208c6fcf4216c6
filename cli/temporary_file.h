/*
 * temporary_file.h - the folder for temporary files, and files in it without a name.
 */
#ifndef TEMPORARY_FILE_H
#define TEMPORARY_FILE_H

/* The folder that TMPDIR names, or /tmp. */
const char *cli_temporary_folder(void);

/* Creates an empty file there, which has no name and ends with its last descriptor or mapping. Returns a
 * descriptor, or -1 and sets errno. */
int cli_temporary_file(void);

#endif

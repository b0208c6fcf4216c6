/* record_file.h - opens and writes the files of recordings (record.h, trace/trace.h), which belong to one process.
 */
#ifndef LEATI_RECORD_FILE_H
#define LEATI_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Writes the file's name to path, and replaces "%p" in pattern by the process ID. Returns false if it is too long.
 */
bool leati_record_file_name(char *path, size_t path_bytes, const char *pattern);

/* Opens and truncates the file, and locks it, so that no other recording overwrites it. Returns the descriptor;
 * -1, with *why set, if that fails. */
int leati_record_file_open(const char *path, bool *is_regular, const char **why);

/* Appends to the file, in which written_bytes are already. Returns how many bytes were written; if that is less
 * than bytes, sets *error to an error number. */
size_t leati_record_file_write(int fd, bool is_regular, off_t written_bytes, const void *data, size_t bytes,
                               int *error);

#endif

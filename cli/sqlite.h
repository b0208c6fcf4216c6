/*
 * sqlite.h - reads the tables of an SQLite file by libsqlite3, which is loaded when the first file is opened, so
 * that the command does not need it for anything else.
 *
 * The file may be hostile. It is opened as immutable, so that SQLite reads no other file; only real tables are
 * read, no views and no virtual tables; and a table that has more rows than the file can hold is an error.
 */
#ifndef CLI_SQLITE_H
#define CLI_SQLITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SQLITE_ERROR_MAX = 320, SQLITE_COLUMNS_MAX = 12 };

struct sqlite_file;

/* A column to read. */
struct sqlite_column {
    const char *name;
    bool required; /* it is an error if the table does not have it; else it reads as NULL */
};

/* The values of a row. */
struct sqlite_value {
    bool is_integer; /* number is set */
    int64_t number;
    const char *text; /* NULL: the value is no text; valid until the next row */
};

/* Called for each row. Returns false to stop. */
typedef bool sqlite_row(void *context, const struct sqlite_value *values);

/* Opens a file. Returns NULL with error set if that fails, or there is no libsqlite3. */
struct sqlite_file *sqlite_open(const char *path, char error[SQLITE_ERROR_MAX]);
void sqlite_close(struct sqlite_file *file);

/* Returns true if the file has this table. */
bool sqlite_has_table(struct sqlite_file *file, const char *table);

/* Reads a table in the order of the file; a table that is not there has no rows. Returns false with error set if
 * something is wrong with it, and false with an empty error if row() has returned false. */
bool sqlite_read(struct sqlite_file *file, const char *table, const struct sqlite_column *columns, size_t count,
                 sqlite_row *row, void *context, char error[SQLITE_ERROR_MAX]);

#endif

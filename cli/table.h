/*
 * table.h - prints tables: with libsmartcols, to fit the terminal, or as Markdown.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table;

struct table_column {
    const char *name;
    bool right; /* aligned to the right, for numbers */
    int wrap;   /* break cells into lines of at most this number of characters; 0: never */
    bool key;   /* repeat the column in each part of a table that is too wide and is split; the first column is
                 * always repeated */
};

/* A value of wrap for at most one column, which then gets the rest of the line. */
#define TABLE_WRAP_REST (-1)

enum table_style { TABLE_PLAIN, TABLE_MARKDOWN };

/* Creates a table without rows. Returns NULL if memory is short. */
struct table *table_create(const struct table_column *columns, size_t count);
void table_destroy(struct table *table);

/* Adds a row with a cell for each column; NULL is an empty cell. The texts are copied. Returns false if memory is
 * short. */
bool table_add(struct table *table, const char *const *cells);

/*
 * Prints title and table. To fit table_width(), cells are broken into lines where their columns allow it, and a
 * table that is still too wide is printed in parts, one below the other, each with the key columns. Markdown is
 * never split. Returns false if memory is short.
 */
bool table_print(struct table *table, const char *title, enum table_style style);

/* Set and return the file to which tables are printed. NULL, the default, means standard output. Lines in a file
 * have unlimited length. */
void table_set_file(FILE *file);
FILE *table_file(void);

/* Returns the number of characters of a line: the environment variable COLUMNS, or the terminal's width, or 80. */
size_t table_width(void);

#endif

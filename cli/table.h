/*
 * table.h - tables for people: drawn by libsmartcols to fit the terminal, or written as Markdown.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct table;

struct table_column {
    const char *name;
    bool right; /* for numbers */
    int wrap;   /* lines of at most so many characters; 0: never broken */
    bool key;   /* repeated where a table is split because it is too wide; the first column is one */
};

/* For one column: as many characters as the line has left. */
#define TABLE_WRAP_REST (-1)

enum table_style { TABLE_PLAIN, TABLE_MARKDOWN };

/* A table without rows, or NULL when memory is short. */
struct table *table_create(const struct table_column *columns, size_t count);
void table_destroy(struct table *table);

/* Adds a row of as many cells as there are columns; NULL is an empty cell. The texts are copied. False when memory
 * is short. */
bool table_add(struct table *table, const char *const *cells);

/*
 * Prints title and table, which fits the width of table_width(): cells that may be wrapped are, and a table that
 * is still too wide is printed in parts below one another, each with the key columns. Markdown is never split.
 * False when memory is short.
 */
bool table_print(struct table *table, const char *title, enum table_style style);

/* Where tables are printed, standard output at first. A file has lines of any length. NULL: standard output again.
 */
void table_set_file(FILE *file);
FILE *table_file(void);

/* Characters of a line: COLUMNS of the environment, else those of the terminal, else 80. */
size_t table_width(void);

#endif

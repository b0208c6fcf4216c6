/*
 * table.h - tables for people: drawn by libsmartcols on a terminal or into a pipe, or written as Markdown.
 */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct table;

struct table_column {
    const char *name;
    bool right; /* for numbers */
    int wrap;   /* on a terminal, lines of at most so many characters; 0: never broken */
};

/* For one column: as many characters as the terminal has left. */
#define TABLE_WRAP_REST (-1)

enum table_style { TABLE_PLAIN, TABLE_MARKDOWN };

/* A table without rows, or NULL when memory is short. */
struct table *table_create(const struct table_column *columns, size_t count);
void table_destroy(struct table *table);

/* Adds a row of as many cells as there are columns; NULL is an empty cell. The texts are copied. False when memory
 * is short. */
bool table_add(struct table *table, const char *const *cells);

/* Prints title and table to standard output. False when memory is short. */
bool table_print(struct table *table, const char *title, enum table_style style);

#endif

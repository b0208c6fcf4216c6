/*
 * table.h - tables: drawn by libsmartcols to fit the terminal, or written as Markdown.
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
    int wrap;   /* cells are broken into lines of at most so many characters; 0: never */
    bool key;   /* repeated in each part if the table is split because it is too wide; the first column always
                 * is */
};

/* For one column: it gets the rest of the line. */
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

/* Sets and returns where tables are printed. NULL: standard output, which is the default. Lines in a file have
 * unlimited length. */
void table_set_file(FILE *file);
FILE *table_file(void);

/* Returns the characters of a line: COLUMNS of the environment, or the terminal's width, or 80. */
size_t table_width(void);

#endif

/*
 * table.c - tables for people: drawn by libsmartcols on a terminal or into a pipe, or written as Markdown.
 */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct table {
    struct libscols_table *scols;
    size_t column_count;
};

static bool add_column(struct table *table, const struct table_column *column)
{
    int flags = (column->right ? SCOLS_FL_RIGHT : 0) | (column->wrap ? SCOLS_FL_WRAP : 0);

    return scols_table_new_column(table->scols, column->name, 0, flags) != NULL;
}

struct table *table_create(const struct table_column *columns, size_t count)
{
    struct table *table = calloc(1, sizeof *table);
    size_t i;

    if (!table)
        return NULL;
    table->column_count = count;
    table->scols = scols_new_table();
    if (!table->scols)
        goto free_table;
    for (i = 0; i < count; i++)
        if (!add_column(table, &columns[i]))
            goto unref;
    /* Into a pipe nothing is cut or wrapped, whatever the width of the terminal behind it. */
    if (!isatty(STDOUT_FILENO))
        scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_NEVER);
    return table;

unref:
    scols_unref_table(table->scols);
free_table:
    free(table);
    return NULL;
}

void table_destroy(struct table *table)
{
    if (!table)
        return;
    scols_unref_table(table->scols);
    free(table);
}

bool table_add(struct table *table, const char *const *cells)
{
    struct libscols_line *line = scols_table_new_line(table->scols, NULL);
    size_t i;

    if (!line)
        return false;
    for (i = 0; i < table->column_count; i++)
        if (scols_line_set_data(line, i, cells[i] ? cells[i] : "") != 0)
            return false;
    return true;
}

/* One Markdown line: header names where line is NULL, else the cells. */
static void print_markdown_line(const struct table *table, struct libscols_line *line)
{
    size_t i;

    for (i = 0; i < table->column_count; i++) {
        struct libscols_column *column = scols_table_get_column(table->scols, i);
        struct libscols_cell *cell = line ? scols_line_get_cell(line, i) : scols_column_get_header(column);
        const char *text = scols_cell_get_data(cell);

        printf("| %s ", text ? text : "");
    }
    puts("|");
}

static void print_markdown(struct table *table)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t i;

    print_markdown_line(table, NULL);
    for (i = 0; i < table->column_count; i++) {
        struct libscols_column *column = scols_table_get_column(table->scols, i);

        fputs(scols_column_is_right(column) ? "|---:" : "|---", stdout);
    }
    puts("|");
    for (i = 0; i < count; i++)
        print_markdown_line(table, scols_table_get_line(table->scols, i));
}

bool table_print(struct table *table, const char *title, enum table_style style)
{
    if (style == TABLE_MARKDOWN) {
        if (title)
            printf("### %s\n\n", title);
        print_markdown(table);
        return true;
    }
    if (title)
        puts(title);
    /* smartcols writes to the same stream, so the order stays. */
    return scols_print_table(table->scols) == 0;
}

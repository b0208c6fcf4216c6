/*
 * table.c - tables for people: drawn by libsmartcols on a terminal or into a pipe, or written as Markdown.
 */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 24, REST_MIN = 24 };

struct table {
    struct libscols_table *scols;
    size_t column_count;
    int wrap[COLUMNS_MAX];
};

/* smartcols breaks a line anywhere, so lines are broken here, between words, and it is told to break at newlines
 * only. */
static bool add_column(struct table *table, const struct table_column *column)
{
    int flags = (column->right ? SCOLS_FL_RIGHT : 0) | (column->wrap ? SCOLS_FL_WRAP : 0);
    struct libscols_column *added = scols_table_new_column(table->scols, column->name, 0, flags);

    if (!added)
        return false;
    return !column->wrap ||
           (scols_column_set_safechars(added, "\n") == 0 &&
            scols_column_set_wrapfunc(added, scols_wrapnl_chunksize, scols_wrapnl_nextchunk, NULL) == 0);
}

struct table *table_create(const struct table_column *columns, size_t count)
{
    struct table *table = count <= COLUMNS_MAX ? calloc(1, sizeof *table) : NULL;
    size_t i;

    if (!table)
        return NULL;
    table->column_count = count;
    for (i = 0; i < count; i++)
        table->wrap[i] = columns[i].wrap;
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

static size_t terminal_width(void)
{
    struct winsize size;

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Puts newlines between words so that lines have at most width characters; longer words stay whole. */
static void break_lines(char *text, size_t width)
{
    char *line = text, *blank = NULL, *at;

    for (at = text; *at; at++) {
        if (*at == ' ')
            blank = at;
        if ((size_t)(at - line) >= width && blank) {
            *blank = '\n';
            line = blank + 1;
            blank = NULL;
        }
    }
}

/* The number of characters in the longest cell of a column, its header included. */
static size_t column_width(struct table *table, size_t column)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t width =
        strlen(scols_cell_get_data(scols_column_get_header(scols_table_get_column(table->scols, column))));
    size_t i;

    for (i = 0; i < count; i++) {
        const char *text = scols_cell_get_data(scols_line_get_cell(scols_table_get_line(table->scols, i), column));

        if (text && strlen(text) > width)
            width = strlen(text);
    }
    return width;
}

static bool wrap_column(struct table *table, size_t column, size_t width)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t i;

    /* A line owns what it refers to. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    for (i = 0; i < count; i++) {
        struct libscols_line *line = scols_table_get_line(table->scols, i);
        const char *text = scols_cell_get_data(scols_line_get_cell(line, column));
        char *copy = strdup(text ? text : "");

        if (!copy)
            return false;
        break_lines(copy, width);
        if (scols_line_refer_data(line, column, copy) != 0) {
            free(copy);
            return false;
        }
    }
    return true;
}

/* Breaks long cells so that the table fits the terminal, if it can. */
static bool wrap_cells(struct table *table)
{
    size_t used = 0, width, room = terminal_width();
    size_t rest = table->column_count;
    size_t i;

    for (i = 0; i < table->column_count; i++) {
        width = column_width(table, i);
        if (table->wrap[i] == TABLE_WRAP_REST) {
            rest = i;
            continue;
        }
        if (table->wrap[i] && width > (size_t)table->wrap[i]) {
            width = (size_t)table->wrap[i];
            if (!wrap_column(table, i, width))
                return false;
        }
        used += width + 1;
    }
    if (rest == table->column_count)
        return true;
    return wrap_column(table, rest, room > used + REST_MIN ? room - used - 1 : REST_MIN);
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
    if (isatty(STDOUT_FILENO) && !wrap_cells(table))
        return false;
    /* smartcols writes to the same stream, so the order stays. */
    return scols_print_table(table->scols) == 0;
}

/*
 * table.c - prints tables: with libsmartcols, to fit the terminal, or as Markdown.
 */
#include "table.h"

#include <libsmartcols/libsmartcols.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { COLUMNS_MAX = 24, REST_MIN = 24, WIDTH_DEFAULT = 80, WIDTH_MIN = 40 };

/* The line width for smartcols: so large that smartcols cuts nothing. This file has already fitted the tables to
 * the terminal. */
static const size_t width_max = 100000;

/* The file to which tables are printed; NULL: standard output. */
static FILE *table_output;

struct table {
    struct libscols_table *scols;
    size_t column_count;
    int wrap[COLUMNS_MAX];
    bool key[COLUMNS_MAX];
};

void table_set_file(FILE *file)
{
    table_output = file;
}

FILE *table_file(void)
{
    return table_output ? table_output : stdout;
}

size_t table_width(void)
{
    const char *columns = getenv("COLUMNS");
    char *end;
    unsigned long width = columns && *columns >= '0' && *columns <= '9' ? strtoul(columns, &end, 10) : 0;
    struct winsize size;

    if (table_output || (width > width_max && !*end))
        return width_max;
    if (width >= WIDTH_MIN && !*end)
        return width;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= WIDTH_MIN)
        return size.ws_col;
    return WIDTH_DEFAULT;
}

/* Adds a column. smartcols would break lines anywhere, so this file breaks them between words, and lets smartcols
 * break only at newlines. */
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
    for (i = 0; i < count; i++) {
        table->wrap[i] = columns[i].wrap;
        table->key[i] = i == 0 || columns[i].key;
    }
    table->scols = scols_new_table();
    if (!table->scols)
        goto free_table;
    for (i = 0; i < count; i++)
        if (!add_column(table, &columns[i]))
            goto unref;
    scols_table_set_termforce(table->scols, SCOLS_TERMFORCE_ALWAYS);
    scols_table_set_termwidth(table->scols, width_max);
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

/* Prints one line of Markdown: the cells of line, or the headers if it is NULL. */
static void print_markdown_line(const struct table *table, struct libscols_line *line)
{
    size_t i;

    for (i = 0; i < table->column_count; i++) {
        struct libscols_column *column = scols_table_get_column(table->scols, i);
        struct libscols_cell *cell = line ? scols_line_get_cell(line, i) : scols_column_get_header(column);
        const char *text = scols_cell_get_data(cell);

        fprintf(table_file(), "| %s ", text ? text : "");
    }
    fputs("|\n", table_file());
}

static void print_markdown(struct table *table)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t i;

    print_markdown_line(table, NULL);
    for (i = 0; i < table->column_count; i++) {
        struct libscols_column *column = scols_table_get_column(table->scols, i);

        fputs(scols_column_is_right(column) ? "|---:" : "|---", table_file());
    }
    fputs("|\n", table_file());
    for (i = 0; i < count; i++)
        print_markdown_line(table, scols_table_get_line(table->scols, i));
}

/* Puts newlines between words so that lines have at most width characters. Does not break a word that is
 * longer. */
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

/* Returns the length of the longest line of a text. */
static size_t longest_line(const char *text)
{
    size_t longest = 0;

    while (text && *text) {
        size_t length = strcspn(text, "\n");

        if (length > longest)
            longest = length;
        text += length + (text[length] == '\n');
    }
    return longest;
}

/* Returns the number of characters in the longest line of a column, including its header. */
static size_t column_width(struct table *table, size_t column)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t width =
        longest_line(scols_cell_get_data(scols_column_get_header(scols_table_get_column(table->scols, column))));
    size_t i;

    for (i = 0; i < count; i++) {
        size_t length =
            longest_line(scols_cell_get_data(scols_line_get_cell(scols_table_get_line(table->scols, i), column)));

        if (length > width)
            width = length;
    }
    return width;
}

static bool wrap_column(struct table *table, size_t column, size_t width)
{
    size_t count = scols_table_get_nlines(table->scols);
    size_t i;

    /* scols_line_refer_data() takes ownership of copy. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
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

/* Breaks long cells so that the table fits the line, if possible. The column with TABLE_WRAP_REST gets the rest of
 * the line. If that is too little, show_part() will split the table, and the column gets the room beside the key
 * columns. */
static bool wrap_cells(struct table *table)
{
    size_t used = 0, used_by_keys = 0, width, room = table_width();
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
        if (table->key[i])
            used_by_keys += width + 1;
    }
    if (rest == table->column_count)
        return true;
    if (room <= used + REST_MIN)
        used = used_by_keys;
    return wrap_column(table, rest, room > used + REST_MIN ? room - used - 1 : REST_MIN);
}

static void show_column(struct table *table, size_t i, bool show)
{
    struct libscols_column *column = scols_table_get_column(table->scols, i);
    int flags = scols_column_get_flags(column);

    scols_column_set_flags(column, show ? flags & ~SCOLS_FL_HIDDEN : flags | SCOLS_FL_HIDDEN);
}

/* Shows the key columns, and from column first on as many other columns as fit the line, but at least one. Returns
 * the first column that did not fit. */
static size_t show_part(struct table *table, const size_t *widths, size_t first)
{
    size_t used = 0, i;
    bool any = false, full = false;
    size_t next = table->column_count;

    for (i = 0; i < table->column_count; i++)
        if (table->key[i])
            used += widths[i] + 1;
    for (i = 0; i < table->column_count; i++) {
        bool show = table->key[i];

        if (!table->key[i] && i >= first && !full) {
            show = !any || used + widths[i] <= table_width();
            if (show)
                used += widths[i] + 1;
            else
                next = i;
            full = !show;
            any = true;
        }
        show_column(table, i, show);
    }
    return next;
}

bool table_print(struct table *table, const char *title, enum table_style style)
{
    size_t widths[COLUMNS_MAX], next = 0, i;

    if (style == TABLE_MARKDOWN) {
        if (title)
            fprintf(table_file(), "### %s\n\n", title);
        print_markdown(table);
        return true;
    }
    if (title)
        fprintf(table_file(), "%s\n", title);
    if (!wrap_cells(table))
        return false;
    for (i = 0; i < table->column_count; i++)
        widths[i] = column_width(table, i);
    scols_table_set_stream(table->scols, table_file());
    do {
        if (next)
            fputc('\n', table_file());
        next = show_part(table, widths, next);
        /* smartcols writes to the same stream, so no flush is needed in between. */
        if (scols_print_table(table->scols) != 0)
            return false;
    } while (next < table->column_count);
    return true;
}

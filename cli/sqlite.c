/* sqlite.c - see sqlite.h. */
#include "sqlite.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Constants of SQLite's published interface. */
enum { OK = 0, ROW = 100, DONE = 101, TYPE_INTEGER = 1, TYPE_TEXT = 3 };
enum { OPEN_READONLY = 1, OPEN_URI = 0x40 };
enum { LIMIT_LENGTH = 0, LIMIT_EXPRESSION_DEPTH = 3, LIMIT_ATTACHED = 7 };
enum { CONFIG_DEFENSIVE = 1010, CONFIG_TRUSTED_SCHEMA = 1017 };
enum { VALUE_BYTES_MAX = 16 << 20, URI_MAX = 3 * 4096 + 32, QUERY_MAX = 1024 };

static const char library[] = "libsqlite3.so.0";

struct sqlite3;
struct sqlite3_stmt;

static struct {
    int (*open)(const char *name, struct sqlite3 **made, int flags, const char *vfs);
    int (*close)(struct sqlite3 *file);
    int (*config)(struct sqlite3 *file, int what, ...);
    int (*limit)(struct sqlite3 *file, int what, int value);
    int (*prepare)(struct sqlite3 *file, const char *text, int bytes, struct sqlite3_stmt **made,
                   const char **rest);
    int (*bind_text)(struct sqlite3_stmt *query, int at, const char *text, int bytes, void (*release)(void *));
    int (*step)(struct sqlite3_stmt *query);
    int (*finalize)(struct sqlite3_stmt *query);
    int (*type)(struct sqlite3_stmt *query, int column);
    long long (*integer)(struct sqlite3_stmt *query, int column);
    const unsigned char *(*text)(struct sqlite3_stmt *query, int column);
    const char *(*message)(struct sqlite3 *file);
} api;

struct sqlite_file {
    struct sqlite3 *file;
    uint64_t bytes;
};

/* Loads the library once. It stays loaded until the command ends. */
static bool load(char error[SQLITE_ERROR_MAX])
{
    static const struct {
        const char *name;
        void *place;
    } functions[] = {{"sqlite3_open_v2", &api.open},       {"sqlite3_close", &api.close},
                     {"sqlite3_db_config", &api.config},   {"sqlite3_limit", &api.limit},
                     {"sqlite3_prepare_v2", &api.prepare}, {"sqlite3_bind_text", &api.bind_text},
                     {"sqlite3_step", &api.step},          {"sqlite3_finalize", &api.finalize},
                     {"sqlite3_column_type", &api.type},   {"sqlite3_column_int64", &api.integer},
                     {"sqlite3_column_text", &api.text},   {"sqlite3_errmsg", &api.message}};
    void *handle;
    size_t i;

    if (api.open)
        return true;
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        snprintf(
            error, SQLITE_ERROR_MAX,
            "this is an SQLite file, and reading it needs %s, which cannot be loaded (Debian package libsqlite3-0)",
            library);
        return false;
    }
    for (i = sizeof functions / sizeof functions[0]; i-- > 0;) { /* open is the last one */
        void *function = dlsym(handle, functions[i].name);

        if (!function) {
            snprintf(error, SQLITE_ERROR_MAX, "%s has no function %s", library, functions[i].name);
            dlclose(handle);
            return false;
        }
        memcpy(functions[i].place, &function, sizeof function);
    }
    return true;
}

/* Writes the name of a file as a URI: what is neither a letter nor a digit as its number. immutable: SQLite looks
 * for no journal beside the file, and takes no lock. Returns false if the name is too long. */
static bool make_uri(const char *path, char uri[URI_MAX])
{
    static const char head[] = "file:", tail[] = "?immutable=1", digits[] = "0123456789ABCDEF";
    size_t used = sizeof head - 1;

    memcpy(uri, head, used);
    for (; *path; path++) {
        unsigned char c = (unsigned char)*path;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/';

        if (used + 3 + sizeof tail > URI_MAX)
            return false;
        if (plain) {
            uri[used++] = (char)c;
            continue;
        }
        uri[used++] = '%';
        uri[used++] = digits[c >> 4];
        uri[used++] = digits[c & 15];
    }
    memcpy(uri + used, tail, sizeof tail);
    return true;
}

static uint32_t get_number(const unsigned char *bytes, int count)
{
    uint32_t number = 0;

    while (count-- > 0)
        number = number << 8 | *bytes++;
    return number;
}

/* Checks that the file has all its pages, since SQLite reads a page that is cut as zeros. *bytes receives the size
 * of the file. */
static bool check_size(const char *path, uint64_t *bytes, char error[SQLITE_ERROR_MAX])
{
    unsigned char head[100];
    struct stat status;
    size_t got = 0;
    uint64_t wanted;
    FILE *file;

    /* Opening a pipe could wait for a writer without an end. */
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode)) {
        snprintf(error, SQLITE_ERROR_MAX, "this is an SQLite file, which must be a regular file and not a pipe");
        return false;
    }
    file = fopen(path, "re");
    if (file) {
        got = fstat(fileno(file), &status) == 0 ? fread(head, 1, sizeof head, file) : 0;
        fclose(file);
    }
    if (got < sizeof head) {
        snprintf(error, SQLITE_ERROR_MAX, "the file ends after %zu bytes, within its header", got);
        return false;
    }
    wanted = get_number(head + 16, 2) == 1 ? 65536 : get_number(head + 16, 2); /* bytes of a page */
    wanted *= get_number(head + 28, 4);
    *bytes = (uint64_t)status.st_size;
    if (*bytes >= wanted)
        return true;
    snprintf(error, SQLITE_ERROR_MAX, "the file is truncated: it has %llu of %llu bytes",
             (unsigned long long)*bytes, (unsigned long long)wanted);
    return false;
}

struct sqlite_file *sqlite_open(const char *path, char error[SQLITE_ERROR_MAX])
{
    struct sqlite_file *file = NULL;
    char uri[URI_MAX], absolute[4096];
    uint64_t bytes;

    if (!check_size(path, &bytes, error) || !load(error))
        return NULL;
    /* In a URI a name that does not begin with / may be taken for the name of a host. */
    if (!realpath(path, absolute) || !make_uri(absolute, uri)) {
        snprintf(error, SQLITE_ERROR_MAX, "its name cannot be resolved");
        return NULL;
    }
    file = calloc(1, sizeof *file);
    if (!file) {
        snprintf(error, SQLITE_ERROR_MAX, "out of host memory");
        return NULL;
    }
    file->bytes = bytes;
    if (api.open(uri, &file->file, OPEN_READONLY | OPEN_URI, NULL) != OK) {
        snprintf(error, SQLITE_ERROR_MAX, "SQLite: %.200s", file->file ? api.message(file->file) : "no memory");
        sqlite_close(file);
        return NULL;
    }
    /* Older libraries do not know all of these. */
    (void)api.config(file->file, CONFIG_DEFENSIVE, 1, NULL);
    (void)api.config(file->file, CONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)api.limit(file->file, LIMIT_LENGTH, VALUE_BYTES_MAX);
    (void)api.limit(file->file, LIMIT_EXPRESSION_DEPTH, 20);
    (void)api.limit(file->file, LIMIT_ATTACHED, 0);
    return file;
}

void sqlite_close(struct sqlite_file *file)
{
    if (!file)
        return;
    if (file->file)
        (void)api.close(file->file);
    free(file);
}

static bool fail(struct sqlite_file *file, const char *table, char error[SQLITE_ERROR_MAX])
{
    snprintf(error, SQLITE_ERROR_MAX, "the file is damaged: table %s: %.200s", table, api.message(file->file));
    return false;
}

/* Prepares a query with one text. Returns NULL if that fails. */
static struct sqlite3_stmt *ask(struct sqlite_file *file, const char *text, const char *value)
{
    struct sqlite3_stmt *query = NULL;

    if (api.prepare(file->file, text, -1, &query, NULL) != OK)
        return NULL;
    if (value && api.bind_text(query, 1, value, -1, NULL) != OK) {
        (void)api.finalize(query);
        return NULL;
    }
    return query;
}

/* Views and virtual tables have no page of their own. */
static const char find_table[] = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND rootpage > 0 AND name = ?1";

/* Sets *has to whether there is the table. Returns false if the file cannot be read. */
static bool look_for_table(struct sqlite_file *file, const char *table, bool *has, char error[SQLITE_ERROR_MAX])
{
    struct sqlite3_stmt *query = ask(file, find_table, table);
    int got = query ? api.step(query) : -1;
    bool fine = got == ROW || got == DONE;

    *has = got == ROW;
    if (!fine)
        fail(file, table, error);
    (void)api.finalize(query);
    return fine;
}

bool sqlite_has_table(struct sqlite_file *file, const char *table)
{
    char error[SQLITE_ERROR_MAX];
    bool has;

    return look_for_table(file, table, &has, error) && has;
}

/* Sets has[] to which columns the table has. */
static bool find_columns(struct sqlite_file *file, const char *table, const struct sqlite_column *columns,
                         size_t count, bool has[SQLITE_COLUMNS_MAX], char error[SQLITE_ERROR_MAX])
{
    struct sqlite3_stmt *query = ask(file, "SELECT name FROM pragma_table_info(?1)", table);
    int got = query ? api.step(query) : -1;
    size_t i;

    for (i = 0; i < count; i++)
        has[i] = false;
    for (; got == ROW; got = api.step(query)) {
        const char *name = (const char *)api.text(query, 0);

        for (i = 0; i < count && name; i++)
            has[i] = has[i] || !strcmp(name, columns[i].name);
    }
    if (got != DONE)
        fail(file, table, error);
    (void)api.finalize(query);
    if (got != DONE)
        return false;
    for (i = 0; i < count; i++)
        if (columns[i].required && !has[i]) {
            snprintf(error, SQLITE_ERROR_MAX,
                     "table %s has no column %s; it is damaged, or of a version of nsys that leat does not know",
                     table, columns[i].name);
            return false;
        }
    return true;
}

/* Writes the query of the columns. Those that the table does not have are NULL. */
static void make_query(char text[QUERY_MAX], const char *table, const struct sqlite_column *columns, size_t count,
                       const bool has[SQLITE_COLUMNS_MAX])
{
    size_t used = (size_t)snprintf(text, QUERY_MAX, "SELECT "), i;

    for (i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, QUERY_MAX - used, has[i] ? "%s\"%s\"" : "%sNULL", i ? ", " : "",
                                 columns[i].name);
    snprintf(text + used, QUERY_MAX - used, " FROM \"%s\"", table);
}

static void get_values(struct sqlite3_stmt *query, struct sqlite_value *values, size_t count)
{
    size_t i;

    for (i = 0; i < count; i++) {
        int type = api.type(query, (int)i);

        values[i] = (struct sqlite_value){.is_integer = type == TYPE_INTEGER};
        if (type == TYPE_INTEGER)
            values[i].number = api.integer(query, (int)i);
        if (type == TYPE_TEXT)
            values[i].text = (const char *)api.text(query, (int)i);
    }
}

bool sqlite_read(struct sqlite_file *file, const char *table, const struct sqlite_column *columns, size_t count,
                 sqlite_row *row, void *context, char error[SQLITE_ERROR_MAX])
{
    struct sqlite_value values[SQLITE_COLUMNS_MAX];
    bool has_table, has[SQLITE_COLUMNS_MAX], fine = true;
    struct sqlite3_stmt *query;
    char text[QUERY_MAX];
    uint64_t rows = 0;
    int got;

    error[0] = '\0';
    if (!look_for_table(file, table, &has_table, error))
        return false;
    if (!has_table)
        return true;
    if (!find_columns(file, table, columns, count, has, error))
        return false;
    make_query(text, table, columns, count, has);
    query = ask(file, text, NULL);
    got = query ? api.step(query) : -1;
    for (; got == ROW && fine; got = fine ? api.step(query) : got) {
        get_values(query, values, count);
        fine = row(context, values);
        /* A row takes more than two bytes. In a damaged file pages may belong to a table many times. */
        if (fine && ++rows > file->bytes / 2) {
            snprintf(error, SQLITE_ERROR_MAX, "the file is damaged: table %s has more rows than the file can hold",
                     table);
            fine = false;
        }
    }
    if (fine && got != DONE)
        fine = fail(file, table, error);
    (void)api.finalize(query);
    return fine;
}

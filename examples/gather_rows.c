/*
 * gather_rows.c - gathers rows of a table by a list of row numbers, as a language model looks up its words, and
 * shows how leat handles a number that is out of range.
 *
 *     cc gather_rows.c -o gather_rows $(pkg-config --cflags --libs leat)
 *     ./gather_rows [device]
 *
 * With a list of indices on one dimension of the source layout a copy gathers; with a list on the destination it
 * scatters. leat_copy_layout() checks a list in host memory. It cannot check a list in device memory, because a
 * kernel may still be writing it. Instead the copy skips rows with wrong numbers, and counts them.
 */
#include <leat/leat.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 5000
#define VALUES 64 /* values in each row */
#define TOKENS 1000
#define WRONG_TOKEN 17

struct work {
    leat_device *device;
    leat_stream *stream;
    uint32_t *table, *rows; /* host memory */
    int32_t tokens[TOKENS];
    void *device_table, *device_tokens, *device_rows;
    uint64_t *wrong; /* pinned memory, which the host and the device both reach */
};

static int failed(const char *step)
{
    fprintf(stderr, "gather_rows: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

static int prepare(struct work *w)
{
    size_t table_bytes = (size_t)WORDS * VALUES * sizeof(uint32_t), row_bytes = TOKENS * VALUES * sizeof(uint32_t);

    w->table = malloc(table_bytes);
    w->rows = malloc(row_bytes);
    if (!w->table || !w->rows) {
        fprintf(stderr, "gather_rows: out of memory\n");
        return 1;
    }
    for (uint32_t i = 0; i < WORDS * VALUES; i++)
        w->table[i] = i;
    for (int32_t i = 0; i < TOKENS; i++)
        w->tokens[i] = i * 7919 % WORDS;
    if (leat_stream_create(w->device, &w->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_alloc(w->stream, table_bytes, &w->device_table) != LEAT_OK ||
        leat_alloc(w->stream, row_bytes, &w->device_rows) != LEAT_OK ||
        leat_alloc(w->stream, sizeof w->tokens, &w->device_tokens) != LEAT_OK ||
        leat_memory_alloc(w->device, LEAT_KIND_PINNED, sizeof *w->wrong, (void **)&w->wrong) != LEAT_OK)
        return failed("allocate");
    if (leat_copy(w->stream, w->device_table, w->table, table_bytes) != LEAT_OK)
        return failed("copy the table to the device");
    return 0;
}

/* Gathers rows on the device by a list in device or host memory, and checks them. skipped: the number of the row
 * that the copy leaves out, or -1. */
static int gather(struct work *w, const void *list, uint64_t *wrong, int skipped)
{
    leat_layout table, rows;

    if (leat_layout_dense(&table, 2, (int64_t[]){WORDS, VALUES}, sizeof(uint32_t)) != LEAT_OK ||
        leat_layout_index(&table, 0, list, TOKENS, sizeof(int32_t), wrong) != LEAT_OK ||
        leat_layout_dense(&rows, 2, (int64_t[]){TOKENS, VALUES}, sizeof(uint32_t)) != LEAT_OK)
        return failed("describe the table");
    if (leat_copy_layout(w->stream, w->device_rows, &rows, w->device_table, &table) != LEAT_OK)
        return failed("gather the rows");
    if (leat_copy(w->stream, w->rows, w->device_rows, TOKENS * VALUES * sizeof(uint32_t)) != LEAT_OK ||
        leat_stream_synchronize(w->stream) != LEAT_OK)
        return failed("get the rows back");
    for (int i = 0; i < TOKENS; i++)
        if (i != skipped &&
            memcmp(&w->rows[i * VALUES], &w->table[w->tokens[i] * VALUES], VALUES * sizeof(uint32_t))) {
            fprintf(stderr, "gather_rows: row %d is wrong\n", i);
            return 1;
        }
    return 0;
}

static int gather_all(struct work *w)
{
    if (gather(w, w->tokens, NULL, -1))
        return 1;
    printf("%d rows by a list on the host: all are right\n", TOKENS);

    /* Make one row number too large. The call does not check a list in device memory, so it succeeds; the copy
     * leaves out that row and counts it. */
    w->tokens[WRONG_TOKEN] = WORDS;
    *w->wrong = 0;
    if (leat_copy(w->stream, w->device_tokens, w->tokens, sizeof w->tokens) != LEAT_OK)
        return failed("copy the list to the device");
    if (gather(w, w->device_tokens, w->wrong, WRONG_TOKEN))
        return 1;
    if (*w->wrong != 1) {
        fprintf(stderr, "gather_rows: %llu wrong numbers were counted\n", (unsigned long long)*w->wrong);
        return 1;
    }
    printf("%d rows by a list on the device: one number was wrong, and was counted; the others are right\n",
           TOKENS);
    return 0;
}

/* Tries the same list in host memory. The call must refuse it; its message names the wrong entry. */
static int try_wrong_list(struct work *w)
{
    leat_layout table, rows;

    if (leat_layout_dense(&table, 2, (int64_t[]){WORDS, VALUES}, sizeof(uint32_t)) != LEAT_OK ||
        leat_layout_index(&table, 0, w->tokens, TOKENS, sizeof(int32_t), NULL) != LEAT_OK ||
        leat_layout_dense(&rows, 2, (int64_t[]){TOKENS, VALUES}, sizeof(uint32_t)) != LEAT_OK)
        return failed("describe the table");
    if (leat_copy_layout(w->stream, w->device_rows, &rows, w->device_table, &table) != LEAT_ERROR_RANGE) {
        fprintf(stderr, "gather_rows: a wrong number was not noticed\n");
        return 1;
    }
    printf("the same list on the host: %s\n", leat_last_error());
    return 0;
}

int main(int argc, char **argv)
{
    static struct work w;
    int wrong;

    if (leat_device_open(argc > 1 ? argv[1] : NULL, &w.device) != LEAT_OK)
        return failed("open the device");
    wrong = prepare(&w) || gather_all(&w) || try_wrong_list(&w);

    /* The stream's work must be complete before the host's memory is freed, also after a failed step. */
    if (w.stream && leat_stream_synchronize(w.stream) != LEAT_OK)
        wrong = failed("finish the work");
    if (leat_device_close(w.device) != LEAT_OK) /* frees the allocations too */
        wrong = failed("close the device");
    free(w.rows);
    free(w.table);
    return wrong;
}

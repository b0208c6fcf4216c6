/*
 * fault_files.c - scenarios of fault_walk: lists of ranges of files, syncs and commits, with and without tickets,
 * and loads of a model. Copies of files are staged, so a failed driver call may go unreported. All bytes must be
 * right then, and a file that was committed must be whole.
 */
#include "fault_scenarios.h"
#include "test_folder.h"

#include <leat/model.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANGES = 40, EACH = 7000, ALL = RANGES * EACH, TENSOR_BYTES = 300000, HEADER_BYTES = 200 };

/* Writes a model file with two tensors. One pattern fills the data of both. */
static void write_model(const char *path)
{
    unsigned char *data = malloc(2 * TENSOR_BYTES);
    uint64_t header_bytes = HEADER_BYTES; /* the format is little-endian, and so are the processors of leat */
    FILE *file = fopen(path, "wb");
    char header[HEADER_BYTES + 1];

    memset(header, ' ', sizeof header);
    header[snprintf(header, sizeof header,
                    "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]},"
                    "\"b\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[%d,%d]}}",
                    TENSOR_BYTES, TENSOR_BYTES, TENSOR_BYTES, TENSOR_BYTES, 2 * TENSOR_BYTES)] = ' ';
    if (!data || !file)
        give_up("no model to load");
    test_pattern(data, 2 * TENSOR_BYTES, 90);
    if (fwrite(&header_bytes, 8, 1, file) != 1 || fwrite(header, HEADER_BYTES, 1, file) != 1 ||
        fwrite(data, 2 * TENSOR_BYTES, 1, file) != 1 || fclose(file))
        give_up("no model to load");
    free(data);
}

void make_walk_folder(void)
{
    if (make_folder(NULL))
        give_up("no folder for files");
    write_model(path_of("model.safetensors"));
}

void remove_walk_folder(void)
{
    (void)unlink(path_of("model.safetensors"));
    (void)unlink(path_of("committed"));
    if (rmdir(folder))
        give_up("a file is left over in %s", folder);
}

/* Returns the memory of range i, which is device memory, pinned or pageable memory. */
static unsigned char *range_at(const struct world *w, unsigned i, unsigned char *pageable)
{
    return (unsigned char *)(i % 3 == 0 ? w->plain : i % 3 == 1 ? w->pinned : pageable) + (size_t)i * EACH;
}

/* Writes a list of ranges from all kinds of memory, and reads them back in another order to other kinds. */
static bool move_lists(struct world *w, bool with_tickets)
{
    leat_file_op ops[RANGES];
    leat_ticket **tickets = &w->tickets[with_tickets ? 0 : TICKETS]; /* not used without tickets */

    test_pattern(host_in, ALL, 91);
    STEP(leat_copy_sync(w->stream, w->plain, host_in, ALL));
    STEP(leat_copy_sync(w->stream, w->pinned, host_in, ALL));
    for (unsigned i = 0; i < RANGES; i++)
        ops[i] = (leat_file_op){walk_file, (uint64_t)(RANGES - 1 - i) * EACH + 77, range_at(w, i, host_in), EACH};
    if (with_tickets)
        STEP(leat_file_write_batch_start(w->stream, ops, RANGES, NULL, tickets));
    else
        STEP(leat_file_write_batch(w->stream, ops, RANGES));
    STEP(leat_fill(w->stream, w->plain, 0, ALL));
    STEP(leat_stream_synchronize(w->stream));
    memset(w->pinned, 0, ALL);
    memset(host_out, 0, ALL);
    for (unsigned i = 0; i < RANGES; i++)
        ops[i].memory = range_at(w, i + 1, host_out) - EACH;
    if (with_tickets) {
        STEP(leat_file_read_batch_start(w->stream, ops, RANGES, NULL, tickets + 1));
        STEP(leat_ticket_wait(tickets[1], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
        STEP(leat_ticket_wait(tickets[0], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    } else {
        STEP(leat_file_read_batch(w->stream, ops, RANGES));
    }
    STEP(leat_copy(w->stream, host_other, w->plain, ALL));
    STEP(leat_stream_synchronize(w->stream));
    for (unsigned i = 0; i < RANGES; i++) {
        const unsigned char *kept = i % 3 == 2 ? host_other : i % 3 == 0 ? w->pinned : host_out;

        if (memcmp(kept + (size_t)i * EACH, host_in + (size_t)i * EACH, EACH))
            give_up("range %u of a list: wrong bytes without an error", i);
    }
    return true;
}

/* Reads and writes with tickets and with deadlines that are far away. */
static bool use_file_tickets(struct world *w)
{
    leat_copy_options options = {.size = sizeof options, .deadline_ns = UINT64_C(100000000000)};

    test_pattern(host_in, LONG_BYTES, 92);
    memset(host_out, 0, LONG_BYTES);
    STEP(leat_copy(w->stream, w->plain, host_in, LONG_BYTES));
    STEP(leat_file_write_start(w->stream, walk_file, 0, w->plain, LONG_BYTES, &options, &w->tickets[2]));
    STEP(leat_file_sync_start(w->stream, walk_file, &options, &w->tickets[3]));
    STEP(leat_file_read_start(w->stream, host_out, walk_file, 0, LONG_BYTES, NULL, &w->tickets[4]));
    STEP(leat_ticket_wait(w->tickets[4], LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    STEP(leat_ticket_wait(w->tickets[3], LEAT_COPY_POINT_DURABLE, LEAT_FOREVER));
    STEP(leat_ticket_wait(w->tickets[2], LEAT_COPY_POINT_STAGED, LEAT_FOREVER));
    for (size_t i = 0; i < LONG_BYTES; i++)
        if (host_out[i] != host_in[i])
            give_up("a file with tickets: byte %zu is wrong, without an error", i);
    return true;
}

/* Commits a new file. If a call fails, the file must either have its name and all bytes, or no name. */
static bool commit_file(struct world *w, bool with_ticket)
{
    const char *path = path_of("committed");
    leat_file *file = NULL;
    bool given;

    (void)unlink(path);
    test_pattern(host_in, LONG_BYTES, 93);
    STEP(leat_copy(w->stream, w->plain, host_in, LONG_BYTES));
    STEP(leat_file_open(path, LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY, &file));
    given = keep(w, "write", leat_file_write(w->stream, file, 0, w->plain, LONG_BYTES)) == LEAT_OK &&
            keep(w, "sync", leat_file_sync(w->stream, file)) == LEAT_OK &&
            keep(w, "commit",
                 with_ticket ? leat_file_commit_start(w->stream, file, NULL, &w->tickets[5])
                             : leat_file_commit(w->stream, file)) == LEAT_OK;
    if (given && with_ticket)
        given = keep(w, "wait", leat_ticket_wait(w->tickets[5], LEAT_COPY_POINT_DURABLE, LEAT_FOREVER)) == LEAT_OK;
    given = keep(w, "synchronize", leat_stream_synchronize(w->stream)) == LEAT_OK && given;
    END(leat_file_close(file));
    if (given && access(path, F_OK))
        give_up("a file that was committed is not there");
    return given;
}

static void expect_committed(void)
{
    FILE *file = fopen(path_of("committed"), "rb");
    size_t bytes;

    if (!file)
        return;
    bytes = fread(host_out, 1, LONG_BYTES, file);
    if (bytes != LONG_BYTES || fgetc(file) != EOF || memcmp(host_out, host_in, LONG_BYTES))
        give_up("a file has its name and not its bytes");
    fclose(file);
}

/* Loads the tensors of a model one by one into two kinds of memory, one of them a second time on another stream,
 * and then a tensor into memory that leat allocates for two streams. */
static bool load_model(struct world *w, leat_model *model, leat_model_load **load, leat_model_set **sets)
{
    leat_model_item items[3] = {LEAT_MODEL_ITEM_INIT, LEAT_MODEL_ITEM_INIT, LEAT_MODEL_ITEM_INIT};
    leat_stream *streams[2] = {w->stream, w->second};
    unsigned char *expected = host_in;
    void *memory;

    test_pattern(expected, LONG_BYTES, 90);
    memset(host_out, 0, LONG_BYTES);
    memset(w->pinned, 0, LONG_BYTES);
    for (size_t i = 0; i < 3; i++) {
        items[i].tensor = i % 2;
        items[i].dst = i == 0 ? w->plain : i == 1 ? host_out : w->pinned;
        items[i].dst_bytes = TENSOR_BYTES;
        items[i].stream = streams[i / 2];
    }
    STEP(leat_model_load_start(model, items, 3, NULL, load));
    STEP(leat_model_load_wait(*load, LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    STEP(leat_copy_sync(w->stream, host_other, w->plain, TENSOR_BYTES));
    if (memcmp(host_other, expected, TENSOR_BYTES) || memcmp(w->pinned, expected, TENSOR_BYTES) ||
        memcmp(host_out, expected + TENSOR_BYTES, LONG_BYTES - TENSOR_BYTES))
        give_up("a model: wrong bytes without an error");
    STEP(leat_model_load_replicas(streams, 2, model, "b", NULL, sets));
    STEP(leat_model_load_wait(leat_model_set_get_load(sets[0]), LEAT_COPY_POINT_DONE, LEAT_FOREVER));
    for (int i = 0; i < 2; i++) {
        STEP(leat_model_set_get_pointer(sets[i], 1, &memory));
        STEP(leat_copy_sync(streams[i], host_other, memory, TENSOR_BYTES));
        if (memcmp(host_other, expected + TENSOR_BYTES, LONG_BYTES - TENSOR_BYTES))
            give_up("set %d of a model: wrong bytes without an error", i);
    }
    return true;
}

static bool open_for_files(struct world *w)
{
    STEP(leat_device_open(test_device_name(), &w->device));
    STEP(leat_stream_create(w->device, &w->stream));
    STEP(leat_stream_create(w->device, &w->second));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_DEVICE, LONG_BYTES, &w->plain));
    STEP(leat_memory_alloc(w->device, LEAT_KIND_PINNED, LONG_BYTES, &w->pinned));
    return true;
}

static void free_walk_tickets(struct world *w)
{
    for (int i = 0; i < TICKETS; i++)
        if (w->tickets[i])
            END(leat_ticket_destroy(w->tickets[i]));
}

void file_scenario(struct world *w)
{
    const char *path = path_of("model.safetensors");
    leat_model_load *load = NULL;
    leat_model_set *sets[2] = {NULL, NULL};
    leat_model *model = NULL;

    if (leat_model_open(&path, 1, &model) != LEAT_OK)
        give_up("the model cannot be opened: %s", leat_last_error());
    if (open_for_files(w) && move_lists(w, false) && move_lists(w, true) && use_file_tickets(w) &&
        commit_file(w, false) && commit_file(w, true))
        load_model(w, model, &load, sets);
    if (w->device)
        FREE(leat_device_synchronize(w->device));
    FREE(leat_model_load_destroy(load));
    FREE(leat_model_set_destroy(sets[0]));
    FREE(leat_model_set_destroy(sets[1]));
    FREE(leat_model_close(model));
    free_walk_tickets(w);
    FREE(leat_memory_free(w->plain));
    FREE(leat_memory_free(w->pinned));
    END(leat_stream_destroy(w->second));
    END(leat_stream_destroy(w->stream));
    END(leat_device_close(w->device));
    test_pattern(host_in, LONG_BYTES, 93);
    expect_committed();
}

/* Closes the device while copies and a commit run. After that the file must either be complete, or have no
 * name. */
void lazy_file_scenario(struct world *w)
{
    leat_file *file = NULL;
    bool given = false;

    (void)unlink(path_of("committed"));
    test_pattern(host_in, LONG_BYTES, 93);
    if (open_for_files(w) &&
        keep(w, "open", leat_file_open(path_of("committed"), LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY, &file)) ==
            LEAT_OK)
        given = keep(w, "slow", leat_launch_host(w->stream, count_slowly, &w->host_calls)) == LEAT_OK &&
                keep(w, "copy", leat_copy(w->stream, w->plain, host_in, LONG_BYTES)) == LEAT_OK &&
                keep(w, "write", leat_file_write(w->stream, file, 0, w->plain, LONG_BYTES)) == LEAT_OK &&
                keep(w, "commit", leat_file_commit_start(w->stream, file, NULL, &w->tickets[0])) == LEAT_OK;
    END(leat_device_close(w->device));
    if (w->tickets[0]) {
        leat_status status = leat_ticket_wait(w->tickets[0], LEAT_COPY_POINT_DURABLE, 0);

        if (status == LEAT_OK && access(path_of("committed"), F_OK))
            give_up("a commit has succeeded, and the file is not there");
        if (given && !w->failed)
            keep(w, "wait", status);
        (void)leat_ticket_destroy(w->tickets[0]);
    }
    END(leat_file_close(file));
    expect_committed();
}

/*
 * test_file_faults.c - runs rounds of random copies between files and memory, on a disk that fails at random.
 *
 * Each round opens a device, which uses three files: one that is only read, one that is written in place, and a
 * new one that may be committed. System calls fail, move fewer bytes or take long (bad_disk.h), copies are
 * cancelled or pass their deadline, handles are closed early, and the device is sometimes closed while copies run.
 * In all cases each round must end; copies that succeed must move the right bytes and change no byte around their
 * ranges; the stream must report each failure once, with the path; the new file must have its name only with all
 * its bytes; no descriptor, pinned memory or temporary file may stay; and leat must print nothing.
 *
 * TEST_FILE_FAULTS or --rounds sets the number of rounds. --seed and --round repeat one round.
 */
#include "bad_disk.h"
#include "file_room.h"
#include "seed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ROUNDS = 200,
    ZONE = 1 << 20, /* bytes. Memory of each kind has two zones: one to read files into, one to write them from */
    FILE_BYTES = ZONE + 300000, /* more bytes than a round can write */
    OLD_BYTES = 300000,         /* initial size of the file that is written in place */
    COPIES_MOST = 200,
    OPS_MOST = 12,
    FILES = 3
};

enum { IN, OUT, NEW };
static const char *const names[FILES] = {"in", "out", "new"};

/* ---- random numbers ---- */

static uint64_t seed, random_state, round_count = ROUNDS, only_round, round_now;

static uint64_t below(uint64_t limit)
{
    uint64_t mixed = random_state += 0x9e3779b97f4a7c15u;

    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    return (mixed ^ mixed >> 31) % limit;
}

static bool chance(unsigned percent)
{
    return below(100) < percent;
}

/* ---- a round ---- */

/* The expected content of memory or of a file. */
struct bytes {
    unsigned char *expected;
    unsigned char *unknown; /* byte is 1: a failed or stopped copy may have written it */
};

/* One range of an op. */
struct piece {
    unsigned place, file;
    size_t at, offset, bytes;
    bool write;
};

/* One call that copies, syncs or commits. */
struct op {
    const char *what;
    size_t first, count; /* index and number of the op's pieces in round.pieces */
    leat_ticket *ticket;
    bool submitted, stoppable, commit, detached;
    leat_status status; /* LEAT_NOT_READY: the result is not known */
};

struct round {
    leat_device *device;
    leat_stream *stream;
    leat_file *files[FILES];
    struct bytes contents[FILES], places[KINDS];
    unsigned char *memory[KINDS];
    size_t next_place[KINDS], next_offset[FILES], size[FILES], largest[FILES];
    struct piece pieces[COPIES_MOST];
    size_t piece_count;
    struct op ops[OPS_MOST];
    unsigned op_count;
    bool had_old, committed, harmless, failure_told;
    char failure[600]; /* first message that no cancel or deadline explains; empty: none */
    atomic_int gate_open;
    unsigned descriptors;
};

static struct round r; /* the buffers are reused in each round */

static unsigned count_names(const char *path)
{
    DIR *directory = opendir(path);
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* ---- injected failures ---- */

/* Draws a random rule. Returns true if leat must hide its effect from the program. */
static bool draw_rule(struct bad_disk_rule *rule, bool direct)
{
    static const int errors[] = {EIO, ENOSPC, EINTR, EAGAIN, ENOSYS, EPERM, EMFILE, EINVAL, EOPNOTSUPP};

    *rule = (struct bad_disk_rule){.call = (enum bad_disk_call)below(BAD_DISK_CALLS),
                                   .first = 1 + below(chance(50) ? 4 : 30),
                                   .every = chance(50) ? 0 : 1 + below(4)};
    if (chance(60)) /* most rules are for reads and writes */
        rule->call = (enum bad_disk_call)(BAD_DISK_READ + below(4));
    switch (below(4)) {
    case 0:
        rule->delay_us = 1 + below(3000);
        return true;
    case 1:
        rule->most_bytes = 100 + below(chance(50) ? 900 : 50000);
        return true;
    default:
        rule->error = errors[below(sizeof errors / sizeof errors[0])];
        break;
    }
    if (rule->error == EINTR)
        rule->every = 0; /* if every call were interrupted, leat would rightly retry for ever */
    switch (rule->call) {
    case BAD_DISK_NOWAIT:
    case BAD_DISK_CACHESTAT:
    case BAD_DISK_STATX:
    case BAD_DISK_OPEN_TMPFILE:
        return true;
    case BAD_DISK_OPEN_DIRECT:
        return !direct;
    case BAD_DISK_READ_DIRECT:
        return rule->error == EINTR || (!direct && (rule->error == EINVAL || rule->error == EOPNOTSUPP));
    case BAD_DISK_READ:
    case BAD_DISK_WRITE:
    case BAD_DISK_WRITE_DIRECT:
    case BAD_DISK_SYNC:
        return rule->error == EINTR;
    default:
        return false;
    }
}

static void set_rules(bool direct)
{
    struct bad_disk_rule rules[8];
    unsigned count = 0;

    r.harmless = true;
    for (uint64_t i = below(5); i; i--)
        r.harmless = draw_rule(&rules[count++], direct) && r.harmless;
    if (chance(30)) /* the file system has no unnamed files */
        rules[count++] =
            (struct bad_disk_rule){.call = BAD_DISK_OPEN_TMPFILE, .first = 1, .every = 1, .error = EOPNOTSUPP};
    if (chance(30)) { /* the calls say that nothing is in the cache */
        rules[count++] =
            (struct bad_disk_rule){.call = BAD_DISK_CACHESTAT, .first = 1, .every = 1, .error = ENOSYS};
        rules[count++] = (struct bad_disk_rule){.call = BAD_DISK_NOWAIT, .first = 1, .every = 1, .error = EAGAIN};
    }
    bad_disk_set(rules, count);
}

/* ---- files and memory ---- */

static void write_whole(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void make_files(void)
{
    for (unsigned f = 0; f < FILES; f++) {
        memset(r.contents[f].unknown, 0, FILE_BYTES);
        memset(r.contents[f].expected, 0, FILE_BYTES);
        r.next_offset[f] = below(5000);
        r.size[f] = r.largest[f] = f == IN ? FILE_BYTES : f == OUT ? OLD_BYTES : 0;
        test_pattern(r.contents[f].expected, r.size[f], 10 + f);
    }
    write_whole(path_of(names[OUT]), r.contents[OUT].expected, OLD_BYTES);
    (void)unlink(path_of(names[NEW]));
    r.had_old = chance(50);
    if (r.had_old)
        write_whole(path_of(names[NEW]), "old", 3);
}

static void open_files(unsigned mode)
{
    const unsigned flags[FILES] = {LEAT_FILE_READ, LEAT_FILE_READ | LEAT_FILE_WRITE,
                                   LEAT_FILE_WRITE | LEAT_FILE_TEMPORARY};

    for (unsigned f = 0; f < FILES; f++) {
        leat_status status = leat_file_open(path_of(names[f]), flags[f] | mode, &r.files[f]);

        if (status == LEAT_OK)
            continue;
        r.files[f] = NULL;
        assert_int_equal(status, LEAT_ERROR_FILE);
        assert_non_null(strstr(leat_last_error(), path_of(names[f])));
        if (r.harmless && !(mode & LEAT_FILE_DIRECT))
            fail_msg("leat_file_open failed by itself: %s", leat_last_error());
    }
}

static void make_places(void)
{
    for (unsigned k = 0; k < KINDS; k++) {
        struct bytes *place = &r.places[k];

        memset(place->unknown, 0, 2 * ZONE);
        memset(place->expected, 0xee, ZONE);
        test_pattern(place->expected + ZONE, ZONE, 20 + k);
        r.next_place[k] = 1 + below(5000);
        r.memory[k] =
            kinds[k] == LEAT_KIND_PAGEABLE ? test_buffer(2 * ZONE) : test_alloc(r.device, kinds[k], 2 * ZONE);
        OK(leat_copy(r.stream, r.memory[k], place->expected, 2 * ZONE));
    }
    OK(leat_stream_synchronize(r.stream));
}

/* ---- ops ---- */

static void wait_at_gate(void *argument)
{
    (void)argument;
    (void)test_wait_for(&r.gate_open, 1);
}

/* Adds a random piece to the last op. Pieces never overlap. Returns false if the memory, the file or the list has
 * no room. */
static bool add_piece(unsigned file, bool write, size_t most)
{
    unsigned k = (unsigned)below(KINDS);
    size_t bytes = 1 + below(chance(70) ? (most < 5000 ? most : 5000) : most), gap = chance(50) ? 0 : below(5000);

    if (r.piece_count == COPIES_MOST || r.next_place[k] + gap + bytes >= ZONE ||
        r.next_offset[file] + gap + bytes >= FILE_BYTES)
        return false;
    if (write)
        r.largest[file] = r.next_offset[file] + gap + bytes > r.largest[file] ? r.next_offset[file] + gap + bytes
                                                                              : r.largest[file];
    r.pieces[r.piece_count++] = (struct piece){.place = k,
                                               .file = file,
                                               .at = r.next_place[k] + gap,
                                               .offset = r.next_offset[file] + gap,
                                               .bytes = bytes,
                                               .write = write};
    r.ops[r.op_count].count++;
    r.next_place[k] += gap + bytes + (chance(50) ? 0 : below(100));
    r.next_offset[file] += gap + bytes;
    return true;
}

static void *memory_of(const struct piece *piece)
{
    return r.memory[piece->place] + (piece->write ? ZONE : 0) + piece->at;
}

static leat_status submit_piece(struct op *op, const struct piece *piece, const leat_copy_options *options,
                                bool start)
{
    leat_file *file = r.files[piece->file];

    op->what = piece->write ? "a write" : "a read";
    if (start)
        return piece->write ? leat_file_write_start(r.stream, file, piece->offset, memory_of(piece), piece->bytes,
                                                    options, &op->ticket)
                            : leat_file_read_start(r.stream, memory_of(piece), file, piece->offset, piece->bytes,
                                                   options, &op->ticket);
    return piece->write ? leat_file_write(r.stream, file, piece->offset, memory_of(piece), piece->bytes)
                        : leat_file_read(r.stream, memory_of(piece), file, piece->offset, piece->bytes);
}

static leat_status submit_batch(struct op *op, const leat_copy_options *options, bool start)
{
    leat_file_op list[COPIES_MOST];
    bool write = r.pieces[op->first].write;

    op->what = write ? "a batch of writes" : "a batch of reads";
    for (size_t i = 0; i < op->count; i++) {
        const struct piece *piece = &r.pieces[op->first + op->count - 1 - i];

        list[i] = (leat_file_op){r.files[piece->file], piece->offset, memory_of(piece), piece->bytes};
    }
    if (start)
        return write ? leat_file_write_batch_start(r.stream, list, op->count, options, &op->ticket)
                     : leat_file_read_batch_start(r.stream, list, op->count, options, &op->ticket);
    return write ? leat_file_write_batch(r.stream, list, op->count)
                 : leat_file_read_batch(r.stream, list, op->count);
}

static leat_status submit_end(struct op *op, unsigned file, const leat_copy_options *options, bool start)
{
    op->commit = file == NEW && chance(70);
    op->detached = start;
    op->what = op->commit ? "a commit" : "a sync";
    if (op->commit)
        return start ? leat_file_commit_start(r.stream, r.files[file], options, &op->ticket)
                     : leat_file_commit(r.stream, r.files[file]);
    return start ? leat_file_sync_start(r.stream, r.files[file], options, &op->ticket)
                 : leat_file_sync(r.stream, r.files[file]);
}

/* Submits a random op. */
static void add_op(void)
{
    unsigned file = (unsigned)below(FILES);
    leat_copy_options options = {.size = sizeof options,
                                 .deadline_ns = 1 + below(chance(50) ? 1000000 : 20000000)};
    bool start = chance(60), limited = start && chance(15), ends = file != IN && chance(25);
    struct op *op = &r.ops[r.op_count];
    unsigned wanted = chance(40) ? 1 + (unsigned)below(30) : 1;

    if (!r.files[file] || (file == NEW && r.committed))
        return;
    *op = (struct op){.first = r.piece_count, .status = LEAT_NOT_READY, .stoppable = limited};
    if (ends) {
        op->status = submit_end(op, file, limited ? &options : NULL, start);
    } else {
        for (unsigned i = 0; i < wanted && add_piece(file, file != IN, wanted == 1 ? 400000 : 60000); i++)
            continue;
        if (!op->count)
            return;
        op->status = op->count == 1 ? submit_piece(op, &r.pieces[op->first], limited ? &options : NULL, start)
                                    : submit_batch(op, limited ? &options : NULL, start);
    }
    op->submitted = op->status == LEAT_OK;
    if (op->submitted)
        op->status = LEAT_NOT_READY;
    else if (op->status != LEAT_ERROR_FILE || r.harmless)
        fail_msg("%s cannot be submitted: %s", op->what, leat_last_error());
    r.committed = r.committed || (op->submitted && op->commit);
    r.op_count++;
}

/* Checks the message of a failure, and keeps it unless a stopped copy explains it. */
static void note_failure(const char *what)
{
    const char *message = leat_last_error();
    bool stopped = false;

    if (!strstr(message, folder))
        fail_msg("%s failed, and the message has no file: %s", what, message);
    /* If an earlier write was stopped, the commit fails because of it. */
    for (unsigned i = 0; i < r.op_count; i++)
        stopped = stopped || r.ops[i].stoppable;
    if (!r.failure[0] && !(stopped && strstr(message, "is not committed: an earlier write")))
        snprintf(r.failure, sizeof r.failure, "%s: %s", what, message);
}

/* Waits for the stream. Only the first wait after a failure returns an error. */
static void synchronize(void)
{
    leat_status status = leat_stream_synchronize(r.stream);

    if (status == LEAT_OK)
        return;
    assert_int_equal(status, LEAT_ERROR_FILE);
    note_failure("work of the stream");
    r.failure_told = true;
}

/* Closes the device while its stream still exists: returns a failure that no wait has returned. */
static void close_device(void)
{
    leat_status status = leat_device_close(r.device);

    if (status == LEAT_OK)
        return;
    assert_int_equal(status, LEAT_ERROR_FILE);
    note_failure("closing the device");
}

static void disturb(void)
{
    unsigned n = (unsigned)below(OPS_MOST);

    switch (below(8)) {
    case 0:
        test_sleep_us((long)below(2000));
        break;
    case 1:
        atomic_store(&r.gate_open, 1);
        break;
    case 2:
        if (atomic_load(&r.gate_open))
            synchronize();
        break;
    case 3:
    case 4:
        if (n < r.op_count && r.ops[n].ticket) {
            r.ops[n].stoppable = true;
            OK(leat_ticket_cancel(r.ops[n].ticket));
        }
        break;
    case 5:
        n %= FILES;
        if (chance(30)) {
            OK(leat_file_close(r.files[n]));
            r.files[n] = NULL;
        }
        break;
    default:
        break;
    }
}

/* ---- the end of a round ---- */

static void wait_for(struct op *op)
{
    if (!op->ticket)
        return;
    op->status =
        leat_ticket_wait(op->ticket, op->detached ? LEAT_COPY_POINT_DURABLE : LEAT_COPY_POINT_DONE, LEAT_FOREVER);
    if (op->status == LEAT_OK)
        return;
    if (op->status == LEAT_ERROR_FILE)
        note_failure(op->what);
    else if (!op->stoppable || (op->status != LEAT_ERROR_CANCELLED && op->status != LEAT_ERROR_DEADLINE))
        fail_msg("%s failed with another error: %s", op->what, leat_last_error());
}

/* Updates the expected content with the bytes that a piece of an op should have copied. */
static void apply(const struct op *op, const struct piece *piece, bool all_done)
{
    struct bytes *to = piece->write ? &r.contents[piece->file] : &r.places[piece->place];
    const struct bytes *from = piece->write ? &r.places[piece->place] : &r.contents[piece->file];
    size_t at = piece->write ? piece->offset : piece->at, of = piece->write ? ZONE + piece->at : piece->offset;
    size_t known = op->status == LEAT_OK || all_done ? piece->bytes : 0;

    if (!op->submitted)
        return;
    if (op->ticket && op->count == 1)
        known = (size_t)test_ticket_info(op->ticket).arrived_bytes;
    memcpy(to->expected + at, from->expected + of, piece->bytes);
    memset(to->unknown + at + known, 1, piece->bytes - known);
    if (piece->write && at + known > r.size[piece->file] && known)
        r.size[piece->file] = at + known;
}

static void compare(const unsigned char *seen, const struct bytes *bytes, size_t count, const char *what)
{
    if (!memcmp(seen, bytes->expected, count))
        return;
    for (size_t i = 0; i < count; i++)
        if (seen[i] != bytes->expected[i] && !bytes->unknown[i])
            fail_msg("byte %zu of %zu of %s is 0x%02x instead of 0x%02x", i, count, what, seen[i],
                     bytes->expected[i]);
}

static unsigned char *read_whole(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    unsigned char *data = test_buffer(FILE_BYTES + 1);

    assert_non_null(file);
    *bytes = fread(data, 1, FILE_BYTES + 1, file);
    assert_int_equal(fclose(file), 0);
    return data;
}

static void check_out(void)
{
    size_t bytes;
    unsigned char *data = read_whole(path_of(names[OUT]), &bytes);

    assert_in_range(bytes, r.size[OUT], r.largest[OUT]);
    compare(data, &r.contents[OUT], bytes, "the file that is written");
    free(data);
}

/* Checks that the new file has its name only if it was committed and every earlier write has succeeded. */
static void check_new(bool all_done)
{
    const struct op *commit = NULL;
    bool is_new = false, is_there = !access(path_of(names[NEW]), F_OK);
    struct bytes whole = r.contents[NEW];
    unsigned char *data;
    size_t bytes;

    for (unsigned i = 0; i < r.op_count; i++)
        if (r.ops[i].commit && r.ops[i].submitted)
            commit = &r.ops[i];
    if (is_there) {
        data = read_whole(path_of(names[NEW]), &bytes);
        is_new = bytes != 3 || memcmp(data, "old", 3) != 0;
        if (is_new) {
            whole.unknown = calloc(1, FILE_BYTES);
            assert_int_equal(bytes, r.largest[NEW]);
            compare(data, &whole, bytes, "the new file");
            free(whole.unknown);
        }
        free(data);
    }
    assert_true(is_there || !r.had_old);
    if (!commit)
        assert_false(is_new);
    else if (commit->status == LEAT_OK || all_done)
        assert_true(is_new);
    else if (commit->status == LEAT_ERROR_CANCELLED || commit->status == LEAT_ERROR_DEADLINE)
        assert_false(is_new);
    /* The folder has ".", "..", the other two files, and no temporary file. */
    assert_int_equal(count_names(folder), 2 + 2 + is_there);
}

/* Compares memory and the file that is written in place. all_done: every op is known to have succeeded. */
static void check_bytes(bool with_device, bool all_done)
{
    unsigned char *out = test_buffer(2 * ZONE);

    for (unsigned i = 0; i < r.op_count; i++)
        for (size_t n = 0; n < r.ops[i].count; n++)
            apply(&r.ops[i], &r.pieces[r.ops[i].first + n], all_done);
    for (unsigned k = 0; k < KINDS; k++) {
        const unsigned char *seen = r.memory[k];

        if (kinds[k] != LEAT_KIND_PAGEABLE) {
            if (!with_device)
                continue;
            OK(leat_copy_sync(r.stream, out, r.memory[k], 2 * ZONE));
            OK(leat_stream_synchronize(r.stream));
            seen = out;
        }
        compare(seen, &r.places[k], 2 * ZONE, "memory");
    }
    free(out);
    check_out();
}

static void free_memory(bool with_device)
{
    for (unsigned k = 0; k < KINDS; k++)
        if (with_device || kinds[k] == LEAT_KIND_PAGEABLE)
            end_memory(kinds[k], r.memory[k]);
}

/* Waits for all ops and checks that each failure was reported. Returns true if every op has succeeded. */
static bool end_ops(bool with_device)
{
    bool all_known = true, all_fine = true, failed = false;

    for (unsigned i = 0; i < r.op_count; i++) {
        wait_for(&r.ops[i]);
        all_known = all_known && r.ops[i].status != LEAT_NOT_READY;
        all_fine = all_fine && (r.ops[i].status == LEAT_OK || r.ops[i].status == LEAT_NOT_READY);
        failed = failed || (r.ops[i].submitted && r.ops[i].status == LEAT_ERROR_FILE);
    }
    if (!with_device)
        return all_fine && all_known;
    synchronize();
    OK(leat_stream_synchronize(r.stream));
    if (failed && !r.failure_told)
        fail_msg("a ticket has failed, and the stream has not told it");
    if (all_known && !failed && r.failure_told)
        fail_msg("the stream has told a failure, and no ticket has failed");
    return all_fine && !r.failure_told;
}

static void end_round(void)
{
    bool with_device = chance(75), all_done;
    uint64_t fired;

    atomic_store(&r.gate_open, 1);
    if (!with_device)
        close_device();
    all_done = end_ops(with_device);
    fired = bad_disk_end();
    if ((!fired || r.harmless) && r.failure[0])
        fail_msg("something failed by itself: %s", r.failure);
    check_bytes(with_device, all_done);
    for (unsigned f = 0; f < FILES; f++)
        OK(leat_file_close(r.files[f]));
    free_memory(with_device);
    if (with_device) {
        OK(leat_stream_destroy(r.stream));
        OK(leat_device_close(r.device));
    }
    for (unsigned i = 0; i < r.op_count; i++)
        OK(leat_ticket_destroy(r.ops[i].ticket));
    /* No copy and no handle uses the file any more. */
    check_new(all_done);
    /* A driver may keep descriptors open after the first round. Later rounds must leave the same number. */
    if (!r.descriptors)
        r.descriptors = count_names("/proc/self/fd");
    assert_int_equal(count_names("/proc/self/fd"), r.descriptors);
}

static void run_round(void)
{
    static const unsigned modes[] = {0, LEAT_FILE_CACHED, LEAT_FILE_DIRECT};
    unsigned mode = modes[below(3)];
    bool early = chance(50); /* set the rules before the files are opened */

    r.piece_count = r.op_count = 0;
    r.committed = r.failure_told = false;
    r.failure[0] = '\0';
    r.harmless = true;
    atomic_store(&r.gate_open, 0);
    make_files();
    r.device = test_open();
    OK(leat_stream_create(r.device, &r.stream));
    make_places();
    if (early)
        set_rules(mode == LEAT_FILE_DIRECT);
    open_files(mode);
    if (!early)
        set_rules(mode == LEAT_FILE_DIRECT);
    if (chance(50))
        OK(leat_launch_host(r.stream, wait_at_gate, NULL));
    else
        atomic_store(&r.gate_open, 1);
    for (uint64_t i = 1 + below(OPS_MOST); i; i--) {
        add_op();
        if (chance(40))
            disturb();
    }
    end_round();
}

/* ---- all rounds ---- */

static int stderr_before, captured;

/* leat must print nothing. Redirects standard error to a file, so that the rounds can check that. */
static void capture_stderr(void)
{
    char path[TEMPORARY_PATH];

    captured = temporary_file(path);
    assert_true(captured >= 0);
    assert_int_equal(unlink(path), 0);
    stderr_before = dup(STDERR_FILENO);
    assert_true(stderr_before >= 0 && dup2(captured, STDERR_FILENO) >= 0);
}

static void give_stderr_back(void)
{
    char text[4096];
    ssize_t some;
    off_t at = 0;

    if (!captured)
        return;
    fflush(stderr);
    (void)dup2(stderr_before, STDERR_FILENO);
    while ((some = pread(captured, text, sizeof text, at)) > 0) {
        fwrite(text, 1, (size_t)some, stderr);
        at += some;
    }
}

static void rounds_end_well(void **state)
{
    struct stat what;

    (void)state;
    test_let_leat_catch_faults(); /* without leat's handlers, leat stores to no mappings of files */
    for (unsigned f = 0; f < FILES; f++)
        r.contents[f] = (struct bytes){test_buffer(FILE_BYTES), test_buffer(FILE_BYTES)};
    for (unsigned k = 0; k < KINDS; k++)
        r.places[k] = (struct bytes){test_buffer(2 * ZONE), test_buffer(2 * ZONE)};
    test_pattern(r.contents[IN].expected, FILE_BYTES, 10 + IN);
    write_whole(path_of(names[IN]), r.contents[IN].expected, FILE_BYTES);
    capture_stderr();
    for (round_now = 1; round_now <= round_count; round_now++) {
        if (only_round && round_now != only_round)
            continue;
        random_state = seed * 0x9e3779b97f4a7c15u + round_now * 0xd1342543de82ef95u;
        run_round();
        assert_int_equal(fstat(captured, &what), 0);
        if (what.st_size)
            fail_msg("leat has printed something");
    }
    give_stderr_back();
    captured = 0;
    for (unsigned f = 0; f < FILES; f++) {
        free(r.contents[f].expected);
        free(r.contents[f].unknown);
    }
    for (unsigned k = 0; k < KINDS; k++) {
        free(r.places[k].expected);
        free(r.places[k].unknown);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(rounds_end_well)};

int main(int argc, char **argv)
{
    int failed;

    if (getenv("TEST_FILE_FAULTS"))
        round_count = strtoull(getenv("TEST_FILE_FAULTS"), NULL, 0);
    seed = test_seed();
    for (int i = 1; i + 1 < argc; i += 2)
        *(!strcmp(argv[i], "--seed")    ? &seed
          : !strcmp(argv[i], "--round") ? &only_round
                                        : &round_count) = strtoull(argv[i + 1], NULL, 0);
    printf("seed 0x%" PRIx64 ", %" PRIu64 " rounds\n", seed, round_count);
    fflush(stdout);
    setenv("LEAT_COPY_RING", "256K", 1);
    setenv("LEAT_COPY_STORE_POLICY", "cached", 0);
    if (!test_device_there())
        return 77;
    test_keep_handlers();
    failed = cmocka_run_group_tests(tests, make_folder, remove_folder);
    give_stderr_back();
    if (failed)
        printf("round %" PRIu64 " has failed: repeat it with --seed 0x%" PRIx64 " --rounds %" PRIu64
               " --round %" PRIu64 "\n",
               round_now, seed, round_count, round_now);
    return failed ? 1 : 0;
}

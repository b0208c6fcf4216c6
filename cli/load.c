/*
 * load.c - "leat load": loads the tensors of model files to devices, reports how and how fast, and verifies them.
 */
#include "load.h"
#include "cli.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const char cli_load_help[] =
    "Usage: leat load FILES... [--device NAMES] [--split] [--only PATTERN] [--verify] [--json]\n\n"
    "Opens FILES as one set (safetensors files, or an index in place of the files that it names), loads their\n"
    "tensors to a device, and prints the rate and, for each file, how much of it was in the system's cache "
    "before\n"
    "the load, the protocol and why it was chosen. Several devices each get all tensors: each byte is read once, and\n"
    "copied from device to device.\n\n"
    "Options:\n"
    "  --device NAMES  the device, such as cuda:1 or cpu:0, or several: cuda:0,cuda:1; without it the best there is\n"
    "  --split         gives each device a part of the tensors, with about the same number of bytes\n"
    "  --only PATTERN  only the tensors whose names match, such as '*.mlp.*'; a * also matches dots and slashes\n"
    "  --verify        reads the files again by pread() and compares them with what comes back from the device\n"
    "  --json          prints JSON\n"
    "  --help          this text\n\n"
    "Exit status 1 when a file or the load failed, or bytes were wrong.\n";

enum { CHUNK_BYTES = 8 << 20, LOOK_NS = 100000000, BAR_CHARACTERS = 30, TEXT_BYTES = 4096 };

struct load_options {
    char **paths;
    size_t count;
    const char *device, *only;
    bool split, verify, json;
};

/* One device, and what is loaded to it. */
struct load_lane {
    leat_device *device;
    leat_stream *stream;
    leat_model_set *set; /* NULL with --split */
    void *block;         /* with --split: the memory of its tensors */
    uint64_t block_bytes;
};

/* With --split: the device of a tensor, and its offset in the block of that device. */
struct load_place {
    size_t lane;
    uint64_t at;
};

/* The state of the command. */
struct load_work {
    const struct load_options *options;
    leat_model *model;
    struct load_lane lanes[LOAD_DEVICES_MAX];
    size_t lane_count;
    struct load_place *places; /* one for each tensor of the model; NULL without --split */
    leat_model_load *load;     /* NULL before the load */
    struct load_report report;
};

static bool failed(const char *what)
{
    cli_complain("load: %s%s%s", what, what[0] ? ": " : "", leat_last_error());
    return false;
}

static bool out_of_memory(void)
{
    cli_complain("load: out of host memory");
    return false;
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- choosing the tensors ---- */

static bool is_wanted(const struct load_work *work, const char *name)
{
    return !work->options->only || !fnmatch(work->options->only, name, 0);
}

/* A contiguous range of a file that consists of consecutive wanted tensors of one device. */
struct run {
    uint64_t offset, bytes;
    char *memory; /* its bytes on the device; NULL before the load */
    size_t first; /* index of its first tensor */
    size_t lane;
};

/* Describe a tensor and a file of the open model. These calls fail only for wrong arguments. */
static leat_model_tensor_info tensor_of(const struct load_work *work, size_t index)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;

    (void)leat_model_get_tensor_info(work->model, index, &info);
    return info;
}

static leat_model_file_info file_of(const struct load_work *work, size_t index)
{
    leat_model_file_info info = LEAT_MODEL_FILE_INFO_INIT;

    (void)leat_model_get_file_info(work->model, index, &info);
    return info;
}

/* Returns the address of a tensor on a device, or NULL before the load. */
static void *memory_of(const struct load_work *work, size_t lane, size_t tensor)
{
    void *memory = NULL;

    if (work->load && work->places)
        return (char *)work->lanes[lane].block + work->places[tensor].at;
    if (work->load)
        (void)leat_model_set_get_pointer(work->lanes[lane].set, tensor, &memory);
    return memory;
}

/* Finds the next run of a file, from tensor *next on, and advances *next. Returns false if there is no further
 * run. After the load, a run is contiguous in the memory of the device too. */
static bool next_run(const struct load_work *work, const leat_model_file_info *file, size_t lane, size_t *next,
                     struct run *run)
{
    size_t end = file->first_tensor + file->tensors;

    run->bytes = 0;
    for (; *next < end; ++*next) {
        leat_model_tensor_info tensor = tensor_of(work, *next);
        bool wanted = tensor.bytes && is_wanted(work, tensor.name) &&
                      (!work->load || !work->places || work->places[*next].lane == lane);
        void *memory = wanted ? memory_of(work, lane, *next) : NULL;

        if (run->bytes && (!wanted || tensor.offset != run->offset + run->bytes ||
                           (memory && memory != run->memory + run->bytes)))
            return true;
        if (!wanted)
            continue;
        if (!run->bytes)
            *run = (struct run){.offset = tensor.offset, .memory = memory, .first = *next, .lane = lane};
        run->bytes += tensor.bytes;
    }
    return run->bytes > 0;
}

/* Counts the wanted tensors and their bytes. */
static bool count_tensors(struct load_work *work)
{
    struct load_report *report = &work->report;
    size_t all = 0;

    if (leat_model_count(work->model, &all, &report->file_count) != LEAT_OK)
        return failed("");
    report->files = calloc(report->file_count, sizeof *report->files);
    if (!report->files)
        return out_of_memory();
    for (size_t i = 0; i < all; i++) {
        leat_model_tensor_info tensor = tensor_of(work, i);

        if (!is_wanted(work, tensor.name))
            continue;
        report->tensors++;
        report->bytes += tensor.bytes;
        report->files[tensor.file].tensors++;
        report->files[tensor.file].bytes += tensor.bytes;
    }
    report->tensors_there = all;
    if (!report->tensors && work->options->only) {
        cli_complain(
            "load: --only '%s' matches none of the %zu tensors%s%s%s; a pattern must match the whole name",
            work->options->only, all, all ? ", such as '" : "", all ? tensor_of(work, 0).name : "",
            all ? "'" : "");
        return false;
    }
    return true;
}

/* Sets for each file the share of its wanted bytes that is in the system's cache. */
static bool look_at_cache(struct load_work *work)
{
    for (size_t i = 0; i < work->report.file_count; i++) {
        leat_model_file_info info = file_of(work, i);
        struct load_file *file = &work->report.files[i];
        uint64_t sum = 0, cached = 0;
        struct run run = {0};
        size_t next;

        file->path = info.path;
        if (leat_file_open(info.path, LEAT_FILE_READ, &file->file) != LEAT_OK)
            return failed("");
        next = info.first_tensor;
        while (next_run(work, &info, 0, &next, &run)) {
            if (leat_file_cached(file->file, run.offset, run.bytes, &cached) != LEAT_OK)
                return failed("");
            sum += cached;
        }
        file->cached_share = file->bytes ? (double)sum / (double)file->bytes : 0;
    }
    return true;
}

/* ---- the load ---- */

/* With --split: gives each device consecutive tensors with about the same number of bytes, and places them in its
 * block. Neighbours in a file stay neighbours in memory, as far as their alignment allows. */
static bool split_tensors(struct load_work *work)
{
    uint64_t given = 0;

    work->places = calloc(work->report.tensors_there + 1, sizeof *work->places);
    if (!work->places)
        return out_of_memory();
    for (size_t i = 0; i < work->report.tensors_there; i++) {
        leat_model_tensor_info tensor = tensor_of(work, i);
        uint64_t middle = given + tensor.bytes / 2;
        size_t lane = 0;

        if (!is_wanted(work, tensor.name))
            continue;
        while (lane + 1 < work->lane_count &&
               (double)middle >= (double)work->report.bytes * (double)(lane + 1) / (double)work->lane_count)
            lane++;
        work->places[i].lane = lane;
        work->places[i].at = (work->lanes[lane].block_bytes + 15) / 16 * 16;
        work->lanes[lane].block_bytes = work->places[i].at + tensor.bytes;
        given += tensor.bytes;
    }
    return true;
}

/* Allocates the blocks, and starts one load for all tensors, each to its device. */
static leat_status start_split(struct load_work *work)
{
    leat_model_item *items = calloc(work->report.tensors + 1, sizeof *items);
    leat_status status = LEAT_OK;
    size_t count = 0;

    if (!items)
        return leat_error_set(LEAT_ERROR_HOST_MEMORY, "out of host memory");
    for (size_t i = 0; i < work->lane_count && status == LEAT_OK; i++)
        if (work->lanes[i].block_bytes)
            status = leat_alloc(work->lanes[i].stream, (size_t)work->lanes[i].block_bytes, &work->lanes[i].block);
    for (size_t i = 0; i < work->report.tensors_there && status == LEAT_OK; i++) {
        leat_model_tensor_info tensor = tensor_of(work, i);
        const struct load_place *place = &work->places[i];

        if (!tensor.bytes || !is_wanted(work, tensor.name))
            continue;
        items[count] = (leat_model_item)LEAT_MODEL_ITEM_INIT;
        items[count].tensor = i;
        items[count].dst = (char *)work->lanes[place->lane].block + place->at;
        items[count].dst_bytes = (size_t)tensor.bytes;
        items[count++].stream = work->lanes[place->lane].stream;
    }
    if (status == LEAT_OK)
        status = leat_model_load_start(work->model, items, count, NULL, &work->load);
    free(items);
    return status;
}

/* Starts the load of all tensors to each device. */
static leat_status start_replicas(struct load_work *work)
{
    leat_stream *streams[LOAD_DEVICES_MAX];
    leat_model_set *sets[LOAD_DEVICES_MAX];
    leat_status status;

    for (size_t i = 0; i < work->lane_count; i++)
        streams[i] = work->lanes[i].stream;
    status = leat_model_load_replicas(streams, work->lane_count, work->model, work->options->only, NULL, sets);
    if (status != LEAT_OK)
        return status;
    for (size_t i = 0; i < work->lane_count; i++)
        work->lanes[i].set = sets[i];
    work->load = leat_model_set_get_load(sets[0]);
    return LEAT_OK;
}

static void draw_progress(const struct load_work *work, double seconds)
{
    leat_model_load_info info = LEAT_MODEL_LOAD_INFO_INIT;
    char bar[BAR_CHARACTERS + 1], arrived[TEXT_MAX], all[TEXT_MAX], rate[TEXT_MAX];
    double share;

    if (leat_model_load_get_info(work->load, &info) != LEAT_OK || !info.bytes)
        return;
    info.bytes += info.copied_bytes;
    info.arrived_bytes += info.copied_arrived_bytes;
    share = (double)info.arrived_bytes / (double)info.bytes;
    for (int i = 0; i < BAR_CHARACTERS; i++)
        bar[i] = i < (int)(share * (double)BAR_CHARACTERS) ? '#' : '.';
    bar[BAR_CHARACTERS] = '\0';
    fprintf(stderr, "\r\033[K%3.0f %% [%s] %s of %s, %s GB/s", 100 * share, bar,
            text_bytes(arrived, info.arrived_bytes), text_bytes(all, info.bytes),
            text_figure(rate, (double)info.arrived_bytes * 1e-9 / seconds));
    fflush(stderr);
}

static bool load(struct load_work *work)
{
    struct load_report *report = &work->report;
    bool progress = isatty(STDERR_FILENO);
    leat_model_load_info info = LEAT_MODEL_LOAD_INFO_INIT;
    double start = seconds_now();
    char size[TEXT_MAX];
    leat_status status = work->places ? start_split(work) : start_replicas(work);

    if (status == LEAT_ERROR_DEVICE_MEMORY) {
        cli_complain("load: %s for the tensors, of which --only PATTERN loads a part: %s",
                     text_bytes(size, report->bytes), leat_last_error());
        return false;
    }
    if (status != LEAT_OK)
        return failed("");
    do {
        status = leat_model_load_wait(work->load, LEAT_COPY_POINT_DONE, progress ? LOOK_NS : LEAT_FOREVER);
        if (status == LEAT_NOT_READY)
            draw_progress(work, seconds_now() - start);
    } while (status == LEAT_NOT_READY);
    report->seconds = seconds_now() - start;
    if (progress) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
    if (status != LEAT_OK || leat_model_load_get_info(work->load, &info) != LEAT_OK)
        return failed("");
    report->read_bytes = info.bytes;
    report->delivered_bytes = report->split ? report->bytes : report->bytes * report->device_count;
    return true;
}

/* ---- explaining the reads ---- */

/* Returns a copy of the text between a key of a plan and the end of its line, "" if the plan does not have the
 * key, or NULL if memory is short. */
static char *line_of(const char *text, const char *key)
{
    size_t length;
    const char *line = text_line(text, key, &length);

    return strndup(line, length);
}

/* Lets the library explain the read of a file's longest run, and keeps the explanation for the report. */
static bool explain_file(const struct load_work *work, size_t index)
{
    leat_model_file_info info = file_of(work, index);
    struct load_file *file = &work->report.files[index];
    struct run run, longest = {0};
    char text[TEXT_BYTES], *cache, *behind;
    size_t next;

    for (size_t lane = 0; lane < work->lane_count; lane++) {
        next = info.first_tensor;
        while (next_run(work, &info, lane, &next, &run))
            if (run.bytes > longest.bytes)
                longest = run;
    }
    if (!longest.bytes)
        return true;
    if (leat_file_explain(work->lanes[longest.lane].stream, longest.memory, file->file, longest.offset,
                          (size_t)longest.bytes, text, sizeof text) != LEAT_OK)
        return failed("");
    file->protocol = line_of(text, "\n  protocol ");
    file->why = line_of(text, "\n  why ");
    /* Keep the part of this line behind "; ". The part in front is the share of the range that is in the system's
     * cache now, after the load. */
    cache = line_of(text, "\n  file ");
    behind = cache ? strstr(cache, "; ") : NULL;
    file->access = behind ? strdup(behind + 2) : cache ? strdup(cache) : NULL;
    free(cache);
    if (!file->protocol || !file->why || !file->access)
        return out_of_memory();
    file->protocol[strcspn(file->protocol, ":")] = '\0';
    return true;
}

/* ---- verification ---- */

/* Reads exactly bytes bytes of the file. */
static bool read_bytes(const char *path, int fd, uint64_t offset, char *out, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        ssize_t some = pread(fd, out + done, bytes - done, (off_t)(offset + done));

        if (some > 0) {
            done += (size_t)some;
        } else if (some == 0) {
            cli_complain("load: --verify: %s ends at byte %llu now: it was cut after the load", path,
                         (unsigned long long)(offset + done));
            return false;
        } else if (errno != EINTR) {
            cli_complain("load: --verify: pread of %s at %llu: %s", path, (unsigned long long)(offset + done),
                         strerror(errno));
            return false;
        }
    }
    return true;
}

/* Prints where the first wrong byte is, and sets the result of the verification to LOAD_WRONG. */
static void report_byte(struct load_work *work, const char *path, size_t tensor, uint64_t offset)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;

    work->report.verified = LOAD_WRONG;
    while (leat_model_get_tensor_info(work->model, tensor, &info) == LEAT_OK && info.offset + info.bytes <= offset)
        tensor++;
    cli_complain(
        "load: --verify: tensor '%s' on the device differs from %s at byte %llu of the tensor, %llu of the file; was the file written meanwhile?",
        info.name, path, (unsigned long long)(offset - info.offset), (unsigned long long)offset);
}

/* Compares a run on the device with the file, chunk by chunk. buffers has room for two chunks of CHUNK_BYTES. */
static bool verify_run(struct load_work *work, const char *path, int fd, const struct run *run, char *buffers)
{
    char *wanted = buffers, *found = buffers + CHUNK_BYTES;

    for (uint64_t at = 0; at < run->bytes; at += CHUNK_BYTES) {
        size_t some = run->bytes - at < CHUNK_BYTES ? (size_t)(run->bytes - at) : CHUNK_BYTES, i;

        if (!read_bytes(path, fd, run->offset + at, wanted, some))
            return false;
        if (leat_copy_sync(work->lanes[run->lane].stream, found, run->memory + at, some) != LEAT_OK)
            return failed("--verify");
        for (i = 0; i < some && memcmp(wanted, found, some); i++)
            if (wanted[i] != found[i]) {
                report_byte(work, path, run->first, run->offset + at + i);
                return false;
            }
    }
    return true;
}

static bool verify_file(struct load_work *work, size_t index, char *buffers)
{
    leat_model_file_info info = file_of(work, index);
    struct run run;
    bool fine = true;
    int fd;

    fd = open(info.path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
        cli_complain("load: --verify: open of %s: %s", info.path, strerror(errno));
        return false;
    }
    for (size_t lane = 0; lane < work->lane_count; lane++) {
        size_t next = info.first_tensor;

        while (fine && next_run(work, &info, lane, &next, &run))
            fine = verify_run(work, info.path, fd, &run, buffers);
    }
    close(fd);
    return fine;
}

static bool verify(struct load_work *work)
{
    char *buffers = malloc(2 * (size_t)CHUNK_BYTES);
    bool fine = true;

    if (!buffers)
        return out_of_memory();
    for (size_t i = 0; i < work->report.file_count && fine; i++)
        fine = verify_file(work, i, buffers);
    free(buffers);
    if (fine)
        work->report.verified = LOAD_VERIFIED;
    return fine;
}

/* ---- the command ---- */

/* Opens a device and makes a stream for it. name: NULL for the best device. */
static bool open_device(struct load_work *work, const char *name)
{
    struct load_report *report = &work->report;
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    struct load_lane *lane;

    if (work->lane_count == LOAD_DEVICES_MAX) {
        cli_complain("load: --device names more than %d devices", LOAD_DEVICES_MAX);
        return false;
    }
    lane = &work->lanes[work->lane_count++];
    if (leat_device_open(name, &lane->device) != LEAT_OK || leat_device_get_info(lane->device, &info) != LEAT_OK ||
        leat_stream_create(lane->device, &lane->stream) != LEAT_OK)
        return failed("");
    for (size_t i = 0; i < report->device_count; i++)
        if (!strcmp(report->devices[i], info.name)) {
            cli_complain("load: --device names %s twice", info.name);
            return false;
        }
    snprintf(report->devices[report->device_count++], sizeof report->devices[0], "%s", info.name);
    return true;
}

/* Opens the devices of a list such as "cuda:0,cuda:1". */
static bool open_devices(struct load_work *work)
{
    const char *at = work->options->device;
    bool fine = true;

    if (!at)
        return open_device(work, NULL);
    while (fine) {
        size_t length = strcspn(at, ",");
        char *name = strndup(at, length);

        fine = name ? open_device(work, name) : out_of_memory();
        free(name);
        if (!at[length])
            break;
        at += length + 1;
    }
    return fine;
}

static bool prepare(struct load_work *work)
{
    const struct load_options *options = work->options;

    if (leat_model_open((const char *const *)options->paths, options->count, &work->model) != LEAT_OK)
        return failed("");
    work->report.split = options->split;
    return count_tensors(work) && open_devices(work) && (!options->split || split_tensors(work));
}

static void end(struct load_work *work)
{
    struct load_report *report = &work->report;

    if (work->places)
        leat_model_load_destroy(work->load);
    for (size_t i = 0; i < work->lane_count; i++) {
        leat_model_set_destroy(work->lanes[i].set);
        if (work->lanes[i].block)
            leat_free(work->lanes[i].stream, work->lanes[i].block);
    }
    free(work->places);
    for (size_t i = 0; report->files && i < report->file_count; i++) {
        leat_file_close(report->files[i].file);
        free(report->files[i].protocol);
        free(report->files[i].why);
        free(report->files[i].access);
    }
    free(report->files);
    for (size_t i = 0; i < work->lane_count; i++) {
        leat_stream_destroy(work->lanes[i].stream);
        if (work->lanes[i].device)
            leat_device_close(work->lanes[i].device);
    }
    leat_model_close(work->model);
}

static int run_load(const struct load_options *options)
{
    struct load_work work = {.options = options};
    bool fine = prepare(&work) && look_at_cache(&work) && load(&work);

    for (size_t i = 0; fine && i < work.report.file_count; i++)
        fine = explain_file(&work, i);
    if (fine && options->verify)
        fine = verify(&work);
    if (fine || work.report.verified == LOAD_WRONG) {
        bool printed = options->json ? load_print_json(&work.report) : load_print_text(&work.report);

        if (!printed && !ferror(stdout)) /* if the output cannot be written, main() reports it */
            out_of_memory();
        fine = fine && printed;
    }
    end(&work);
    return fine ? CLI_OK : CLI_FAILED;
}

static int parse(int argc, char **argv, struct load_options *options)
{
    static const struct option names[] = {{"device", required_argument, NULL, 'd'},
                                          {"only", required_argument, NULL, 'o'},
                                          {"verify", no_argument, NULL, 'v'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"split", no_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    int option;

    while ((option = getopt_long(argc, argv, ":h", names, NULL)) != -1) {
        switch (option) {
        case 'd':
            options->device = optarg;
            break;
        case 'o':
            options->only = optarg;
            break;
        case 's':
            options->split = true;
            break;
        case 'v':
            options->verify = true;
            break;
        case 'j':
            options->json = true;
            break;
        case 'h':
            fputs(cli_load_help, stdout);
            return -1;
        default:
            return cli_bad_option(argc, argv, option);
        }
    }
    options->paths = argv + optind;
    options->count = (size_t)(argc - optind);
    if (options->count)
        return CLI_OK;
    cli_complain("load: which files? leat load model.safetensors; see leat help load");
    return CLI_USAGE;
}

int cli_load(int argc, char **argv)
{
    struct load_options options = {0};
    int status = parse(argc, argv, &options);

    return status == CLI_OK ? run_load(&options) : status < 0 ? CLI_OK : status;
}

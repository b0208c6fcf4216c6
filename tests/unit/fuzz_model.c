/*
 * fuzz_model.c - opens damaged model files with leat_model_open(), which must either refuse a file with a message
 * or open it. What it then reports about the tensors must fit into the file. leat_model_open() must not allocate
 * much more than twice the file's length, whatever sizes the file states.
 *
 * A build for libFuzzer (make fuzz-model) gets its inputs from libFuzzer. The test program makes files of all
 * formats and changes them at random: fuzz_model [--seed N] [--rounds N] [--seconds N]. With "--write FOLDER" it
 * only writes the unchanged files.
 */
#include "model_content.h"
#include "seed.h"

#include <leat/model.h>

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what)                                                                                                \
    do {                                                                                                          \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "fuzz_model.c:%d: not %s (%s)\n", __LINE__, #what, leat_last_error());                \
            abort();                                                                                              \
        }                                                                                                         \
    } while (0)

/* ---- counting memory: programs with this file are linked with --wrap for these functions ---- */

static int64_t used, most; /* bytes allocated since counting began, and their maximum; one thread, so no lock */
static bool counting;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *block, size_t bytes);
void __real_free(void *block);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *block, size_t bytes);
void __wrap_free(void *block);
char *__wrap_strdup(const char *text);

static void *counted(void *block)
{
    if (block && counting) {
        used += (int64_t)malloc_usable_size(block);
        most = used > most ? used : most;
    }
    return block;
}

static void uncounted(void *block)
{
    if (block && counting)
        used -= (int64_t)malloc_usable_size(block);
}

void *__wrap_malloc(size_t bytes)
{
    return counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *block, size_t bytes)
{
    uncounted(block);
    return counted(__real_realloc(block, bytes));
}

char *__wrap_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = __wrap_malloc(bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

void __wrap_free(void *block)
{
    uncounted(block);
    __real_free(block);
}

/* ---- one file ---- */

/* Returns a file in memory, which every input is written to. *path returns a path that opens the same file. */
static int memory_file(const char **path)
{
    static int fd = -1;
    static char text[40];

    if (fd < 0) {
        fd = memfd_create("fuzz_model", MFD_CLOEXEC);
        MUST(fd >= 0);
        snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
    }
    *path = text;
    return fd;
}

static void check_tensor(const leat_model *model, size_t index, uint64_t file_bytes)
{
    leat_model_tensor_info info = LEAT_MODEL_TENSOR_INFO_INIT;
    uint64_t elements = 1;
    size_t found;

    MUST(leat_model_get_tensor_info(model, index, &info) == LEAT_OK);
    MUST(info.offset <= file_bytes && info.bytes <= file_bytes - info.offset);
    MUST(info.dims <= LEAT_MODEL_MAX_DIMS && info.block_elements && info.block_bytes && info.type[0]);
    for (uint32_t i = 0; i < info.dims; i++) {
        MUST(info.shape[i] >= 0);
        MUST(!__builtin_mul_overflow(elements, (uint64_t)info.shape[i], &elements));
    }
    MUST(elements % info.block_elements == 0);
    MUST(elements / info.block_elements * info.block_bytes == info.bytes);
    MUST(!info.fortran_order || info.dims > 1);
    MUST(leat_model_find(model, info.name, &found) == LEAT_OK && found == index);
}

static void check_model(const leat_model *model, uint64_t file_bytes)
{
    leat_model_file_info file = LEAT_MODEL_FILE_INFO_INIT;
    size_t tensors, files, entries;

    MUST(leat_model_count(model, &tensors, &files) == LEAT_OK && files == 1);
    MUST(leat_model_get_file_info(model, 0, &file) == LEAT_OK);
    MUST(file.bytes == file_bytes && file.header_bytes <= file_bytes && file.tensors == tensors);
    for (size_t i = 0; i < tensors; i++)
        check_tensor(model, i, file_bytes);
    MUST(leat_model_metadata_count(model, &entries) == LEAT_OK);
    for (size_t i = 0; i < entries; i++) {
        leat_model_metadata_info entry = LEAT_MODEL_METADATA_INFO_INIT;

        MUST(leat_model_get_metadata_info(model, i, &entry) == LEAT_OK);
        MUST(strlen(entry.text) == entry.text_bytes && strlen(entry.key) < file_bytes);
    }
}

static uint64_t opened; /* number of files that leat accepted */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    leat_model *model = NULL;
    const char *path;
    leat_status status;
    int fd = memory_file(&path);

    MUST(ftruncate(fd, 0) == 0);
    MUST(pwrite(fd, data, size, 0) == (ssize_t)size);
    used = most = 0;
    counting = true;
    status = leat_model_open(&path, 1, &model);
    if (status == LEAT_OK) {
        check_model(model, size);
        opened++;
    } else {
        MUST(status == LEAT_ERROR_FILE && leat_last_error()[0] && !model);
    }
    MUST(leat_model_close(model) == LEAT_OK);
    counting = false;
    /* The 256 KiB are for a window of 64 KiB, the first size of each table, and the library's own records. */
    MUST(most <= 2 * (int64_t)size + (256 << 10));
    return 0;
}

#ifndef LEAT_LIBFUZZER

/* ---- changing files ---- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 11) % below;
}

static void put_safetensors(struct content *content)
{
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"k\":\"\\u00e9\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],"
        "\"data_offsets\":[0,24]},\"b.c\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":"
        "[24,26]},\"d\":{\"dtype\":\"F4\",\"shape\":[0,4],\"data_offsets\":[26,26]}}  ";

    put_number(content, sizeof header - 1, 8);
    put(content, header, sizeof header - 1);
    put_data(content, 26);
}

enum { SEEDS = 10 };

/* Makes small files of all formats, and empty files. */
static void make_seeds(struct content *seeds)
{
    memset(seeds, 0, SEEDS * sizeof *seeds);
    put_safetensors(&seeds[0]);
    put_npy(&seeds[1], 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24);
    put_npy(&seeds[2], 3, "{'shape': (7,), 'fortran_order': True, 'descr': '|u1'}\n", 7);
    seeds[3] = make_zip(ZIP_PLAIN, "a.npy", "b.npy").content;
    seeds[4] = make_zip(ZIP_64, "layer.1/weight.npy", "c.npy").content;
    seeds[5] = make_zip(ZIP_STREAMED, "a.npy", "b.npy").content;
    seeds[6] = make_gguf(3, 32).content;
    seeds[7] = make_gguf(2, 8).content;
    put(&seeds[8], "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    put(&seeds[9], "PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 22);
}

/* Writes a number that parsers often get wrong, as little-endian bytes. */
static void put_edge(uint8_t *at, size_t bytes)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     2,
                                     7,
                                     8,
                                     9,
                                     63,
                                     64,
                                     65,
                                     255,
                                     256,
                                     65535,
                                     65536,
                                     0x7fffffff,
                                     0x80000000,
                                     0xffffffff,
                                     0x100000000,
                                     100000000,
                                     0x7fffffffffffffff,
                                     0x8000000000000000,
                                     0xfffffffffffffff0,
                                     0xffffffffffffffff};
    uint64_t value = edges[draw(sizeof edges / sizeof edges[0])] + (draw(4) ? 0 : draw(5) - 2);

    if (!draw(3))
        value = draw(2) ? draw(1000) : (uint64_t)1 << draw(64);
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Makes one random change to the file. Returns its new size, at most room. */
static size_t change(uint8_t *data, size_t size, size_t room)
{
    size_t at = size ? (size_t)draw(size) : 0, from = size ? (size_t)draw(size) : 0, bytes = 1 + (size_t)draw(16);
    static const char letters[] = "{}[](),:\"'\\0123456789-.<>|=ftu LTrue\n";

    if (bytes > size - at)
        bytes = size - at;
    if (!size)
        return size;
    switch (draw(10)) {
    case 0:
        data[at] = (uint8_t)(data[at] ^ 1u << draw(8));
        return size;
    case 1:
        data[at] = (uint8_t)draw(256);
        return size;
    case 2:
    case 3:
        bytes = (size_t)1 << draw(4);
        if (bytes <= size - at)
            put_edge(data + at, bytes);
        return size;
    case 4:
        data[at] = (uint8_t)letters[draw(sizeof letters - 1)];
        return size;
    case 5: /* removes bytes */
        memmove(data + at, data + at + bytes, size - at - bytes);
        return size - bytes;
    case 6: /* repeats bytes */
        if (size + bytes > room)
            return size;
        memmove(data + at + bytes, data + at, size - at);
        return size + bytes;
    case 7: /* copies bytes over other bytes */
        if (bytes > size - from)
            bytes = size - from;
        memmove(data + at, data + from, bytes);
        return size;
    case 8: /* changes one byte by at most 2 */
        data[at] = (uint8_t)(data[at] + draw(5) - 2);
        return size;
    default: /* truncates or extends the file */
        if (draw(2))
            return at;
        bytes = (size_t)draw(100);
        if (size + bytes > room)
            return size;
        memset(data + size, draw(2) ? 0 : (int)draw(256), bytes);
        return size + bytes;
    }
}

static int write_seeds(const struct content *seeds, const char *folder)
{
    for (unsigned i = 0; i < SEEDS; i++) {
        char path[4096];
        FILE *file;

        snprintf(path, sizeof path, "%s/seed%u", folder, i);
        file = fopen(path, "wb");
        if (!file || fwrite(seeds[i].at, 1, seeds[i].bytes, file) != seeds[i].bytes || fclose(file) != 0) {
            perror(path);
            return 1;
        }
    }
    return 0;
}

static uint64_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec;
}

int main(int argc, char **argv)
{
    uint64_t seed = test_seed(), rounds = 20000, seconds = 0, end, round = 0;
    struct content seeds[SEEDS];
    uint8_t data[8192];

    make_seeds(seeds);
    if (argc == 3 && !strcmp(argv[1], "--write"))
        return write_seeds(seeds, argv[2]);
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 0);

        if (!strcmp(argv[i], "--seed"))
            seed = value;
        else if (!strcmp(argv[i], "--rounds"))
            rounds = value;
        else if (!strcmp(argv[i], "--seconds"))
            seconds = value;
    }
    printf("fuzz_model: --seed %" PRIu64 "\n", seed);
    fflush(stdout);
    random_state = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    for (unsigned i = 0; i < SEEDS; i++)
        LLVMFuzzerTestOneInput(seeds[i].at, seeds[i].bytes);
    MUST(opened == SEEDS);
    end = seconds_now() + seconds;
    for (; seconds ? seconds_now() < end : round < rounds; round++) {
        const struct content *from = &seeds[draw(SEEDS - 2 + (round % 64 == 0 ? 2 : 0))];
        size_t size = from->bytes;

        memcpy(data, from->at, size);
        for (uint64_t changes = 1 + draw(draw(4) ? 3 : 12); changes; changes--)
            size = change(data, size, sizeof data);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("fuzz_model: %" PRIu64 " rounds, %" PRIu64 " files opened\n", round, opened);
    for (unsigned i = 0; i < SEEDS; i++)
        free(seeds[i].at);
    return 0;
}

#endif

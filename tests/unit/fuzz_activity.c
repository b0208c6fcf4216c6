/*
 * fuzz_activity.c - reads damaged traces as "leat trace" does. A file must be refused with a message, or
 * everything must work that the command does with it: the parts of its span sum to the span, and all outputs can
 * be written.
 *
 * fuzz_activity [--seed N] [--rounds N]
 */
#include "activity_file.h"
#include "seed.h"

#include <inttypes.h>
#include <stdio.h>

#define MUST(what)                                                                                                \
    do {                                                                                                          \
        if (!(what)) {                                                                                            \
            fprintf(stderr, "fuzz_activity.c:%d: not %s\n", __LINE__, #what);                                     \
            abort();                                                                                              \
        }                                                                                                         \
    } while (0)

enum { ROUNDS = 10000, CHANGES_MAX = 2 };

static uint64_t state_of_random;

static uint64_t draw(uint64_t below)
{
    state_of_random ^= state_of_random << 13;
    state_of_random ^= state_of_random >> 7;
    state_of_random ^= state_of_random << 17;
    return (state_of_random >> 16) % below;
}

/* Changes bytes, words and lengths of a file at random. */
static void damage(struct made_file *file)
{
    static const uint64_t numbers[] = {0, 1, 2, 255, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, UINT64_MAX};
    unsigned changes = 1 + (unsigned)draw(CHANGES_MAX);

    while (changes-- > 0 && file->count > 16) {
        size_t at = draw(file->count - 8), length = 1 + draw(file->count - at);
        uint64_t number = numbers[draw(sizeof numbers / sizeof numbers[0])];

        switch (draw(6)) {
        case 0:
            file->bytes[at] = (unsigned char)draw(256);
            break;
        case 1:
            memcpy(file->bytes + (at & ~(size_t)7), &number, 8);
            break;
        case 2:
            memcpy(file->bytes + (at & ~(size_t)3), &number, 4);
            break;
        case 3:
            file->count = at + 1;
            break;
        case 4: /* leave a piece out */
            memmove(file->bytes + at, file->bytes + at + length, file->count - at - length);
            file->count -= length;
            break;
        default: /* repeat a piece */
            if (length < 4096) {
                unsigned char piece[4096];

                memcpy(piece, file->bytes + at, length);
                made_put(file, piece, length);
            }
        }
    }
}

static uint64_t sum(const struct activity_parts *parts)
{
    return parts->idle_ns + parts->copy_ns + parts->compute_ns + parts->overlap_ns;
}

static void check_share(const struct activity_share *share, uint64_t span)
{
    uint64_t idle = 0;

    MUST(sum(&share->parts) == span);
    for (int i = 0; i < ACTIVITY_IDLE_COUNT; i++)
        idle += share->idle_by_ns[i];
    MUST(idle == share->parts.idle_ns);
}

static void use(const struct activity_log *log, FILE *nothing)
{
    struct activity_advice advice[ACTIVITY_ADVICE_MAX];
    struct activity_breakdown *breakdown = activity_breakdown_make(log);
    struct activity_report report = {.path = "fuzz", .log = log, .breakdown = breakdown, .advice = advice};

    MUST(breakdown);
    check_share(&breakdown->all, log->span_ns);
    for (size_t i = 0; i < breakdown->device_count; i++)
        check_share(&breakdown->devices[i], log->span_ns);
    for (size_t i = 0; i < breakdown->stream_count; i++)
        MUST(sum(&breakdown->streams[i].parts) == log->span_ns);
    report.advice_count = activity_advise(log, breakdown, 50, advice);
    MUST(report.advice_count >= 0);
    MUST(activity_write_json(&report, nothing));
    MUST(activity_write_html(&report, nothing));
    MUST(activity_write_perfetto(log, nothing));
    activity_breakdown_destroy(breakdown);
}

/* The same file, as it is read in one pass. */
static void use_in_one_pass(const struct made_file *file, FILE *nothing)
{
    char path[TEMPORARY_PATH], error[ACTIVITY_ERROR_MAX] = "";
    int fd = temporary_file(path);
    uint64_t missed;

    MUST(fd >= 0 && write(fd, file->bytes, file->count) == (ssize_t)file->count && close(fd) == 0);
    MUST(activity_perfetto_pass(path, nothing, &missed, error) || error[0]);
    unlink(path);
}

int main(int argc, char **argv)
{
    uint64_t seed = test_seed(), rounds = ROUNDS, read = 0;
    struct made_file nsys = {NULL, 0, 0};
    FILE *nothing = fopen("/dev/null", "w");

    MUST(nothing);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        if (!strcmp(argv[i], "--rounds"))
            rounds = strtoull(argv[i + 1], NULL, 0);
    }
    if (!made_nsys(&nsys))
        printf("skipped: exports of nsys: there is no libsqlite3\n");
    printf("TEST_SEED=%" PRIu64 "\n", seed);
    state_of_random = seed * 2654435761u + 88172645463325252u;
    for (uint64_t round = 0; round < rounds; round++) {
        struct made_file file = {NULL, 0, 0};
        char error[ACTIVITY_ERROR_MAX] = "";
        struct activity_log *log;

        if (round % 3 == 0)
            made_put(&file, made_kineto, strlen(made_kineto));
        else if (round % 3 == 1 || !nsys.count)
            made_trace(&file);
        else
            made_put(&file, nsys.bytes, nsys.count);
        if (round > 2)
            damage(&file);
        log = made_read(file.bytes, file.count, error);
        MUST(log || error[0]);
        MUST(log || round > 2);
        if (log)
            use(log, nothing);
        if (log && activity_log_cut(log, "step", error))
            use(log, nothing);
        if (round % 3 == 1)
            use_in_one_pass(&file, nothing);
        read += log != NULL;
        activity_log_destroy(log);
        free(file.bytes);
    }
    printf("%" PRIu64 " files, of which %" PRIu64 " could be read\n", rounds, read);
    fclose(nothing);
    free(nsys.bytes);
    return read > 3 && read < rounds ? 0 : 1;
}

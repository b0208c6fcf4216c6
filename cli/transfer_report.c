/* transfer_report.c - the report of "leat send" and "leat receive", as text or as JSON. */
#include "cli.h"
#include "text.h"
#include "text_json.h"
#include "transfer.h"
#include "transfer_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct transfer_file *transfer_file_add(struct transfer *transfer, const char *name, uint64_t bytes)
{
    struct transfer_file *more = realloc(transfer->files, (transfer->file_count + 1) * sizeof *more);
    char *copy = strdup(name);

    if (more)
        transfer->files = more;
    if (!more || !copy) {
        free(copy);
        cli_complain("%s: out of host memory", transfer->command);
        return NULL;
    }
    more[transfer->file_count] = (struct transfer_file){.name = copy, .bytes = bytes};
    return &more[transfer->file_count++];
}

void transfer_file_failed(struct transfer *transfer, struct transfer_file *file, const char *why)
{
    char shown[TRANSFER_TEXT_MAX];

    transfer_clear_bar(transfer);
    free(file->problem);
    file->problem = strdup(why);
    cli_complain("%s: %s: %s", transfer->command, transfer_show(shown, sizeof shown, file->name), why);
}

/* The sums of the files that were transferred. */
struct sums {
    size_t files;
    uint64_t bytes;
    double seconds;
};

static struct sums sum_up(const struct transfer *transfer)
{
    struct sums sums = {0};

    for (size_t i = 0; i < transfer->file_count; i++) {
        const struct transfer_file *file = &transfer->files[i];

        if (!file->verified || file->problem)
            continue;
        sums.files++;
        sums.bytes += file->bytes;
        sums.seconds += (double)file->nanoseconds * 1e-9;
    }
    return sums;
}

static double rate_of(double bytes, double seconds)
{
    return bytes > 0 && seconds > 0 ? bytes * 1e-9 / seconds : 0;
}

static double cpu_seconds(void)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static json_t *file_json(const struct transfer_file *file)
{
    char checksum[16];
    double seconds = (double)file->nanoseconds * 1e-9, rate = rate_of((double)file->bytes, seconds);
    bool done = file->verified && !file->problem;

    snprintf(checksum, sizeof checksum, "%08x", file->checksum);
    return json_pack(
        "{s:o, s:o, s:I, s:o, s:o, s:o, s:b, s:o}", "name", text_json(file->name), "path", text_json(file->path),
        "bytes", (json_int_t)file->bytes, "seconds", done ? json_real(seconds) : json_null(), "gb_s",
        done && rate > 0 ? json_real(rate) : json_null(), "crc32", done ? json_string(checksum) : json_null(),
        "verified", done, "problem", text_json(file->problem));
}

static bool print_json(const struct transfer *transfer, const leat_link_info *info)
{
    struct sums sums = sum_up(transfer);
    double rate = rate_of((double)sums.bytes, sums.seconds);
    json_t *files = json_array(), *object;
    bool fine = files != NULL;

    for (size_t i = 0; fine && i < transfer->file_count; i++)
        fine = json_array_append_new(files, file_json(&transfer->files[i])) == 0;
    object = json_pack("{s:I, s:f, s:o, s:f, s:b, s:s, s:o, s:s, s:s, s:o}", "bytes", (json_int_t)sums.bytes,
                       "seconds", sums.seconds, "gb_s", rate > 0 ? json_real(rate) : json_null(), "cpu_seconds",
                       cpu_seconds(), "verified", sums.files == transfer->file_count, "device",
                       transfer->device_name, "peer", text_json(info->peer), "transport",
                       info->transport ? info->transport : "", "version", leat_version(), "files", files);
    fine = fine && object && json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    if (fine)
        putchar('\n');
    else if (!ferror(stdout)) /* main() reports output that cannot be written */
        cli_complain("%s: out of host memory", transfer->command);
    json_decref(object);
    return fine;
}

static void print_text(const struct transfer *transfer, const leat_link_info *info)
{
    bool sent = !strcmp(transfer->command, "send");
    char size[TEXT_MAX], time[TEXT_MAX], rate[TEXT_MAX];
    struct sums sums = sum_up(transfer);

    printf("%s %zu file%s, %s, %s %s in %s s, %s GB/s, %s\n", sent ? "sent" : "received", sums.files,
           sums.files == 1 ? "" : "s", text_bytes(size, sums.bytes), sent ? "to" : "from", info->peer,
           text_figure(time, sums.seconds), text_figure(rate, rate_of((double)sums.bytes, sums.seconds)),
           sums.files ? "verified" : "nothing verified");
}

bool transfer_report(struct transfer *transfer)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;
    bool fine = true;

    if (leat_link_get_info(transfer->link, &info) != LEAT_OK)
        return transfer_complain(transfer, "");
    if (transfer->json)
        fine = print_json(transfer, &info);
    else
        print_text(transfer, &info);
    return fine && sum_up(transfer).files == transfer->file_count;
}

/* load_report.c - prints the report of "leat load" as text or as JSON. */
#include "load.h"
#include "table.h"
#include "text.h"
#include "text_json.h"

#include <stdio.h>

/* Returns the rate in GB/s at which bytes reached the devices, or 0 if nothing was loaded. */
static double rate_of(const struct load_report *report)
{
    return report->bytes && report->seconds > 0 ? (double)report->delivered_bytes * 1e-9 / report->seconds : 0;
}

/* Writes the names of the devices to text. */
static void name_devices(const struct load_report *report, const char *between, char *text, size_t text_bytes)
{
    size_t used = 0;

    for (size_t i = 0; i < report->device_count && used < text_bytes; i++)
        used += (size_t)snprintf(text + used, text_bytes - used, "%s%s", i ? between : "", report->devices[i]);
}

/* Says what was read and delivered, if there are several devices. */
static void print_delivery(const struct load_report *report)
{
    char one[TEXT_MAX], two[TEXT_MAX];

    if (report->device_count < 2)
        return;
    printf("\n%s, %s read from the files, %s delivered\n",
           report->split ? "Each device has a part of the tensors" : "Each device has all tensors",
           text_bytes(one, report->read_bytes), text_bytes(two, report->delivered_bytes));
}

static bool add_row(struct table *table, const struct load_file *file)
{
    char tensors[TEXT_MAX], size[TEXT_MAX], cached[TEXT_MAX], why[3000];

    snprintf(tensors, sizeof tensors, "%zu", file->tensors);
    snprintf(cached, sizeof cached, "%.0f %%", 100 * file->cached_share);
    snprintf(why, sizeof why, "%s; system's cache: %s", file->why ? file->why : "",
             file->access ? file->access : "");
    return table_add(table,
                     (const char *const[]){file->path, tensors, text_bytes(size, file->bytes),
                                           file->bytes ? cached : "-", file->protocol ? file->protocol : "-",
                                           file->protocol ? why : "nothing of it is loaded"});
}

bool load_print_text(const struct load_report *report)
{
    static const struct table_column columns[] = {{.name = "FILE"},
                                                  {.name = "TENSORS", .right = true},
                                                  {.name = "BYTES", .right = true},
                                                  {.name = "CACHED", .right = true},
                                                  {.name = "PROTOCOL"},
                                                  {.name = "WHY", .wrap = TABLE_WRAP_REST}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    char title[1400], devices[1100] = "", one[TEXT_MAX], two[TEXT_MAX];
    bool fine = table != NULL;

    for (size_t i = 0; fine && i < report->file_count; i++)
        fine = add_row(table, &report->files[i]);
    name_devices(report, " and ", devices, sizeof devices);
    snprintf(title, sizeof title, "%zu of %zu tensors, %s to %s in %s s, %s GB/s", report->tensors,
             report->tensors_there, text_bytes(one, report->bytes), devices, text_figure(two, report->seconds),
             text_figure((char[TEXT_MAX]){0}, rate_of(report)));
    fine = fine && table_print(table, title, TABLE_PLAIN);
    if (fine)
        print_delivery(report);
    if (fine && report->verified != LOAD_NOT_VERIFIED)
        printf("\nverified  %s\n", report->verified == LOAD_VERIFIED ? "yes: every byte is that of the files"
                                                                     : "NO: the bytes differ from the files");
    table_destroy(table);
    return fine;
}

static json_t *json_of(const struct load_file *file)
{
    json_t *object = json_pack("{s:o, s:I, s:I}", "path", text_json(file->path), "tensors",
                               (json_int_t)file->tensors, "bytes", (json_int_t)file->bytes);

    if (!object)
        return NULL;
    if (json_object_set_new(object, "cached_share", file->bytes ? json_real(file->cached_share) : json_null()) ||
        json_object_set_new(object, "protocol", text_json(file->protocol)) ||
        json_object_set_new(object, "why", text_json(file->why)) ||
        json_object_set_new(object, "access", text_json(file->access))) {
        json_decref(object);
        return NULL;
    }
    return object;
}

static json_t *devices_json(const struct load_report *report)
{
    json_t *devices = json_array();
    bool fine = devices != NULL;

    for (size_t i = 0; fine && i < report->device_count; i++)
        fine = json_array_append_new(devices, json_string(report->devices[i])) == 0;
    if (fine)
        return devices;
    json_decref(devices);
    return NULL;
}

bool load_print_json(const struct load_report *report)
{
    char devices[1100] = "";
    json_t *files = json_array(), *verified, *rate, *object;
    bool fine = files != NULL;

    for (size_t i = 0; fine && i < report->file_count; i++)
        fine = json_array_append_new(files, json_of(&report->files[i])) == 0;
    verified =
        report->verified == LOAD_NOT_VERIFIED ? json_null() : json_boolean(report->verified == LOAD_VERIFIED);
    rate = report->bytes ? json_real(rate_of(report)) : json_null();
    name_devices(report, ",", devices, sizeof devices);
    object =
        json_pack("{s:I, s:I, s:I, s:I, s:f, s:o, s:o, s:s, s:o, s:b, s:s, s:o}", "tensors",
                  (json_int_t)report->tensors, "bytes", (json_int_t)report->bytes, "read_bytes",
                  (json_int_t)report->read_bytes, "delivered_bytes", (json_int_t)report->delivered_bytes,
                  "seconds", report->seconds, "gb_s", rate, "verified", verified, "device", devices, "devices",
                  devices_json(report), "split", report->split, "version", leat_version(), "files", files);
    fine = fine && object && json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6)) == 0;
    if (fine)
        putchar('\n');
    json_decref(object);
    return fine;
}

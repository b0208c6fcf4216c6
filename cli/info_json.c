/*
 * info_json.c - describes devices, drivers and environment variables as JSON.
 */
#include "info_json.h"
#include "cli.h"
#include "host_facts.h"
#include "text_json.h"

#include <stdio.h>

/* These functions return a value for jansson's format "o", which takes over the reference. An unknown value
 * becomes JSON's null, because json_pack() fails for a NULL pointer. */
static json_t *number_or_null(uint64_t value)
{
    return value ? json_integer((json_int_t)value) : json_null();
}

static json_t *text_or_null(const char *text)
{
    return text && text[0] ? text_json(text) : json_null();
}

static json_t *kinds_json(const leat_device_info *info)
{
    json_t *kinds = json_pack("[s, s]", leat_kind_name(LEAT_KIND_DEVICE), leat_kind_name(LEAT_KIND_PINNED));

    if (kinds && info->managed_memory)
        json_array_append_new(kinds, json_string(leat_kind_name(LEAT_KIND_MANAGED)));
    return kinds;
}

static json_t *peers_json(const leat_device_info *info)
{
    json_t *peers = json_array();
    int i;

    for (i = 0; peers && i < 64; i++)
        if (info->peer_mask >> i & 1)
            json_array_append_new(peers, json_integer(i));
    return peers;
}

json_t *info_device_json(const leat_device_info *info)
{
    json_t *device =
        json_pack("{s:s, s:s, s:i, s:o, s:o, s:I, s:I, s:I, s:I}", "name", info->name, "driver", info->driver,
                  "ordinal", info->ordinal, "model", text_json(info->model), "architecture",
                  text_json(info->architecture), "memory_bytes", (json_int_t)info->memory_bytes, "compute_units",
                  (json_int_t)info->compute_units, "max_block_threads", (json_int_t)info->max_block_threads,
                  "max_shared_bytes", (json_int_t)info->max_shared_bytes);
    json_t *rest;

    if (!device)
        return NULL;
    rest = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:b, s:b, s:b, s:b, s:o, s:o}", "memory_clock_khz",
                     number_or_null(info->memory_clock_khz), "memory_bus_bits",
                     number_or_null(info->memory_bus_bits), "pci_address", text_or_null(info->pci_address),
                     "numa_node", info->numa_node >= 0 ? json_integer(info->numa_node) : json_null(), "link_gen",
                     number_or_null(info->link_gen), "link_width", number_or_null(info->link_width),
                     "copy_engines", (json_int_t)info->copy_engines, "peers", peers_json(info),
                     "unified_addressing", info->unified_addressing, "managed_memory", info->managed_memory,
                     "virtual_memory", info->virtual_memory, "strict", info->strict, "kinds", kinds_json(info),
                     "kernel_code", text_or_null(info->kernel_code));
    if (!rest || json_object_update(device, rest) != 0) {
        json_decref(device);
        device = NULL;
    }
    json_decref(rest);
    return device;
}

json_t *info_driver_json(const leat_driver_info *info)
{
    return json_pack("{s:s, s:b, s:s, s:o, s:o, s:o, s:I}", "name", info->name, "usable", info->status == LEAT_OK,
                     "status", leat_status_name(info->status), "reason", text_or_null(info->reason), "library",
                     text_or_null(info->library), "version", text_or_null(info->version), "device_count",
                     (json_int_t)info->device_count);
}

static json_t *option_json(const leat_option_info *info)
{
    return json_pack("{s:o, s:o, s:s, s:o, s:o, s:b}", "name", text_json(info->name), "value",
                     text_json(info->value), "default", info->default_value, "text", text_json(info->text),
                     "problem", info->problem ? text_json(info->problem) : json_null(), "debug", info->debug);
}

/* Fills the three lists. Returns NULL, or a text that says what failed. */
static const char *collect(json_t *devices, json_t *drivers, json_t *options)
{
    static const char *const no_memory = "out of host memory";
    leat_device_info device = LEAT_DEVICE_INFO_INIT;
    leat_driver_info driver = LEAT_DRIVER_INFO_INIT;
    leat_option_info option = LEAT_OPTION_INFO_INIT;
    leat_status status;
    unsigned i;

    for (i = 0; (status = leat_device_list(i, &device)) == LEAT_OK; i++)
        if (json_array_append_new(devices, info_device_json(&device)) != 0)
            return no_memory;
    if (status != LEAT_ERROR_NO_DEVICE)
        return leat_last_error();
    for (i = 0; leat_driver_list(i, &driver) == LEAT_OK; i++)
        if (json_array_append_new(drivers, info_driver_json(&driver)) != 0)
            return no_memory;
    for (i = 0; leat_option_list(i, &option) == LEAT_OK; i++)
        if (json_array_append_new(options, option_json(&option)) != 0)
            return no_memory;
    return NULL;
}

bool info_print_json(void)
{
    struct host_facts facts;
    json_t *devices, *drivers, *options, *all;
    const char *failure = "out of host memory";

    host_facts_read(&facts);
    devices = json_array();
    drivers = json_array();
    options = json_array();
    all = json_pack("{s:s, s:o, s:O, s:O, s:O}", "version", leat_version(), "host", host_facts_json(&facts),
                    "devices", devices, "drivers", drivers, "options", options);
    if (all)
        failure = collect(devices, drivers, options);
    if (!failure && json_dumpf(all, stdout, JSON_INDENT(2)) != 0)
        failure = "its JSON could not be printed";
    if (!failure)
        putchar('\n');
    else if (!ferror(stdout)) /* if the output cannot be written, main() reports it */
        cli_complain("info: %s", failure);
    json_decref(all);
    json_decref(options);
    json_decref(drivers);
    json_decref(devices);
    return !failure;
}

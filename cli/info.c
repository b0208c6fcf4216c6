/*
 * info.c - "leat info": prints devices, drivers, and all environment variables, as tables or as JSON. It opens no
 * device, so it is quick and changes nothing.
 */
#include "cli.h"
#include "host_facts.h"
#include "info_json.h"
#include "table.h"
#include "text.h"

#include <getopt.h>
#include <leat/leat.h>
#include <stdio.h>
#include <string.h>

const char cli_info_help[] =
    "Usage: leat info [--json]\n\n"
    "Shows the devices that leat can use, the drivers that it loaded and from where (or why one is\n"
    "missing), what each device can do, and every environment variable with its value. Opens no device.\n\n"
    "Options:\n"
    "  --json  the same as JSON: version, host, devices, drivers, options\n"
    "  --help  this text\n";

static const char *yes_no(int value)
{
    return value ? "yes" : "no";
}

/* Writes the link of a device, such as "PCIe 5 x16", or "-" if there is none or the driver does not report it. */
static void describe_link(const leat_device_info *info, char text[TEXT_MAX])
{
    if (info->link_gen && info->link_width)
        snprintf(text, TEXT_MAX, "PCIe %u x%u", info->link_gen, info->link_width);
    else
        snprintf(text, TEXT_MAX, "-");
}

static bool add_device(struct table *table, const leat_device_info *info)
{
    char memory[TEXT_MAX], units[TEXT_MAX], link[TEXT_MAX], node[TEXT_MAX];
    const char *cells[] = {info->name, info->model, info->architecture,  memory, units,
                           link,       node,        yes_no(info->strict)};

    text_bytes(memory, info->memory_bytes);
    snprintf(units, sizeof units, "%u", info->compute_units);
    describe_link(info, link);
    if (info->numa_node >= 0)
        snprintf(node, sizeof node, "%d", info->numa_node);
    else
        snprintf(node, sizeof node, "-");
    return table_add(table, cells);
}

/* Writes the numbers of the devices that this device can access directly (its peers), or "-". */
static void list_peers(const leat_device_info *info, char *text, size_t bytes)
{
    size_t used = 0;
    int i;

    snprintf(text, bytes, "-");
    for (i = 0; i < 64 && used < bytes; i++)
        if (info->peer_mask >> i & 1)
            used += (size_t)snprintf(text + used, bytes - used, "%s%d", used ? "," : "", i);
}

static bool add_abilities(struct table *table, const leat_device_info *info)
{
    char engines[TEXT_MAX], peers[192], threads[TEXT_MAX], shared[TEXT_MAX];
    const char *cells[] = {info->name,
                           "yes",
                           yes_no(info->managed_memory),
                           yes_no(info->virtual_memory),
                           engines,
                           peers,
                           threads,
                           shared,
                           info->kernel_code[0] ? info->kernel_code : "none",
                           info->pci_address[0] ? info->pci_address : "-"};

    snprintf(engines, sizeof engines, "%u", info->copy_engines);
    list_peers(info, peers, sizeof peers);
    snprintf(threads, sizeof threads, "%u", info->max_block_threads);
    text_bytes(shared, info->max_shared_bytes);
    return table_add(table, cells);
}

/* Fills a table with one row for each device. Returns the number of devices, or -1 after reporting what failed. */
static int walk_devices(struct table *table, bool (*add)(struct table *, const leat_device_info *))
{
    leat_device_info info = LEAT_DEVICE_INFO_INIT;
    leat_status status;
    int count = 0;

    while ((status = leat_device_list((unsigned)count, &info)) == LEAT_OK) {
        if (!add(table, &info)) {
            cli_complain("info: out of memory");
            return -1;
        }
        count++;
    }
    if (status != LEAT_ERROR_NO_DEVICE) {
        cli_complain("info: %s", leat_last_error());
        return -1;
    }
    return count;
}

static bool print_devices(void)
{
    static const struct table_column columns[] = {{"DEVICE", false, 0, false}, {"MODEL", false, 0, false},
                                                  {"ARCH", false, 0, false},   {"MEMORY", true, 0, false},
                                                  {"UNITS", true, 0, false},   {"LINK", false, 0, false},
                                                  {"NUMA", true, 0, false},    {"STRICT", false, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = false;
    int count;

    if (!table)
        return false;
    count = walk_devices(table, add_device);
    if (count == 0) {
        puts("Devices: none; the drivers below say why.");
        fine = true;
    } else if (count > 0) {
        fine = table_print(table, "Devices", TABLE_PLAIN);
    }
    table_destroy(table);
    return fine;
}

static bool print_abilities(void)
{
    static const struct table_column columns[] = {
        {"DEVICE", false, 0, false},       {"PINNED", false, 0, false},      {"MANAGED", false, 0, false},
        {"VIRTUAL", false, 0, false},      {"COPY ENGINES", true, 0, false}, {"PEERS", true, 0, false},
        {"BLOCK THREADS", true, 0, false}, {"BLOCK SHARED", true, 0, false}, {"KERNELS", false, 0, false},
        {"PCI ADDRESS", false, 0, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    bool fine = false;
    int count;

    if (!table)
        return false;
    count = walk_devices(table, add_abilities);
    if (count > 0)
        fine = table_print(table, "\nMemory kinds and limits", TABLE_PLAIN);
    else if (count == 0)
        fine = true;
    table_destroy(table);
    return fine;
}

static bool print_drivers(void)
{
    static const struct table_column columns[] = {{"DRIVER", false, 0, false},
                                                  {"STATE", false, 0, false},
                                                  {"DEVICES", true, 0, false},
                                                  {"VERSION", false, 0, false},
                                                  {"LOADED FROM, OR WHY NOT", false, TABLE_WRAP_REST, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    leat_driver_info info = LEAT_DRIVER_INFO_INIT;
    bool fine = table != NULL;
    unsigned i;

    for (i = 0; fine && leat_driver_list(i, &info) == LEAT_OK; i++) {
        char count[TEXT_MAX];
        const char *cells[] = {info.name, info.status == LEAT_OK ? "usable" : "not usable", count, info.version,
                               info.status != LEAT_OK ? info.reason
                               : info.library[0]      ? info.library
                                                      : "built in"};

        snprintf(count, sizeof count, "%u", info.device_count);
        fine = table_add(table, cells);
    }
    if (fine)
        fine = table_print(table, "\nDrivers", TABLE_PLAIN);
    if (fine)
        puts("(leat's driver hip was tested without a GPU only; it has not been run on AMD hardware yet.)");
    table_destroy(table);
    return fine;
}

/* Prints the variables whose values leat refuses, and unknown variables that begin with LEAT_. */
static void print_problems(void)
{
    leat_option_info info = LEAT_OPTION_INFO_INIT;

    puts("\nProblems with environment variables");
    for (unsigned i = 0; leat_option_list(i, &info) == LEAT_OK; i++) {
        /* Do not print the name twice: the text about a wrong value already begins with the variable's name. */
        bool named = info.problem && !strncmp(info.problem, info.name, strlen(info.name));

        if (info.problem)
            printf("%s%s%s\n", named ? "" : info.name, named ? "" : ": ", info.problem);
    }
}

static bool print_options(void)
{
    static const struct table_column columns[] = {{"VARIABLE", false, 0, false},
                                                  {"VALUE", false, 0, false},
                                                  {"DEFAULT", false, 22, false},
                                                  {"WHAT IT DOES", false, TABLE_WRAP_REST, false}};
    struct table *table = table_create(columns, sizeof columns / sizeof columns[0]);
    leat_option_info info = LEAT_OPTION_INFO_INIT;
    bool fine = table != NULL;
    unsigned i, problem_count = 0;

    for (i = 0; fine && leat_option_list(i, &info) == LEAT_OK; i++) {
        char text[1024];
        const char *cells[] = {info.name, info.value ? info.value : "not set", info.default_value, text};

        if (info.problem)
            problem_count++;
        snprintf(text, sizeof text, "%s%s", info.debug ? "For finding faults. " : "", info.text);
        fine = table_add(table, cells);
    }
    if (fine)
        fine = table_print(table, "\nEnvironment variables", TABLE_PLAIN);
    table_destroy(table);
    if (fine && problem_count)
        print_problems();
    return fine;
}

static void print_host(void)
{
    struct host_facts facts;
    char memory[TEXT_MAX];

    host_facts_read(&facts);
    printf("leat %s on %s, %u logical processor%s, %s of memory, %s\n\n", leat_version(),
           facts.cpu[0] ? facts.cpu : "an unknown processor", facts.cores, facts.cores == 1 ? "" : "s",
           text_bytes(memory, facts.memory_bytes), facts.kernel);
}

int cli_info(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool json = false;
    int option;

    while ((option = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(cli_info_help, stdout);
            return CLI_OK;
        }
        if (option != 'j')
            return cli_bad_option(argc, argv, option);
        json = true;
    }
    if (cli_no_operands(argc, argv) != CLI_OK)
        return CLI_USAGE;
    if (json)
        return info_print_json() ? CLI_OK : CLI_FAILED;
    print_host();
    return print_devices() && print_abilities() && print_drivers() && print_options() ? CLI_OK : CLI_FAILED;
}

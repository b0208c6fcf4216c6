/* mem_limit.c - see mem_limit.h. */
#include "base/mem_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The folder and the file names of one version of control groups. */
struct hierarchy {
    const char *folder;
    const char *limit, *current;
    const char *inactive_file, *active_file; /* names of lines in the file memory.stat */
};

static const struct hierarchy version_1 = {
    .folder = "/sys/fs/cgroup/memory",
    .limit = "memory.limit_in_bytes",
    .current = "memory.usage_in_bytes",
    .inactive_file = "total_inactive_file",
    .active_file = "total_active_file",
};

static const struct hierarchy version_2 = {
    .folder = "/sys/fs/cgroup",
    .limit = "memory.max",
    .current = "memory.current",
    .inactive_file = "inactive_file",
    .active_file = "active_file",
};

/* The arguments and the result of one call of leati_mem_limit_get(). */
struct question {
    const char *root;
    uint64_t enough_bytes;
    struct leati_mem_limit *answer;
};

static FILE *open_file(const char *root, const char *folder, const char *group, const char *name)
{
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s%s%s/%s", root, folder, group, name);

    return length > 0 && (size_t)length < sizeof path ? fopen(path, "re") : NULL;
}

/* Returns the number in the line that starts with name and a separator; missing if there is no such line. */
static uint64_t read_line_of(FILE *file, const char *name, uint64_t missing)
{
    size_t length = strlen(name);
    char line[256];
    uint64_t number;

    if (fseek(file, 0, SEEK_SET))
        return missing;
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, name, length) && (line[length] == ' ' || line[length] == ':') &&
            sscanf(line + length + 1, "%" SCNu64, &number) == 1)
            return number;
    return missing;
}

/* Returns the number that is the file's only content; missing if there is no file, or if it has a word such as
 * "max". */
static uint64_t read_number(const struct question *q, const struct hierarchy *h, const char *group,
                            const char *name, uint64_t missing)
{
    FILE *file = open_file(q->root, h->folder, group, name);
    uint64_t number;

    if (!file)
        return missing;
    if (fscanf(file, "%" SCNu64, &number) != 1)
        number = missing;
    fclose(file);
    return number;
}

/* Returns the size of a group's file cache. The kernel counts the cache as used, but drops it before it kills a
 * process. */
static uint64_t droppable_bytes(const struct question *q, const struct hierarchy *h, const char *group)
{
    FILE *file = open_file(q->root, h->folder, group, "memory.stat");
    uint64_t bytes;

    if (!file)
        return 0;
    bytes = read_line_of(file, h->inactive_file, 0);
    bytes += read_line_of(file, h->active_file, 0);
    fclose(file);
    return bytes;
}

static void ask_group(const struct question *q, const struct hierarchy *h, const char *group)
{
    uint64_t limit = read_number(q, h, group, h->limit, UINT64_MAX);
    uint64_t current, left;

    if (limit == UINT64_MAX)
        return;
    current = read_number(q, h, group, h->current, 0);
    left = limit > current ? limit - current : 0;
    /* Read memory.stat only if needed, because for that the kernel adds up the counters of all processors. */
    if (left < q->enough_bytes) {
        left += droppable_bytes(q, h, group);
        left = left < limit ? left : limit;
    }
    if (left >= q->answer->bytes)
        return;
    q->answer->bytes = left;
    q->answer->is_group = true;
    snprintf(q->answer->whose, sizeof q->answer->whose, "the control group %.200s", *group ? group : "/");
}

/* Applies the limits of the group and of all groups above it, up to the root that is mounted here. In a container
 * the path may be the one that is valid on the host. Then the container's own group is the mounted root, and the
 * groups between it and the host's root do not exist here. */
static void ask_groups(const struct question *q, const struct hierarchy *h, char *group)
{
    char *last;

    while ((last = strrchr(group, '/'))) {
        if (last[1])
            ask_group(q, h, group);
        *last = '\0';
    }
    ask_group(q, h, "");
}

static bool names_memory(const char *controllers)
{
    for (size_t length; *controllers; controllers += length + (controllers[length] == ',')) {
        length = strcspn(controllers, ",");
        if (length == strlen("memory") && !strncmp(controllers, "memory", length))
            return true;
    }
    return false;
}

/* Reads /proc/self/cgroup, whose lines are "number:controllers:path". For version 2 controllers is empty. */
static void ask_control_groups(const struct question *q)
{
    FILE *file = open_file(q->root, "", "", "proc/self/cgroup");
    char line[PATH_MAX + 256];

    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;

        if (!group)
            continue;
        *controllers++ = '\0';
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (!*controllers)
            ask_groups(q, &version_2, group);
        else if (names_memory(controllers))
            ask_groups(q, &version_1, group);
    }
    fclose(file);
}

static void ask_machine(const struct question *q)
{
    FILE *file = open_file(q->root, "", "", "proc/meminfo");
    uint64_t kib;

    if (!file)
        return;
    kib = read_line_of(file, "MemAvailable", UINT64_MAX);
    if (kib <= UINT64_MAX >> 10)
        q->answer->bytes = kib << 10;
    fclose(file);
}

void leati_mem_limit_get(const char *root, uint64_t enough_bytes, struct leati_mem_limit *available)
{
    struct question question = {.root = root, .enough_bytes = enough_bytes, .answer = available};

    *available = (struct leati_mem_limit){.bytes = UINT64_MAX, .whose = "this machine"};
    ask_machine(&question);
    ask_control_groups(&question);
}

void leati_mem_limit_of_groups(const char *root, struct leati_mem_limit *available)
{
    struct question question = {.root = root, .enough_bytes = UINT64_MAX, .answer = available};

    *available = (struct leati_mem_limit){.bytes = UINT64_MAX};
    ask_control_groups(&question);
}

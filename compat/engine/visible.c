/*
 * visible.c - selects the devices that a process sees, and their order. It implements CUDA_VISIBLE_DEVICES,
 * HIP_VISIBLE_DEVICES and ROCR_VISIBLE_DEVICES as the vendors' libraries do.
 *
 * An entry of such a variable is an index or the start of a UUID. An entry that matches no device, or several
 * devices, ends the list; a device that is named again is skipped. If leat's driver uses a vendor's library, that
 * library has already applied its own variables. So the driver decides which variables are applied here.
 */
#include "engine/inside.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static atomic_bool hip_is_here;

void leatc_announce_hip(void)
{
    atomic_store(&hip_is_here, true);
}

#define UUID_PREFIX "GPU-"
#define NO_DEVICE (-1)

/* Writes the UUID of a device as CUDA programs print it: the bytes that the layers report, in hexadecimal. */
static void write_uuid(const char *name, char *text, size_t bytes)
{
    unsigned char uuid[16];
    size_t at = (size_t)snprintf(text, bytes, UUID_PREFIX);

    leatc_uuid_of(name, uuid);
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, bytes - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               uuid[i]);
}

/* Returns true if entry is the start of the device's UUID, as CUDA programs print it (in hexadecimal) or as HIP
 * programs do (the bytes as text). */
static bool is_device(const char *entry, const leat_device_info *info)
{
    char hexadecimal[64], plain[sizeof info->name + sizeof UUID_PREFIX];

    write_uuid(info->name, hexadecimal, sizeof hexadecimal);
    snprintf(plain, sizeof plain, UUID_PREFIX "%.*s", (int)sizeof info->name - 1, info->name);
    return !strncasecmp(entry, hexadecimal, strlen(entry)) || !strncasecmp(entry, plain, strlen(entry));
}

/* Returns the index of the device that an entry names, or NO_DEVICE. */
static int find_device(const char *entry, const leat_device_info *infos, int count)
{
    int found = NO_DEVICE;
    char *end;
    long index;

    if (isdigit((unsigned char)*entry)) {
        index = strtol(entry, &end, 10);
        return !*end && index < count ? (int)index : NO_DEVICE;
    }
    if (strncasecmp(entry, UUID_PREFIX, strlen(UUID_PREFIX)) != 0)
        return NO_DEVICE;
    for (int i = 0; i < count; i++)
        if (is_device(entry, &infos[i])) {
            if (found != NO_DEVICE)
                return NO_DEVICE;
            found = i;
        }
    return found;
}

/* Removes the next entry from *list and copies it to entry, without surrounding blanks. Returns false if it is too
 * long to match any device. */
static bool next_entry(const char **list, char *entry, size_t bytes)
{
    const char *start = *list + strspn(*list, " \t");
    size_t length = strcspn(start, ",");

    *list = start + length + (start[length] == ',');
    while (length && isspace((unsigned char)start[length - 1]))
        length--;
    if (length >= bytes)
        return false;
    memcpy(entry, start, length);
    entry[length] = '\0';
    return true;
}

/* Reduces infos to the devices that the variable's value list names, in that order. Returns their number. */
static int filter(const char *list, leat_device_info *infos, int count)
{
    leat_device_info all[LEATC_DEVICES_MAX];
    bool taken[LEATC_DEVICES_MAX] = {false};
    char entry[128];
    int left = 0;

    memcpy(all, infos, (size_t)count * sizeof *all);
    while (*list && next_entry(&list, entry, sizeof entry)) {
        int i = find_device(entry, all, count);

        if (i == NO_DEVICE)
            break;
        if (!taken[i])
            infos[left++] = all[i];
        taken[i] = true;
    }
    return left;
}

/* Returns NULL for an empty list, because AMD's runtime treats an empty variable as if it were not set. */
static const char *unless_empty(const char *list)
{
    return list && *list ? list : NULL;
}

int leatc_visible(leat_device_info *infos, int count)
{
    const char *driver = count ? infos[0].driver : "";
    const char *cuda = strcmp(driver, "cuda") ? getenv("CUDA_VISIBLE_DEVICES") : NULL;
    const char *rocr = getenv("ROCR_VISIBLE_DEVICES"), *hip;

    if (!strcmp(driver, "hip"))
        return count;
    if (!atomic_load(&hip_is_here))
        return cuda ? filter(cuda, infos, count) : count;
    if (rocr)
        count = filter(rocr, infos, count);
    hip = unless_empty(getenv("HIP_VISIBLE_DEVICES"));
    if (!hip)
        hip = unless_empty(cuda);
    return hip ? filter(hip, infos, count) : count;
}

/*
 * visible.c - which devices a process sees, and in which order: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and
 * ROCR_VISIBLE_DEVICES, as the vendors' libraries read them.
 *
 * An entry is an index or the start of a UUID. The first entry that names no device, or several, ends the list;
 * one that was named before is skipped. A vendor's library beneath leat's driver has read its own variables
 * already, so what is left to do here depends on the driver.
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

/* How a program of CUDA's writes the UUID of a device: from the bytes that the names give. */
static void write_uuid(const char *name, char *text, size_t bytes)
{
    unsigned char uuid[16];
    size_t at = (size_t)snprintf(text, bytes, UUID_PREFIX);

    leatc_uuid_of(name, uuid);
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, bytes - at, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               uuid[i]);
}

/* Is entry the start of the device's UUID? A program of HIP's writes the bytes as the text that they are. */
static bool is_device(const char *entry, const leat_device_info *info)
{
    char hexadecimal[64], plain[sizeof info->name + sizeof UUID_PREFIX];

    write_uuid(info->name, hexadecimal, sizeof hexadecimal);
    snprintf(plain, sizeof plain, UUID_PREFIX "%.*s", (int)sizeof info->name - 1, info->name);
    return !strncasecmp(entry, hexadecimal, strlen(entry)) || !strncasecmp(entry, plain, strlen(entry));
}

/* The place of the device that an entry names, or NO_DEVICE. */
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

/* Cuts the next entry, without blanks around it, out of *list. False: it is too long for any device. */
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

/* Leaves of infos what list names, in its order. */
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

/* AMD's runtime takes an empty list for none at all. */
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

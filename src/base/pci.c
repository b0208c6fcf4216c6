/* pci.c - see pci.h. */
#include "base/pci.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Reads one line of a device's folder in sysfs. */
static bool read_line(const char *pci_address, const char *file, char *line, int line_bytes)
{
    char path[96];
    FILE *stream;
    bool ok;

    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", pci_address, file);
    stream = fopen(path, "re");
    if (!stream)
        return false;
    ok = fgets(line, line_bytes, stream) != NULL;
    fclose(stream);
    return ok;
}

/* Returns the PCIe generation of a speed such as "32.0 GT/s PCIe". */
static uint32_t generation(const char *speed)
{
    static const double rates[] = {2.5, 5, 8, 16, 32, 64, 128};
    double rate = strtod(speed, NULL);
    uint32_t found = 0;

    for (uint32_t i = 0; i < sizeof rates / sizeof rates[0]; i++)
        if (rate >= rates[i])
            found = i + 1;
    return found;
}

void leati_pci_describe(leat_device_info *info)
{
    char line[64];

    info->numa_node = -1;
    info->link_gen = 0;
    info->link_width = 0;
    info->pci_address[sizeof info->pci_address - 1] = '\0';
    for (char *p = info->pci_address; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    if (!info->pci_address[0])
        return;
    if (read_line(info->pci_address, "numa_node", line, sizeof line))
        info->numa_node = atoi(line);
    if (read_line(info->pci_address, "current_link_speed", line, sizeof line))
        info->link_gen = generation(line);
    if (read_line(info->pci_address, "current_link_width", line, sizeof line))
        info->link_width = (uint32_t)strtoul(line, NULL, 10);
}

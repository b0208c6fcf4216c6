/*
 * pci.h - reads what Linux reports in sysfs about a device's PCI link.
 */
#ifndef LEATI_PCI_H
#define LEATI_PCI_H

#include <leat/device.h>

/* Fills info->numa_node, link_gen and link_width for the device at info->pci_address ("0000:1B:00.0", or "" if
 * unknown), and changes pci_address to lower case, which sysfs needs. Unknown values become -1, 0 and 0. */
void leati_pci_describe(leat_device_info *info);

#endif

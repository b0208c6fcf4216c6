/*
 * pci.h - what Linux tells in sysfs of the link that a device sits on.
 */
#ifndef LEATI_PCI_H
#define LEATI_PCI_H

#include <leat/device.h>

/* Fills numa_node, link_gen and link_width for the device at pci_address ("0000:1B:00.0", or "" when not known),
 * which is put into the lower case that sysfs wants. -1, 0 and 0 where that is not known. */
void leati_pci_describe(leat_device_info *info);

#endif

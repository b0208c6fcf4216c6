/*
 * registry.h - which drivers there are, in which order, and what became of each.
 */
#ifndef LEATI_REGISTRY_H
#define LEATI_REGISTRY_H

#include "driver/driver.h"

/* The driver at a place of LEAT_DRIVERS, loaded on first use; NULL past the last one. status and reason (either
 * may be NULL) say what loading gave; reason lives as long as the process. */
struct leati_driver *leati_registry_driver(unsigned index, leat_status *status, const char **reason);

/* OK, or INVALID and a message when LEAT_DRIVERS names what is no driver. */
leat_status leati_registry_check(const char *what);

#endif

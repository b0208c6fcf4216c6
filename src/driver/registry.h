/*
 * registry.h - the drivers in the order of LEAT_DRIVERS, and for each the result of loading it.
 */
#ifndef LEATI_REGISTRY_H
#define LEATI_REGISTRY_H

#include "driver/driver.h"

/* Returns driver number index of LEAT_DRIVERS, or NULL after the last one. All drivers are loaded at the first
 * call. *status and *reason (either pointer may be NULL): the result of loading it, and why it failed; reason
 * lives as long as the process. */
struct leati_driver *leati_registry_driver(unsigned index, leat_status *status, const char **reason);

/* Returns INVALID, with a message, if LEAT_DRIVERS has a name that no driver has. what: the name of the API call.
 */
leat_status leati_registry_check(const char *what);

#endif

/*
 * registry.h - loads the drivers in the order of LEAT_DRIVERS, and returns them with the result of loading.
 */
#ifndef LEATI_REGISTRY_H
#define LEATI_REGISTRY_H

#include "driver/driver.h"

/* Returns driver number index of LEAT_DRIVERS, or NULL after the last one. All drivers are loaded at the first
 * call. Sets *status to the result of loading the driver, and *reason to why loading failed; either pointer may be
 * NULL. The text stays valid until the process ends. */
struct leati_driver *leati_registry_driver(unsigned index, leat_status *status, const char **reason);

/* Returns INVALID, with a message, if LEAT_DRIVERS has a name that no driver has. what: the name of the API call.
 */
leat_status leati_registry_check(const char *what);

#endif

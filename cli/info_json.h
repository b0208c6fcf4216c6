/*
 * info_json.h - devices, drivers and environment variables as JSON.
 */
#ifndef CLI_INFO_JSON_H
#define CLI_INFO_JSON_H

#include <jansson.h>
#include <leat/leat.h>
#include <stdbool.h>

/* All that leat_device_info says, under the same names; what is unknown is null. NULL when memory is short. */
json_t *info_device_json(const leat_device_info *info);

/* All that leat_driver_info says. NULL when memory is short. */
json_t *info_driver_json(const leat_driver_info *info);

/* Prints all of "leat info --json". False after saying what failed. */
bool info_print_json(void);

#endif

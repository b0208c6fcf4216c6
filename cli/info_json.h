/*
 * info_json.h - describes devices, drivers and environment variables as JSON.
 */
#ifndef CLI_INFO_JSON_H
#define CLI_INFO_JSON_H

#include <jansson.h>
#include <leat/leat.h>
#include <stdbool.h>

/* Returns all members of leat_device_info under the same names; unknown values are null. NULL if memory is
 * short. */
json_t *info_device_json(const leat_device_info *info);

/* Returns all members of leat_driver_info, or NULL if memory is short. */
json_t *info_driver_json(const leat_driver_info *info);

/* Prints the output of "leat info --json". Returns false after reporting what failed. */
bool info_print_json(void);

#endif

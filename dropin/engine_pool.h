/* engine_pool.h - what the files of libleat-run-engine share. */
#ifndef DROPIN_ENGINE_POOL_H
#define DROPIN_ENGINE_POOL_H

#include "engine.h"

#include <leat/leat.h>

#define ENGINE_DEVICES_MOST 64

/* engine.c: opens leat's device. */
enum engine_result engine_open(int device, leat_device **opened, void **context, char *message,
                               size_t message_bytes);

/* engine_pool.c: the functions of struct engine. */
enum engine_result engine_pool_alloc(const struct engine_block *wanted, uint64_t *ptr, char *message,
                                     size_t message_bytes);
enum engine_result engine_pool_free(uint64_t ptr, const struct engine_block *given, char *message,
                                    size_t message_bytes);
enum engine_result engine_pool_free_now(uint64_t ptr);
bool engine_pool_knows(int device, void *stream);
void engine_pool_leave_stream(void *stream);
bool engine_pool_find(uint64_t ptr, uint64_t *base);
bool engine_pool_trim(int device, uint64_t keep_bytes);
struct engine_figures engine_pool_figures(int device);

/* The device is about to be closed, and with it the pool and its streams. */
void engine_pool_close(int device);

#endif

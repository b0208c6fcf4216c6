/*
 * access.h - what copies and fills check of the memory that they are given: can the stream reach it, and may it
 * use it already?
 */
#ifndef LEATI_ACCESS_H
#define LEATI_ACCESS_H

#include "core/core.h"

/* UNSUPPORTED, with a sentence, for memory of another driver than the stream's. name: "dst". */
leat_status leati_check_reach(leat_stream *stream, const char *name, const struct leati_target *target);

/* One use of memory by work that is about to be given to a stream. */
struct leati_access {
    const struct leati_guard_hooks *hooks;
    uint64_t tick;
};

/* May it be written, if it is to be, and in guard mode (leat/pool.h): may the stream use it already? And then: it was
 * given the work. */
leat_status leati_may_use(struct leati_access *use, leat_stream *stream, const char *name,
                          const struct leati_target *target, size_t bytes, bool write);
void leati_was_used(const struct leati_access *use, leat_stream *stream, const struct leati_target *target,
                    size_t bytes, bool write);

#endif

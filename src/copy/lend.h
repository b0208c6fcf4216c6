/*
 * lend.h - threads that wait copy meanwhile, where the threads that copy are few.
 *
 * On a machine with two processors one thread copies, and whoever waits for the copy would keep the other
 * processor busy with waiting, or leave it idle.
 */
#ifndef LEATI_COPY_LEND_H
#define LEATI_COPY_LEND_H

#include "copy/job.h"

/* The hook wait_begins of core.h. */
void leati_lend_wait_begins(struct leat_device *device, leati_query_function query, void *native);

#endif

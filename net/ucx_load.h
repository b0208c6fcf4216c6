/*
 * ucx_load.h - loads UCX and keeps the one context of the process, which all workers share.
 */
#ifndef LEATN_UCX_LOAD_H
#define LEATN_UCX_LOAD_H

#include "ucx_api.h"

#include <leat/status.h>

#include <signal.h>
#include <stdbool.h>

struct leatn_ucx_process {
    struct leatn_ucx_api api;
    const char *version; /* such as "1.13.1" */
    unsigned major, minor;
    char path[512]; /* of the library's file */
    ucx_context context;
    uint64_t memory_types; /* bits: LEATN_UCS_MEMORY_TYPE_... */
};

/* Returns the loaded and started UCX. Each success needs one leatn_ucx_release(); the last one ends the context.
 * Errors: as leatn_ucx_worker_create(). */
LEAT_NODISCARD leat_status leatn_ucx_acquire(const struct leatn_ucx_process **ucx);
void leatn_ucx_release(void);

/* Returns UCX's text for a status. UCX was loaded before. */
const char *leatn_ucx_status_text(ucx_status code);

/* Block signals on this thread, and restore its mask. Used around calls in which UCX may start a thread: the
 * thread inherits the mask, so it never runs a handler of the program. */
void leatn_ucx_block_signals(sigset_t *before);
void leatn_ucx_restore_signals(const sigset_t *before);

/* Writes which kinds of memory UCX can move, and for GPUs why not, as one line. */
void leatn_ucx_explain_memory(const struct leatn_ucx_process *ucx, char *text, size_t text_bytes);

#endif

/*
 * model_load.h - what loads consist of: reads, which become batches, each with a ticket.
 */
#ifndef LEATM_MODEL_LOAD_H
#define LEATM_MODEL_LOAD_H

#include "model_files.h"

/* The most ranges of one batch, so that the memory for their list stays small. */
#define LEATM_BATCH_MAX ((size_t)65536)

/* One contiguous range of a file, and its destination. */
struct leatm_read {
    leat_stream *stream;
    leat_file *file;
    uint64_t offset, bytes;
    char *dst;
    uint32_t file_number;
};

struct leat_model_load {
    leat_ticket **tickets; /* of batches of reads */
    size_t count, room;
    uint64_t reads;      /* in these; reads that continue each other count once */
    leat_event **events; /* behind layout copies, which have no tickets */
    size_t event_count, event_room;
    uint64_t bytes;
    uint64_t end_ns; /* the deadline, by CLOCK_MONOTONIC; 0: none */
};

/* Checks the options and makes an empty load. what: the call, for messages. */
leat_status leatm_load_create(const char *what, const leat_model_options *options, leat_model_load **load);

/* Sorts reads and starts them: as one batch for each stream, if they are not more than LEATM_BATCH_MAX. */
leat_status leatm_load_reads(leat_model_load *load, struct leatm_read *reads, size_t count);

/* Records an event on the stream, which the load waits for. */
leat_status leatm_load_event(leat_model_load *load, leat_stream *stream);

/* ---- regions: what an item reads ---- */

/* A slice of a tensor as a canonical layout: sizes of blocks of elements, the slowest dimension of the file first.
 */
struct leatm_region {
    unsigned dims;
    uint32_t block_bytes;
    uint64_t offset; /* in the file, of the first block */
    int64_t size[LEAT_MODEL_MAX_DIMS];
    int64_t from[LEAT_MODEL_MAX_DIMS]; /* strides in the file, in bytes; positive */
    int64_t to[LEAT_MODEL_MAX_DIMS];   /* strides at the destination */
    char *dst;                         /* of the first block */
    uint64_t bytes;                    /* of all blocks; 0: nothing to do */
    bool staged;                       /* through temporary memory, since no long rows are whole at both ends */
};

/* Checks an item and makes its region. */
leat_status leatm_region_make(const leat_model *model, const leat_model_item *item, struct leatm_region *region);

/* The number of reads that a region that is not staged consists of, and read number index. */
uint64_t leatm_region_rows(const struct leatm_region *region, uint64_t *row_bytes);
void leatm_region_row(const struct leatm_region *region, uint64_t index, struct leatm_read *read);

/* Reads a staged region through temporary memory. */
leat_status leatm_region_stage(leat_model_load *load, const leat_model *model, const leat_model_item *item,
                               const struct leatm_region *region);

#endif

/*
 * model_load.h - the parts of a load: its reads, and the batches of reads, which each have a ticket.
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
    leat_ticket **tickets; /* one for each batch of reads */
    size_t count, room;
    uint64_t reads;      /* reads of all batches; reads that continue each other count as one */
    leat_event **events; /* recorded behind layout copies, because these have no tickets */
    size_t event_count, event_room;
    uint64_t bytes;
    uint64_t end_ns; /* the deadline, as CLOCK_MONOTONIC time; 0: none */
};

/* Checks the options and makes an empty load. what: the name of the calling function, for messages. */
leat_status leatm_load_create(const char *what, const leat_model_options *options, leat_model_load **load);

/* Sorts reads and starts them, in batches of one stream and at most LEATM_BATCH_MAX reads each. */
leat_status leatm_load_reads(leat_model_load *load, struct leatm_read *reads, size_t count);

/* Records an event on the stream and adds it to the events that the load waits for. */
leat_status leatm_load_event(leat_model_load *load, leat_stream *stream);

/* ---- regions: the part of a tensor that an item reads ---- */

/* A slice of a tensor as a canonical layout. Sizes count blocks of elements. Dimension 0 is the slowest one of the
 * file. */
struct leatm_region {
    unsigned dims;
    uint32_t block_bytes;
    uint64_t offset; /* of the first block, in the file */
    int64_t size[LEAT_MODEL_MAX_DIMS];
    int64_t from[LEAT_MODEL_MAX_DIMS]; /* strides in the file, in bytes; positive */
    int64_t to[LEAT_MODEL_MAX_DIMS];   /* strides at the destination, in bytes */
    char *dst;                         /* destination of the first block */
    uint64_t bytes;                    /* bytes of all blocks; 0: nothing to do */
    bool staged;                       /* read through temporary memory, because rows are short or may overlap */
};

/* Checks an item and makes its region. */
leat_status leatm_region_make(const leat_model *model, const leat_model_item *item, struct leatm_region *region);

/* For a region that is not staged: the number of reads and the bytes of each, and the read with this index. */
uint64_t leatm_region_rows(const struct leatm_region *region, uint64_t *row_bytes);
void leatm_region_row(const struct leatm_region *region, uint64_t index, struct leatm_read *read);

/* Reads a staged region through temporary memory. */
leat_status leatm_region_stage(leat_model_load *load, const leat_model *model, const leat_model_item *item,
                               const struct leatm_region *region);

#endif

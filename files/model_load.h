/*
 * model_load.h - the parts of a load: its reads, the batches of reads, which each have a ticket, and the copies
 * between destinations that want the same bytes.
 */
#ifndef LEATM_MODEL_LOAD_H
#define LEATM_MODEL_LOAD_H

#include "model_files.h"

#include <stdatomic.h>

/* The most ranges of one batch, so that the memory for their list stays small. */
#define LEATM_BATCH_MAX ((size_t)65536)

/* One contiguous range of a file, and its destination. */
struct leatm_read {
    leat_stream *stream;
    leat_file *file;
    uint64_t offset, bytes;
    char *dst;
    uint32_t file_number;
    uint32_t lane; /* only in model_share.c: index of its stream */
    size_t order;  /* only in model_share.c: index in the list, which has the order of the items */
};

/* A point in a stream that the load waits for. It is an event, or the ticket of a copy that can fail later. */
struct leatm_mark {
    leat_event *event;
    leat_ticket *ticket;
    uint64_t bytes; /* copied between two destinations, between the previous mark of the stream and this one */
};

struct leat_model_load {
    atomic_uint holders;   /* reference count: sets may share a load, and any thread may destroy one */
    leat_ticket **tickets; /* one for each batch of reads */
    size_t count, room;
    uint64_t reads;           /* reads of all batches; reads that continue each other count as one */
    struct leatm_mark *marks; /* behind copies between destinations, and behind layout copies */
    size_t mark_count, mark_room;
    uint64_t bytes, copied_bytes;
    uint64_t end_ns; /* the deadline, as CLOCK_MONOTONIC time; 0: none */
};

/* Checks the options and makes an empty load. what: the name of the calling function, for messages. */
leat_status leatm_load_create(const char *what, const leat_model_options *options, leat_model_load **load);

/* Starts reads, in batches of one stream and at most LEATM_BATCH_MAX reads each. Bytes of a file that several
 * reads want are read once and copied to the other destinations (model_share.c). Changes the order of the reads.
 */
leat_status leatm_load_reads(leat_model_load *load, struct leatm_read *reads, size_t count);

/* Starts reads that want different bytes. Changes their order. */
leat_status leatm_load_apart(leat_model_load *load, struct leatm_read *reads, size_t count);

/* Starts one batch: the reads at the beginning of a list that is sorted by stream, file and offset. The batch ends
 * where the stream changes. ops has room for LEATM_BATCH_MAX. *taken receives the number of reads. */
leat_status leatm_load_batch(leat_model_load *load, const struct leatm_read *reads, size_t count,
                             leat_file_op *ops, size_t *taken);

/* Starts reads of which some want the same bytes. Changes their order. */
leat_status leatm_load_shared(leat_model_load *load, struct leatm_read *reads, size_t count);

/* Copies from one destination to another, as a part of the load. */
leat_status leatm_load_copy(leat_model_load *load, leat_stream *stream, char *dst, const char *src, size_t bytes,
                            bool followed);

/* Records an event on the stream and adds it to what the load waits for. bytes: of leatm_mark. */
leat_status leatm_load_mark(leat_model_load *load, leat_stream *stream, uint64_t bytes);

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

/* A staged region, and the item that it belongs to. */
struct leatm_staged {
    struct leatm_region region;
    const leat_model_item *item;
    size_t index; /* of the item */
    size_t rank;  /* number of earlier staged regions with the same tensor and stream */
};

/* Reads staged regions of one tensor, each on a stream of its own, through temporary memory. Bytes that several
 * regions want are read once. *failed receives the index of the item that failed. */
leat_status leatm_regions_stage(leat_model_load *load, const leat_model *model, const struct leatm_staged *staged,
                                size_t count, size_t *failed);

#endif

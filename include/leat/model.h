/*
 * leat/model.h - loads tensors of safetensors, GGUF, npy and npz files by name to devices, and saves tensors.
 *
 * These calls are in the library libleat-files (cc program.c $(pkg-config --cflags --libs leat-files)).
 *
 * Model. leat_model_open() reads the headers of a set of files and checks them; it never reads the tensors. A load
 * reads tensors, or slices of them, to where the caller wants them, in stream order:
 *
 *     leat_model_open((const char *[]){"model.safetensors.index.json"}, 1, &model);
 *     leat_model_load_all(stream, model, NULL, NULL, &set);                  // allocates and returns at once
 *     leat_model_find(model, "lm_head.weight", &index);
 *     leat_model_set_get_pointer(set, index, &weights);
 *     leat_launch(stream, ...);                                              // runs when the bytes are there
 *     leat_model_load_wait(leat_model_set_get_load(set), LEAT_COPY_POINT_DONE, LEAT_FOREVER);
 *     leat_model_set_destroy(set);
 *     leat_model_close(model);
 *
 * A save writes tensors that are in memory as a new file, also in stream order:
 *
 *     leat_model_save_start(stream, "model.safetensors", items, count, NULL, &save);     // returns at once
 *     leat_model_save_wait(save, LEAT_COPY_POINT_DURABLE, LEAT_FOREVER);                 // the file has its name
 *     leat_model_save_destroy(save);
 *
 * The parsers are strict: a file that breaks a rule of its format is refused before leat allocates anything whose
 * size the file determines. docs/models.md lists the rules, and where leat is stricter than other readers.
 * Pickles (.pt, .bin) are programs; leat refuses them.
 *
 * Names, shapes and metadata belong to the model and are valid until leat_model_close(). Loads keep the files open
 * that they read, so the model may be closed while they run.
 *
 * Experimental: all of this header may still change (leat/version.h).
 *
 * Several destinations. Items of one load that want the same bytes of a file, whole tensors or slices that
 * overlap, are read once, if their streams belong to devices of one driver. The item with the lowest number is the
 * source: it is filled from the file, on its stream. leat copies from there to the other destinations, each on its
 * own stream, while the next bytes are read. leat_model_load_replicas() loads a set to several devices in this
 * way. The order between the streams of such a load is:
 *
 *     - A destination is filled when its own stream and the source's stream have reached the load. The work that
 *       follows on its stream sees the bytes, as after any load.
 *     - The copies read the source's memory. So work that is submitted to the source's stream after the load waits
 *       until all copies from there are complete, and may then write or free this memory. A program that uses the
 *       memory on a third stream orders that stream after the source's one, as always.
 *     - So the streams wait for each other: none of them gets past the load before the others have reached it. Do
 *       not let work that was submitted to one of them before the load wait, through the host, for work that comes
 *       after the load on another one.
 *     - If a read fails, the load fails, and so does the next leat_stream_synchronize() of each stream that wanted
 *       the bytes. leat writes nothing outside of the destinations.
 *
 * Threads. A model never changes, and any thread may use it. A load, a set and a save may be used by several
 * threads too; the call that closes or frees one must be the last. Handles are pointers that leat does not check,
 * except for NULL.
 */
#ifndef LEAT_MODEL_H
#define LEAT_MODEL_H

#include <leat/base.h>
#include <leat/copy.h>
#include <leat/layout.h>
#include <leat/status.h>
#include <leat/stream.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef LEAT_NO_EXPERIMENTAL /* may still change: see leat/version.h */

/* ---- opening --------------------------------------------------------------------------------------------- */

/* An open set of files. */
typedef struct leat_model leat_model;

/* The formats that leat reads. */
typedef enum leat_model_format {
    LEAT_MODEL_FORMAT_SAFETENSORS = 1,
    LEAT_MODEL_FORMAT_NPY = 2,
    LEAT_MODEL_FORMAT_NPZ = 3,
    LEAT_MODEL_FORMAT_GGUF = 4
} leat_model_format;

#define LEAT_MODEL_MAX_DIMS LEAT_LAYOUT_MAX_DIMS

/*
 * Opens count files as one set: safetensors, GGUF, npy and npz files, and index files (*.index.json) in place of
 * the safetensors files in the same folder that they name. leat tells the format by the first bytes of a file. The
 * tensors of a file follow one another in the order of their bytes. The tensor of an npy file has the name of the
 * file, without the folder and ".npy"; those of an npz file have the names of its members, without ".npy".
 * Errors: INVALID (paths or model NULL, count 0); FILE (a file cannot be opened or read, breaks a rule of its
 * format, or is of another format; two tensors of the set have the same name); HOST_MEMORY; NOT_PERMITTED
 * (inside a host function).
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_open(const char *const *paths, size_t count, leat_model **model);

/* Closes a model; NULL does nothing. Loads and sets remain valid. Errors: none. */
LEAT_API leat_status leat_model_close(leat_model *model);

/* One file of a set. Start with LEAT_MODEL_FILE_INFO_INIT. */
typedef struct leat_model_file_info {
    size_t size; /* sizeof(leat_model_file_info): leat/base.h */
    const char *path;
    leat_model_format format;
    uint64_t bytes;        /* size of the file */
    uint64_t header_bytes; /* bytes of headers that leat has read and parsed */
    size_t first_tensor, tensors;
} leat_model_file_info;
#define LEAT_MODEL_FILE_INFO_INIT LEAT_SIZED_INIT_(leat_model_file_info)

/* Returns the number of tensors, and of files, of a model; either pointer may be NULL. Errors: INVALID (model
 * NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_model_count(const leat_model *model, size_t *tensors, size_t *files);

/* Describes file number index. Errors: INVALID (model or info NULL, info's size, index). */
LEAT_NODISCARD LEAT_API leat_status leat_model_get_file_info(const leat_model *model, size_t index,
                                                             leat_model_file_info *info);

/* One tensor. Start with LEAT_MODEL_TENSOR_INFO_INIT. */
typedef struct leat_model_tensor_info {
    size_t size; /* sizeof(leat_model_tensor_info): leat/base.h */
    const char *name;
    const char *type; /* "BF16", "F8_E4M3": docs/models.md lists the types */
    /* Elements of a block, the smallest part that fills whole bytes: F4 2; F6_E2M3 and F6_E3M2 4; Q4_0 32; others
     * mostly 1. */
    uint32_t block_elements;
    uint32_t block_bytes; /* size of a block; if block_elements is 1, of an element */
    uint32_t dims;        /* 0: a single element */
    const int64_t *shape; /* dims sizes, the slowest first */
    size_t file;          /* number of the tensor's file */
    uint64_t offset;      /* place of its first byte in the file */
    uint64_t bytes;
    uint8_t fortran_order; /* 1: in the file the first dimension is the fastest; only if dims is 2 or more */
} leat_model_tensor_info;
#define LEAT_MODEL_TENSOR_INFO_INIT LEAT_SIZED_INIT_(leat_model_tensor_info)

/* Describes tensor number index. Errors: INVALID (model or info NULL, info's size, index). */
LEAT_NODISCARD LEAT_API leat_status leat_model_get_tensor_info(const leat_model *model, size_t index,
                                                               leat_model_tensor_info *info);

/* Finds a tensor by its name. Errors: INVALID (an argument is NULL); NOT_FOUND. */
LEAT_NODISCARD LEAT_API leat_status leat_model_find(const leat_model *model, const char *name, size_t *index);

/* One entry of a file's metadata. Start with LEAT_MODEL_METADATA_INFO_INIT. */
typedef struct leat_model_metadata_info {
    size_t size; /* sizeof(leat_model_metadata_info): leat/base.h */
    size_t file;
    const char *key;
    const char *text; /* the value */
    size_t text_bytes;
} leat_model_metadata_info;
#define LEAT_MODEL_METADATA_INFO_INIT LEAT_SIZED_INIT_(leat_model_metadata_info)

/* Returns the number of metadata entries of all files. Errors: INVALID (an argument is NULL). */
LEAT_NODISCARD LEAT_API leat_status leat_model_metadata_count(const leat_model *model, size_t *count);

/* Describes entry number index. Errors: INVALID (model or info NULL, info's size, index). */
LEAT_NODISCARD LEAT_API leat_status leat_model_get_metadata_info(const leat_model *model, size_t index,
                                                                 leat_model_metadata_info *info);

/* ---- loading: items --------------------------------------------------------------------------------------- */

/* The elements start, start + step, ... of one dimension, below stop. */
typedef struct leat_model_slice {
    int64_t start, stop, step; /* 0 <= start <= stop <= size; step is positive */
} leat_model_slice;

/* One tensor, or a slice of one, and where it goes. Start with LEAT_MODEL_ITEM_INIT. */
typedef struct leat_model_item {
    size_t size;      /* sizeof(leat_model_item), the same for all items of an array: leat/base.h */
    size_t tensor;    /* number of the tensor in the model */
    void *dst;        /* destination, in memory of any kind */
    size_t dst_bytes; /* usable bytes at dst; leat reads no more than fits, and refuses the item otherwise */
    /* NULL: the whole tensor; otherwise one for each of its dimensions. In the last dimension of a type with
     * several elements a block, start and stop are multiples of block_elements, and step is 1. */
    const leat_model_slice *slice;
    /* NULL: the elements of the slice follow one another in the order of the file, so a tensor in Fortran order
     * keeps that order. Otherwise the layout says where each element goes. It has the dimensions and the sizes of
     * the slice, block_bytes as its element_bytes, and no index list. Types with several elements a block cannot
     * have a layout. */
    const leat_layout *layout;
    leat_stream *stream;
} leat_model_item;
#define LEAT_MODEL_ITEM_INIT LEAT_SIZED_INIT_(leat_model_item)

/* Options of a load. Start with LEAT_MODEL_OPTIONS_INIT. */
typedef struct leat_model_options {
    size_t size;          /* sizeof(leat_model_options): leat/base.h */
    uint64_t deadline_ns; /* time from the call after which leat cancels what has not been read yet; 0: none */
} leat_model_options;
#define LEAT_MODEL_OPTIONS_INIT LEAT_SIZED_INIT_(leat_model_options)

/* A running load. It is like a ticket, but for many copies. */
typedef struct leat_model_load leat_model_load;

/*
 * Loads count items; each runs on its own stream, in stream order, and the streams may belong to several devices.
 * Returns at once, with the exceptions of leat_file_read(). Items that are neighbours in their file and at their
 * destinations, on one stream, become one large read, and the reads of a stream start together, as
 * leat_file_read_batch() makes them. options may be NULL.
 *
 * For a slice, or a layout with strides, leat reads the bytes that are needed, and gaps of up to 64 KiB between
 * them. Where rows of 64 KiB and more are contiguous in the file and in memory, leat reads directly to dst.
 * Otherwise it reads into temporary device memory of the stream's pool, at most 256 MiB at a time, from which
 * leat_copy_layout() makes the result. Slices of one tensor on several streams that overlap in the file, such as
 * the left and the right half of its columns, are read once in this case too. If dst is pageable memory to which
 * that copy cannot store, such as a mapping whose file has become shorter, only leat_stream_synchronize() says so.
 *
 * leat checks all items before it starts the first one.
 * Errors: INVALID (an argument or a stream is NULL; an item's size, tensor, slice or layout is wrong, and the
 * message has the number of the item; options->size as leat/base.h says); RANGE (dst_bytes is too small); OVERLAP
 * (destinations overlap; leat does not notice all overlaps of items with a layout); UNSUPPORTED (a layout for a
 * type with several elements a block, or with an index list; a slice of such a type whose rows do not fill whole
 * blocks); FILE, and those of leat_file_read_batch() and leat_copy_layout(). After an error nothing was loaded,
 * except if some copies were started and a later one could not be: then leat cancels the started copies, and all
 * destinations are undefined once the streams have passed these copies.
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_load_start(const leat_model *model, const leat_model_item *items,
                                                          size_t count, const leat_model_options *options,
                                                          leat_model_load **load);

/*
 * Waits until all copies of the load have reached point (LEAT_COPY_POINT_STAGED: the files have been read), for at
 * most timeout_ns nanoseconds (0: only checks; LEAT_FOREVER: no limit). A load that failed, was cancelled or
 * passed its deadline reaches both points too, and the call then returns its first failure.
 * Errors: INVALID (load NULL); NOT_READY; those of leat_ticket_wait().
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_load_wait(leat_model_load *load, leat_copy_point point,
                                                         uint64_t timeout_ns);

/* Progress of a load. Start with LEAT_MODEL_LOAD_INFO_INIT. */
typedef struct leat_model_load_info {
    size_t size;            /* sizeof(leat_model_load_info): leat/base.h */
    uint64_t bytes;         /* bytes to read from files, with gaps; what several items want counts once */
    uint64_t arrived_bytes; /* how many of these bytes have arrived */
    size_t reads;           /* ranges of the files; ranges adjacent in file and memory count once */
    uint8_t staged, done;   /* 1: all reads have reached this point */
    leat_status status;     /* LEAT_OK so far, or why a copy stopped */
    /* Bytes that leat copies from one destination to another, because several items want them, and how many of
     * these have arrived. */
    uint64_t copied_bytes, copied_arrived_bytes;
} leat_model_load_info;
#define LEAT_MODEL_LOAD_INFO_INIT LEAT_SIZED_INIT_(leat_model_load_info)

/* Returns the progress of a load without waiting. Errors: INVALID (an argument is NULL, info's size). */
LEAT_NODISCARD LEAT_API leat_status leat_model_load_get_info(leat_model_load *load, leat_model_load_info *info);

/* Cancels what has not been read yet, as leat_ticket_cancel(). Does not wait. Errors: INVALID (load NULL). */
LEAT_API leat_status leat_model_load_cancel(leat_model_load *load);

/* Destroys a load; its copies continue. NULL does nothing. Errors: none. */
LEAT_API leat_status leat_model_load_destroy(leat_model_load *load);

/* ---- loading: whole sets ---------------------------------------------------------------------------------- */

/* The tensors of a model in memory that leat has allocated. */
typedef struct leat_model_set leat_model_set;

/*
 * Loads all tensors whose names match pattern, into device memory of the stream's pool: one block for each file,
 * with the tensors in the order of the file, so that many small tensors need few large reads. The
 * first tensor is aligned to 256 bytes, each other one to its block_bytes, up to 16. pattern is a wildcard as in
 * the shell ("*.mlp.*", "lm_head.*"; "*" also matches dots and slashes); NULL matches every name. Returns at once,
 * with the exceptions of leat_file_read(). Padding between tensors of up to 512 bytes is read too.
 * Errors: INVALID (model, stream or set NULL, options->size as leat/base.h says); NOT_FOUND (no name matches);
 * DEVICE_MEMORY, and those of leat_model_load_start().
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_load_all(leat_stream *stream, const leat_model *model,
                                                        const char *pattern, const leat_model_options *options,
                                                        leat_model_set **set);

/*
 * leat_model_load_all() for count streams, which may belong to several devices of one driver. Each stream gets a
 * set with all tensors that match, sets[i] for streams[i], in memory of its pool. One load fills all sets and
 * reads each byte of the files once; "Several destinations" above says in which order. leat_model_set_get_load()
 * returns this load for each of the sets; the last set that is destroyed destroys it. Streams of another driver
 * than the first read the files again. Errors: as leat_model_load_all(); INVALID (also streams or sets NULL, count
 * 0). After an error there is no set.
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_load_replicas(leat_stream *const *streams, size_t count,
                                                             const leat_model *model, const char *pattern,
                                                             const leat_model_options *options,
                                                             leat_model_set **sets);

/* Returns the address of tensor number index of the model. The bytes arrive there in stream order. A tensor
 * without bytes has the address NULL. Errors: INVALID (an argument is NULL, index); NOT_FOUND (the set does not
 * have it). */
LEAT_NODISCARD LEAT_API leat_status leat_model_set_get_pointer(const leat_model_set *set, size_t index,
                                                               void **ptr);

/* Returns the load of a set, to wait for it, query it or cancel it. It belongs to the set, or to all sets of one
 * leat_model_load_replicas(): do not destroy it. Returns NULL if set is NULL. */
LEAT_API leat_model_load *leat_model_set_get_load(leat_model_set *set);

/* Destroys a set and frees its memory, in the order of its stream, which must still exist. NULL does nothing.
 * Errors: those of leat_free(). */
LEAT_API leat_status leat_model_set_destroy(leat_model_set *set);

/* ---- saving ---------------------------------------------------------------------------------------------- */

/* One tensor to save. Start with LEAT_MODEL_SAVE_ITEM_INIT. */
typedef struct leat_model_save_item {
    size_t size;          /* sizeof(leat_model_save_item), the same for all items of an array: leat/base.h */
    const char *name;     /* UTF-8; not in npy files, which have no names */
    const char *type;     /* name of the type in safetensors: "BF16", "F8_E4M3" */
    uint32_t dims;        /* 0: a single element */
    const int64_t *shape; /* dims sizes, the slowest first */
    const void *src;      /* memory of any kind; the elements follow one another, the last dimension the fastest */
    size_t src_bytes;     /* usable bytes at src; leat refuses the item if its shape needs more */
} leat_model_save_item;
#define LEAT_MODEL_SAVE_ITEM_INIT LEAT_SIZED_INIT_(leat_model_save_item)

/* One entry of metadata, both UTF-8. Does not grow: it is an element of an array. */
typedef struct leat_model_entry {
    const char *key, *text;
} leat_model_entry;

/* Options of a save. Start with LEAT_MODEL_SAVE_OPTIONS_INIT. */
typedef struct leat_model_save_options {
    size_t size;                      /* sizeof(leat_model_save_options): leat/base.h */
    uint64_t deadline_ns;             /* from the call; then leat cancels what has not been written yet; 0: none */
    const leat_model_entry *metadata; /* metadata of a safetensors file, such as {"format", "pt"} */
    size_t metadata_count;
} leat_model_save_options;
#define LEAT_MODEL_SAVE_OPTIONS_INIT LEAT_SIZED_INIT_(leat_model_save_options)

/* A running save. It is like a ticket, but for a batch of writes and the commit of their file. */
typedef struct leat_model_save leat_model_save;

/*
 * Saves count tensors as a new file, in stream order: as npy if path ends in ".npy", which takes one tensor,
 * otherwise as safetensors, with the tensors in the order of the items and without gaps between them. While leat
 * writes the file, it has no name or a temporary one. It gets its name, and replaces an older file, when all of it
 * is on the disk (LEAT_FILE_TEMPORARY and leat_file_commit() in leat/file.h). Returns at once, with the exceptions
 * of leat_file_write(). leat reads items, names, shapes and metadata before the call returns; the memory at src
 * may change after LEAT_COPY_POINT_STAGED. Later work of the stream does not wait until the file is on the disk.
 * options may be NULL.
 * Errors: INVALID (an argument is NULL; the size of a struct; a name that is not UTF-8, that two items have, or
 * "__metadata__"; a type that leat does not know; a shape, or a key of metadata, that is wrong; npy with another
 * number of items than 1, or with metadata); RANGE (src_bytes is too small; a header of more than 100,000,000
 * bytes); UNSUPPORTED (npy does not have the type); FILE, and those of leat_file_write_batch() and
 * leat_file_commit(). After an error path still refers to the older file, if there is one.
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_save_start(leat_stream *stream, const char *path,
                                                          const leat_model_save_item *items, size_t count,
                                                          const leat_model_save_options *options,
                                                          leat_model_save **save);

/*
 * Waits until the save has reached point, for at most timeout_ns nanoseconds (0: only checks; LEAT_FOREVER: no
 * limit): LEAT_COPY_POINT_STAGED and LEAT_COPY_POINT_DONE when the tensors have been read and the new file has
 * them, LEAT_COPY_POINT_DURABLE when it has its name. A save that failed, was cancelled or passed its deadline
 * reaches all points too, and the call then returns its first failure. The name then still refers to the older
 * file, if there is one, unless only the fsync() for the directory has failed. Errors: INVALID (save NULL, point);
 * NOT_READY; those of leat_ticket_wait().
 */
LEAT_NODISCARD LEAT_API leat_status leat_model_save_wait(leat_model_save *save, leat_copy_point point,
                                                         uint64_t timeout_ns);

/* Progress of a save. Start with LEAT_MODEL_SAVE_INFO_INIT. */
typedef struct leat_model_save_info {
    size_t size;                   /* sizeof(leat_model_save_info): leat/base.h */
    uint64_t bytes;                /* size of the file */
    uint64_t arrived_bytes;        /* bytes that are in the file so far */
    uint8_t staged, done, durable; /* 1: the save has reached this point */
    leat_status status;            /* LEAT_OK so far, or why the save stopped */
} leat_model_save_info;
#define LEAT_MODEL_SAVE_INFO_INIT LEAT_SIZED_INIT_(leat_model_save_info)

/* Returns the progress of a save without waiting. Errors: INVALID (an argument is NULL, info->size). */
LEAT_NODISCARD LEAT_API leat_status leat_model_save_get_info(leat_model_save *save, leat_model_save_info *info);

/* Cancels what has not been written yet, and the commit as long as its fsync() has not begun. Does not wait, and
 * has no effect on a save that is over. Errors: INVALID (save NULL). */
LEAT_API leat_status leat_model_save_cancel(leat_model_save *save);

/* Destroys a save; the writing continues. NULL does nothing. Errors: none. */
LEAT_API leat_status leat_model_save_destroy(leat_model_save *save);

#endif /* LEAT_NO_EXPERIMENTAL */

#ifdef __cplusplus
}
#endif

#endif

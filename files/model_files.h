/*
 * model_files.h - the internal interface of libleat-files: types and functions that its parsers and the calls of
 * leat/model.h share. All external names begin with leatm_, or leatc_ for those that libleat-net has too
 * (report.h), so that they cannot collide with those of libleat when a program links both statically.
 *
 * A parser reads a file's header into memory that belongs to the file, checks every rule of the format, and adds
 * the tensors to the model. Names stay in the header's text, where the parser terminates them by a 0. For a file
 * that it refuses, leat has allocated no more than the header and one small record for each tensor for which the
 * header has room.
 */
#ifndef LEATM_MODEL_FILES_H
#define LEATM_MODEL_FILES_H

#include "report.h"

#include <leat/file.h>
#include <leat/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* The largest header in bytes that leat reads. safetensors has this limit; leat applies it to all formats. */
#define LEATM_HEADER_MAX 100000000u

/* The size of a window's buffer. */
#define LEATM_WINDOW_BYTES 65536u

/* The most entries of metadata that leat accepts in a model, so that their records do not need much more memory
 * than the header. */
#define LEATM_METADATA_MAX 1000000u

/* An element type. A type that packs elements, such as Q4_0, consists of blocks; others have blocks of 1. */
struct leatm_model_type {
    const char *name;
    uint16_t elements, bytes; /* the elements and the bytes of a block */
};

/* One tensor. The record is short, because a hostile header may contain two million tensors. */
struct leatm_model_tensor {
    uint64_t offset; /* of its elements in the file; in the safetensors parser, from the start of the data */
    uint64_t bytes;
    uint32_t name_at;  /* offset of its name in its file's text */
    uint32_t shape_at; /* index of its first size in the model's shapes; while parsing, an offset in a header */
    uint32_t file;
    uint16_t type; /* index in leatm_model_types */
    uint8_t dims;
    uint8_t fortran_order; /* 1: the first dimension is the fastest one */
};

/* One entry of metadata. key_at and text_at are offsets in the file's text. */
struct leatm_model_metadata {
    uint32_t file;
    uint32_t key_at, text_at;
    uint32_t text_bytes;
};

/* One open file and its header. */
struct leatm_model_file {
    char *path;
    int fd; /* open while leat parses the header, otherwise -1 */
    leat_file *file;
    leat_model_format format;
    uint64_t bytes;
    char *text; /* the header, or only the parts of it that contain names */
    size_t text_bytes, text_room;
    uint64_t header_bytes;
    size_t first, count; /* its tensors: the index of the first in the model, and their number */
};

struct leat_model {
    struct leatm_model_file *files;
    size_t file_count, file_room;
    struct leatm_model_tensor *tensors;
    size_t count, room;
    int64_t *shapes;
    size_t shape_count, shape_room;
    struct leatm_model_metadata *metadata;
    size_t metadata_count, metadata_room;
    /* Open-addressing hash table of names. The low 32 bits of a slot are the index of a tensor + 1, the high 32
     * bits are bits of the name's hash; a free slot is 0. */
    uint64_t *slots;
    size_t slot_mask;
};

/* ---- growing arrays, reading, checks ---- */

/* Checks the caller's array and copies it to *known, with elements of known_bytes. The caller may come from
 * another version of the library, but all its elements have one size. Free *known, also after a failure. */
leat_status leatm_sized_read_list(const char *type, const void *items, size_t count, size_t known_bytes,
                                  void **known);

/* Makes room for one more element of bytes bytes in *array, which has count elements and room for *room. */
leat_status leatm_model_room(void *array, size_t *room, size_t count, size_t bytes);

/* Reads exactly bytes bytes of the file. */
leat_status leatm_model_read_file(const struct leatm_model_file *file, uint64_t offset, void *out, size_t bytes);

/* Reads the first bytes bytes of the file into file->text, and puts a terminating 0 behind them. */
leat_status leatm_model_read_text(struct leatm_model_file *file, size_t bytes);

/* A buffer that holds one part of the file at a time, for parsers that do not keep the header's text. */
struct leatm_window {
    const struct leatm_model_file *file;
    unsigned char *buffer; /* of LEATM_WINDOW_BYTES */
    uint64_t at;           /* offset in the file of the buffer's first byte */
    size_t bytes;          /* bytes in the buffer */
    size_t ahead;          /* each read takes at least this number of bytes, if the file has them */
};

leat_status leatm_window_open(struct leatm_window *window, const struct leatm_model_file *file, size_t ahead);
void leatm_window_close(struct leatm_window *window);

/* Sets *at to the bytes of a range of the file, reading them if necessary. They are valid until the next call.
 * bytes is at most LEATM_WINDOW_BYTES. */
leat_status leatm_window_get(struct leatm_window *window, uint64_t offset, size_t bytes, const unsigned char **at);

/* Read little-endian numbers. */
uint16_t leatm_u16(const unsigned char *at);
uint32_t leatm_u32(const unsigned char *at);
uint64_t leatm_u64(const unsigned char *at);

/* Returns true if the text is valid UTF-8 without a 0 byte. */
bool leatm_utf8_valid(const char *text, size_t bytes);

/* Adds a tensor to the model. *tensor is valid until the next tensor is added. */
leat_status leatm_model_add_tensor(leat_model *model, struct leatm_model_tensor **tensor);
leat_status leatm_model_add_shape(leat_model *model, uint64_t size);
leat_status leatm_model_add_metadata(leat_model *model, struct leatm_model_metadata **metadata);

/* Makes room for this number of further tensors and of sizes in their shapes. Allocates no more than that. */
leat_status leatm_model_reserve(leat_model *model, size_t tensors, size_t sizes);

/* Multiplies *product by factor. Returns false if the result is more than INT64_MAX. */
bool leatm_multiply(uint64_t *product, uint64_t factor);

/* ---- types ---- */

extern const struct leatm_model_type leatm_model_types[];

/* Returns the index of the type with this name in a safetensors file, or -1. */
int leatm_type_of_safetensors(const char *name, size_t bytes);

/* Returns the index of the type with this descr in an npy file, such as "<f4", or -1. */
int leatm_type_of_npy(const char *descr, size_t bytes);

/* Returns the index of the type with this number in a GGUF file, or -1. If ggml has removed the type, *removed
 * becomes its name, otherwise NULL. */
int leatm_type_of_ggml(uint32_t number, const char **removed);

const char *leatm_tensor_name(const leat_model *model, const struct leatm_model_tensor *tensor);

/* ---- the formats ---- */

leat_status leatm_safetensors_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_npy_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_npz_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_gguf_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);

/* Parses the npy file between the offsets start and end of a file, and sets type, shape and place of the tensor
 * with this index in the model. The tensor has its name already. */
leat_status leatm_npy_parse_at(leat_model *model, size_t index, struct leatm_window *window, uint64_t start,
                               uint64_t end);

/* A sentence for messages that says how to convert a pickle. */
extern const char leatm_pickle_advice[];

/* The header of a file to save. The caller frees text. */
struct leatm_header {
    char *text;
    size_t bytes, room;
};

/* Make the header of a file with these tensors, which the caller has checked. bytes: the size of each tensor. */
leat_status leatm_safetensors_header(const leat_model_save_item *items, const uint64_t *bytes, size_t count,
                                     const leat_model_entry *metadata, size_t metadata_count,
                                     struct leatm_header *header);
leat_status leatm_npy_header(const leat_model_save_item *item, struct leatm_header *header);

/* Opens one file and adds its tensors. */
leat_status leatm_model_open_file(leat_model *model, const char *path);

/* Opens the files that a safetensors index names, and checks that they contain the tensors of the index. */
leat_status leatm_index_open(leat_model *model, const char *path);

/* Reads a whole small file into memory. The caller frees it. */
leat_status leatm_model_read_whole(const char *path, char **text, size_t *bytes);

/* Adds the names of all tensors to the model's hash table, and refuses duplicates. */
leat_status leatm_model_hash(leat_model *model);

/* Returns the index of the tensor with this name, or SIZE_MAX. */
size_t leatm_model_lookup(const leat_model *model, const char *name);

uint64_t leatm_hash_text(const char *text, size_t bytes);

#endif

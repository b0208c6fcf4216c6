/*
 * model_files.h - what the parsers of the formats and the calls of leat/model.h share. Names that cross files
 * begin with leatm_, so that both libraries can be linked statically.
 *
 * A parser reads a file's header into memory that belongs to the file, checks every rule of the format, and adds
 * the tensors to the model. Names stay where they are in the header's text, terminated there by a 0. A file that
 * is refused allocates no more than its header and one small record for each tensor that the header has room for.
 */
#ifndef LEATM_MODEL_FILES_H
#define LEATM_MODEL_FILES_H

#include <leat/file.h>
#include <leat/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* The largest header that leat reads, of any format. It is the rule of safetensors. */
#define LEATM_HEADER_MAX 100000000u

/* The most entries of metadata that leat accepts in a set, so that their records stay small beside the header. */
#define LEATM_METADATA_MAX 1000000u

/* A type of elements. */
struct leatm_model_type {
    const char *name;
    uint16_t elements, bytes; /* of a block */
};

/* One tensor, in 32 bytes, since hostile headers may have two million. */
struct leatm_model_tensor {
    uint64_t offset; /* in the file; while a safetensors header is parsed, in its data */
    uint64_t bytes;
    uint32_t name_at;  /* in the text of its file */
    uint32_t shape_at; /* in the model's shapes; while a safetensors header is parsed, in its text */
    uint32_t file;
    uint16_t type; /* index of a type */
    uint8_t dims;
};

/* One entry of metadata. Offsets are in the text of the file. */
struct leatm_model_metadata {
    uint32_t file;
    uint32_t key_at, text_at;
    uint32_t text_bytes;
};

/* One open file and its header. */
struct leatm_model_file {
    char *path;
    int fd; /* open while its header is parsed, otherwise -1 */
    leat_file *file;
    leat_model_format format;
    uint64_t bytes;
    char *text; /* the header, or those parts of it that have names */
    size_t text_bytes, text_room;
    uint64_t header_bytes;
    size_t first, count; /* of its tensors */
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
    /* Open hash of names: number of a tensor + 1 below, 32 bits of the name's hash above; or 0. */
    uint64_t *slots;
    size_t slot_mask;
};

/* ---- failures ---- */

/* Sets this thread's message and returns status. */
leat_status leatm_model_fail(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts "<formatted>: " in front of this thread's message and returns status. */
leat_status leatm_model_fail_in(leat_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define TRY(expression)                                                                                           \
    do {                                                                                                          \
        leat_status try_status_ = (expression);                                                                   \
        if (try_status_ != LEAT_OK)                                                                               \
            return try_status_;                                                                                   \
    } while (0)

/* Returns text with everything that is not printable ASCII replaced by '?', cut to fit, for messages. */
struct leatm_shown {
    char text[80];
};
const char *leatm_shown(struct leatm_shown *shown, const char *text, size_t bytes);

/* ---- growing arrays, reading, checks ---- */

/* Makes room for one more element of bytes bytes in *array. */
leat_status leatm_model_room(void *array, size_t *room, size_t count, size_t bytes);

/* Reads exactly bytes bytes of the file. */
leat_status leatm_model_read_file(const struct leatm_model_file *file, uint64_t offset, void *out, size_t bytes);

/* Makes the first bytes bytes of the file available in file->text, and a terminating 0 after them. */
leat_status leatm_model_read_text(struct leatm_model_file *file, size_t bytes);

/* Returns true if bytes are valid UTF-8 without a 0 byte. */
bool leatm_utf8_valid(const char *text, size_t bytes);

/* Adds a tensor. The reference is valid until the next one is added. */
leat_status leatm_model_add_tensor(leat_model *model, struct leatm_model_tensor **tensor);
leat_status leatm_model_add_shape(leat_model *model, uint64_t size);
leat_status leatm_model_add_metadata(leat_model *model, struct leatm_model_metadata **metadata);

/* Multiplies; returns false if the product is more than INT64_MAX. */
bool leatm_multiply(uint64_t *product, uint64_t factor);

/* ---- types ---- */

extern const struct leatm_model_type leatm_model_types[];

/* Returns the index of a type by its name; -1: none. */
int leatm_type_by_name(const char *name, size_t bytes);

const char *leatm_tensor_name(const leat_model *model, const struct leatm_model_tensor *tensor);

/* ---- the formats ---- */

leat_status leatm_safetensors_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);

/* The header of a file that is saved. The caller frees the text. */
struct leatm_header {
    char *text;
    size_t bytes, room;
};

/* Make the header of a file of such tensors, which have been checked. bytes: those of each tensor. */
leat_status leatm_safetensors_header(const leat_model_save_item *items, const uint64_t *bytes, size_t count,
                                     const leat_model_entry *metadata, size_t metadata_count,
                                     struct leatm_header *header);
leat_status leatm_npy_header(const leat_model_save_item *item, struct leatm_header *header);

/* Opens one file and adds its tensors. */
leat_status leatm_model_open_file(leat_model *model, const char *path);

/* Opens the files that an index names, and checks that they have its tensors. */
leat_status leatm_index_open(leat_model *model, const char *path);

/* Reads a whole small file into memory. The caller frees it. */
leat_status leatm_model_read_whole(const char *path, char **text, size_t *bytes);

/* Enters all names into the hash, and refuses duplicates. */
leat_status leatm_model_hash(leat_model *model);

/* Returns the number of a tensor, or SIZE_MAX. */
size_t leatm_model_lookup(const leat_model *model, const char *name);

uint64_t leatm_hash_text(const char *text, size_t bytes);

#endif

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

/* The most bytes of a file that a window holds. */
#define LEATM_WINDOW_BYTES 65536u

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
    uint8_t fortran_order; /* 1: the first dimension is the fastest one */
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

/* ---- structs that can grow: leat/base.h ---- */

/* Returns the first field of such a struct. */
size_t leatm_size_of(const void *given);

/* Returns LEAT_OK if a call can use the caller's struct, otherwise INVALID. field: what the message calls the
 * struct's field size, such as "leat_model_get_file_info: info->size"; known_bytes: the size of the struct in this
 * version of the library. */
leat_status leatm_sized_check(const char *field, const char *type, const void *given, size_t known_bytes);

/* Copies a checked struct of the caller into one of known_bytes, which becomes its size; what the caller does not
 * have becomes 0. */
void leatm_sized_read(void *known, size_t known_bytes, const void *given);

/* Copies the caller's array, whose elements may be those of another version of the library, but all have one size.
 * The caller frees *known, also after a failure. */
leat_status leatm_sized_read_list(const char *type, const void *items, size_t count, size_t known_bytes,
                                  void **known);

/* Copies filled, of known_bytes, into a checked struct of the caller, as far as the caller knows it. The caller's
 * size stays. */
void leatm_sized_write(void *given, const void *filled, size_t known_bytes);

/* ---- growing arrays, reading, checks ---- */

/* Makes room for one more element of bytes bytes in *array. */
leat_status leatm_model_room(void *array, size_t *room, size_t count, size_t bytes);

/* Reads exactly bytes bytes of the file. */
leat_status leatm_model_read_file(const struct leatm_model_file *file, uint64_t offset, void *out, size_t bytes);

/* Makes the first bytes bytes of the file available in file->text, and a terminating 0 after them. */
leat_status leatm_model_read_text(struct leatm_model_file *file, size_t bytes);

/* A part of a file that slides over its header, for parsers that do not keep the header's text. */
struct leatm_window {
    const struct leatm_model_file *file;
    unsigned char *buffer; /* of LEATM_WINDOW_BYTES */
    uint64_t at;           /* the place of the buffer in the file */
    size_t bytes;          /* that the buffer has */
    size_t ahead;          /* a read takes this number of bytes at least, if the file has them */
};

leat_status leatm_window_open(struct leatm_window *window, const struct leatm_model_file *file, size_t ahead);
void leatm_window_close(struct leatm_window *window);

/* Makes a range of the file available at *at, until the next call. bytes is at most LEATM_WINDOW_BYTES. */
leat_status leatm_window_get(struct leatm_window *window, uint64_t offset, size_t bytes, const unsigned char **at);

/* Little-endian numbers. */
uint16_t leatm_u16(const unsigned char *at);
uint32_t leatm_u32(const unsigned char *at);
uint64_t leatm_u64(const unsigned char *at);

/* Returns true if bytes are valid UTF-8 without a 0 byte. */
bool leatm_utf8_valid(const char *text, size_t bytes);

/* Adds a tensor. The reference is valid until the next one is added. */
leat_status leatm_model_add_tensor(leat_model *model, struct leatm_model_tensor **tensor);
leat_status leatm_model_add_shape(leat_model *model, uint64_t size);
leat_status leatm_model_add_metadata(leat_model *model, struct leatm_model_metadata **metadata);

/* Makes room for exactly this many further tensors and sizes, if there is less. */
leat_status leatm_model_reserve(leat_model *model, size_t tensors, size_t sizes);

/* Multiplies; returns false if the product is more than INT64_MAX. */
bool leatm_multiply(uint64_t *product, uint64_t factor);

/* ---- types ---- */

extern const struct leatm_model_type leatm_model_types[];

/* Returns the index of a type by its name in a safetensors file; -1: none. */
int leatm_type_of_safetensors(const char *name, size_t bytes);

/* Returns the index of a type by a descr of npy, as "<f4"; -1: none. */
int leatm_type_of_npy(const char *descr, size_t bytes);

/* Returns the index of a type by its number in a GGUF file; -1: none. *removed is its name if ggml had it once,
 * otherwise NULL. */
int leatm_type_of_ggml(uint32_t number, const char **removed);

const char *leatm_tensor_name(const leat_model *model, const struct leatm_model_tensor *tensor);

/* ---- the formats ---- */

leat_status leatm_safetensors_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_npy_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_npz_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);
leat_status leatm_gguf_parse(leat_model *model, struct leatm_model_file *file, uint32_t number);

/* Parses the npy file from start to end of a file: the type, the shape and the place of tensor number index of the
 * model, whose name is there already. */
leat_status leatm_npy_parse_at(leat_model *model, size_t index, struct leatm_window *window, uint64_t start,
                               uint64_t end);

/* What to do about a pickle, for messages. */
extern const char leatm_pickle_advice[];

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

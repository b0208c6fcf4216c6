/*
 * ordering.h - the order that default streams, synchronous copies and copies between devices promise, by the names
 * of any of the three libraries: what ordering.c needs from a library's names.
 *
 * A program lists its library's forms of copies and sets and a few other calls in one table, and runs the model.
 */
#ifndef ORDERING_H
#define ORDERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of memory. SYMBOL is a variable of the program. */
enum sort { DEVICE, ARRAY, PINNED, PAGEABLE, MANAGED, SYMBOL, SORTS };

#define IN(sort) (1u << (sort))
#define ON_DEVICE (IN(DEVICE) | IN(ARRAY))
#define ON_HOST (IN(PINNED) | IN(PAGEABLE))
#define LINEAR (IN(DEVICE) | ON_HOST | IN(MANAGED) | IN(SYMBOL))
#define ANY (LINEAR | IN(ARRAY))

/* An array, if those of the graph have one row. */
#define ONE_ROW IN(SORTS)
#define ROW_ARRAY (IN(ARRAY) | ONE_ROW)

/* What a copy reads and writes, always as a whole: cell_bytes() bytes without gaps, arrays row by row. */
struct cell {
    enum sort sort;
    int device; /* of DEVICE and ARRAY */
    int number;
    void *ptr; /* of an ARRAY its handle */
};

/* In which order a call is. */
enum order {
    STREAM,  /* that of the stream that it is given */
    SYNC,    /* that of a default stream, and of the devices whose memory it uses */
    WAITING, /* the same in the stream that it is given, and it is done at the return */
    PEER     /* that of all work of these devices and of the current one */
};

/* A way to copy. */
struct form {
    const char *name;
    enum order order;
    unsigned dst, src; /* sets of sorts */
    int (*copy)(const struct cell *dst, const struct cell *src, void *stream);
    bool mine; /* without a stream, it takes the per-thread default stream and not the legacy one */
};

/* A way to fill a cell of sort DEVICE, PINNED or MANAGED with a value of 1, 2 or 4 bytes. */
struct set {
    const char *name;
    enum order order;
    unsigned unit;
    int (*fill)(const struct cell *dst, uint32_t value, void *stream);
    bool mine;
};

/* Calls return the library's own result; 0 is success. */
struct names {
    const char *program;
    int not_ready;
    int (*set_device)(int device);
    int (*device_synchronize)(void);
    int (*device_reset)(void); /* of the current device */
    int (*stream_create)(void **stream, bool blocking);
    int (*stream_destroy)(void *stream);
    int (*stream_synchronize)(void *stream);
    int (*stream_query)(void *stream);
    int (*stream_wait)(void *stream, void *event);
    int (*host_function)(void *stream, void (*function)(void *), void *argument);
    int (*event_create)(void **event);
    int (*event_destroy)(void *event);
    int (*event_record)(void *event, void *stream);
    int (*event_synchronize)(void *event);
    int (*event_query)(void *event);
    int (*allocate)(enum sort sort, size_t bytes, void **ptr); /* DEVICE, PINNED, MANAGED */
    int (*release)(enum sort sort, void *ptr);
    int (*array_create)(size_t row_bytes, size_t rows, void **array); /* of elements of 4 bytes */
    int (*array_destroy)(void *array);
    const struct form *forms;
    size_t form_count;
    const struct set *sets;
    size_t set_count;
};

/* Of the graph that runs. */
size_t cell_bytes(void);
size_t cell_rows(void);
size_t row_bytes(void);

/* A random copy kind that is valid for these cells, by the numbers that CUDA and HIP share. */
int kind_of_copy(const struct cell *dst, const struct cell *src);

/* Runs random graphs of work. Returns what main() returns. */
int run_ordering(const struct names *names, int argc, char **argv);

#endif

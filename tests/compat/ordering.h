/*
 * ordering.h - declares the interface between ordering.c and the three programs that run it, one for each
 * compatibility library. ordering.c tests the order that default streams, synchronous copies and copies between
 * devices guarantee.
 *
 * A program fills a struct names with its library's forms of copies and sets and some other calls, and passes it
 * to run_ordering().
 */
#ifndef ORDERING_H
#define ORDERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Kinds of memory. A SYMBOL is a variable of the program, for calls such as cudaMemcpyToSymbol(). */
enum sort { DEVICE, ARRAY, PINNED, PAGEABLE, MANAGED, SYMBOL, SORTS };

#define IN(sort) (1u << (sort))
#define ON_DEVICE (IN(DEVICE) | IN(ARRAY))
#define ON_HOST (IN(PINNED) | IN(PAGEABLE))
#define LINEAR (IN(DEVICE) | ON_HOST | IN(MANAGED) | IN(SYMBOL))
#define ANY (LINEAR | IN(ARRAY))

/* The bit for arrays in graphs whose arrays have one row. Other graphs do not use a form that has this bit. */
#define ONE_ROW IN(SORTS)
#define ROW_ARRAY (IN(ARRAY) | ONE_ROW)

/* The memory of one copy or set. A copy always moves a whole cell: cell_bytes() bytes without gaps, or all rows of
 * an array. */
struct cell {
    enum sort sort;
    int device; /* used for DEVICE and ARRAY */
    int number;
    void *ptr; /* address of the memory; handle of an ARRAY */
};

/* The work with which a call is ordered. */
enum order {
    STREAM,  /* with the work of the stream in its argument */
    SYNC,    /* with the default stream and the devices whose memory the call uses */
    WAITING, /* like SYNC, but with the stream in the argument; returns after completion */
    PEER     /* with all work of the current device and of the devices whose memory the call uses */
};

/* A call that copies. */
struct form {
    const char *name;
    enum order order;
    unsigned dst, src; /* bit masks of sorts */
    int (*copy)(const struct cell *dst, const struct cell *src, void *stream);
    bool mine; /* the call has no stream argument, and uses the per-thread default stream */
};

/* A call that fills a cell of sort DEVICE, PINNED or MANAGED with a value of 1, 2 or 4 bytes. */
struct set {
    const char *name;
    enum order order;
    unsigned unit;
    int (*fill)(const struct cell *dst, uint32_t value, void *stream);
    bool mine;
};

/* The calls of a library. They return the library's own result code, in which 0 means success. */
struct names {
    const char *program;
    int not_ready;
    int (*set_device)(int device);
    int (*device_synchronize)(void);
    int (*device_reset)(void); /* resets the current device */
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
    int (*allocate)(enum sort sort, size_t bytes, void **ptr); /* for sorts DEVICE, PINNED and MANAGED */
    int (*release)(enum sort sort, void *ptr);
    int (*array_create)(size_t row_bytes, size_t rows, void **array); /* makes an array whose elements have 4
                                                                       * bytes */
    int (*array_destroy)(void *array);
    const struct form *forms;
    size_t form_count;
    const struct set *sets;
    size_t set_count;
};

/* Return the size of a cell of the current graph. */
size_t cell_bytes(void);
size_t cell_rows(void);
size_t row_bytes(void);

/* Returns a random copy kind that is valid for these cells. CUDA and HIP use the same numbers. */
int kind_of_copy(const struct cell *dst, const struct cell *src);

/* Runs random graphs of work. Returns the exit status for main(). */
int run_ordering(const struct names *names, int argc, char **argv);

#endif

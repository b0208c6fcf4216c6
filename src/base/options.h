/*
 * options.h - leat's environment variables, in one table. Only options.c reads them.
 *
 * The variables are read once per process, at the first use. leat_option_list() prints the table. In a program
 * that runs with more rights than its caller (set-user-ID, set-group-ID, file capabilities) all variables count as
 * not set.
 */
#ifndef LEATI_OPTIONS_H
#define LEATI_OPTIONS_H

#include <leat/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * X(id, rule, default in words, debug only, text). The variable is called LEAT_<id>. The rule defines the allowed
 * values:
 *
 *     ANY                 any text; the code that uses the option checks it
 *     FLAG                1, yes, on or true; 0, no, off or false
 *     NUMBER(low, high)   a whole number in this range, with the suffixes K, M, G, T (powers of 1024)
 *     WORDS(words)        one of these words
 */
// clang-format off
#define LEATI_OPTION_LIST(X)                                                                                      \
    X(DEVICE, ANY, "the first device of LEAT_DRIVERS", 0,                                                         \
      "The device that leat_device_open(NULL) takes, such as cuda:1.")                                            \
    X(DRIVERS, ANY, "cuda,hip,cpu", 0, "The drivers to use, in order of preference.")                             \
    X(CUDA_LIBRARY, ANY, "libcuda.so.1", 0, "The CUDA driver library to load, a name or a path.")                 \
    X(HIP_LIBRARY, ANY, "libamdhip64.so.7, .6, .5 or libamdhip64.so, whichever is there", 0,                      \
      "The HIP library to load, a name or a path.")                                                               \
    X(CPU_DEVICES, NUMBER(1, 16), "2", 0, "How many CPU devices there are, 1 to 16.")                             \
    X(CPU_MEMORY, NUMBER(1 << 20, (uint64_t)1 << 44),                                                             \
      "the machine's memory; less where a control group or 'ulimit -v' allows less", 0,                           \
      "The memory of each CPU device in bytes; K, M, G and T (powers of 1024) may follow.")                       \
    X(CPU_THREADS, NUMBER(1, 1024), "the processors this process may use", 0,                                     \
      "Threads that run kernels and large copies, 1 to 1024.")                                                    \
    X(CPU_KERNELS, ANY, "", 0,                                                                                    \
      "Shared objects with kernels for the CPU device, between colons, in which libleat-cuda looks for those "    \
      "of a module of PTX, which that device cannot run.")                                                        \
    X(STRICT, FLAG, "0", 0,                                                                                       \
      "1: device memory of the CPU device is unreachable for host threads; touching it ends the program with "    \
      "a message on standard error that names the pointer, the access and the allocation.")                       \
    X(LOG, WORDS("none or error"), "none", 0,                                                                     \
      "error: the libraries with names of CUDA and HIP print leat's message for each call of leat's that "        \
      "failed to standard error, since CUDA's error codes carry none.")                                           \
    X(POOL_HISTORY, NUMBER(0, 1 << 24), "0", 0, "How many events each pool remembers for leat_pool_history().")   \
    X(POOL_PACKING, WORDS("auto, still or tight"), "auto", 0,                                                     \
      "What device pools do whose options leave it open when no idle memory fits in one piece: auto, still "      \
      "(new memory only) or tight (blocks stitched together from idle pages first). See leat/pool.h.")            \
    X(POOL_PLAN, ANY, "", 0,                                                                                      \
      "A plan that 'leat plan' made of a recorded run: where the default device pools put large blocks.")         \
    X(SCRUB, FLAG, "0", 0,                                                                                        \
      "1: pools clear memory before it is handed out, so that nobody sees what others left.")                     \
    X(COPY_STORE_POLICY, WORDS("probe, cached or streaming"), "probe", 0,                                         \
      "How the threads that stage copies of pageable memory write: cached, streaming (past the caches), or "      \
      "probe to measure which is faster.")                                                                        \
    X(TRACE, ANY, "", 0,                                                                                          \
      "A file to which the operations of the process are written, with their times (docs/trace.md). %p stands "   \
      "for the process ID.")                                                                                      \
    X(RECORD_ALLOCATIONS, ANY, "", 0,                                                                             \
      "A file to which this program's allocations are written, with what orders them, as a trace for 'leat "      \
      "replay'; %p in its name becomes the number of the process.")                                               \
    X(LINK_KEY_FILE, ANY, "", 0,                                                                                  \
      "The file with the key of tcp: and ucx: addresses, for leat send, receive, serve and bench net without "    \
      "--key-file. The libraries do not read it.")                                                                \
    X(LEAKS, FLAG, "0", 1,                                                                                        \
      "1: what is still allocated when a device is closed is listed on standard error, by tag, and by call "      \
      "stack with LEAT_POOL_BACKTRACES=1.")                                                                       \
    X(POOL_BACKTRACES, FLAG, "0", 1,                                                                              \
      "1: pools remember the call stack of each allocation, for reports and snapshots.")                          \
    X(POOL_GUARD, FLAG, "0", 1,                                                                                   \
      "1: pools put guards around blocks, poison what is freed and keep it for a while, and refuse use by "       \
      "streams that are not ordered after the allocation; damage is reported with call stacks. See "              \
      "leat/pool.h.")                                                                                             \
    X(COPY_WORKERS, NUMBER(1, 64), "three quarters of the processors, at most 12 a device", 0,                    \
      "Threads that move pageable memory, 1 to 64, on each NUMA node that has a device.")                         \
    X(COPY_RING, NUMBER(256 << 10, (uint64_t)1 << 40), "32M", 0,                                                  \
      "Pinned memory that one copy of pageable memory or of a file goes through, at most. Unless it is set, "     \
      "writes of more than 2 GiB to a file take up to an eighth of LEAT_COPY_MEMORY.")                            \
    X(COPY_MEMORY, NUMBER(256 << 10, (uint64_t)1 << 50), "1G, at most an eighth of the machine's", 0,             \
      "Pinned memory that all such copies under way on a device may have together.")                              \
    X(IO_WORKERS, NUMBER(1, 64), "as many as LEAT_COPY_WORKERS, at least 8", 0,                                   \
      "Threads that read and write files, 1 to 64, on each NUMA node that has a device. While they wait for a "   \
      "disk they need no processor. With several devices a read through the cache uses at most its device's part " \
      "of them, but at least 12.")                                                                                \
    X(IO_CACHE, WORDS("auto, cached or direct"), "auto", 0,                                                       \
      "How files are read and written that are opened without LEAT_FILE_CACHED and LEAT_FILE_DIRECT: cached, "    \
      "through the system's cache; direct, past it where the file system allows that; or auto, reads past it "    \
      "if it does not have the bytes.")                                                                           \
    X(IO_MAP, WORDS("auto, never, cached or always"), "auto", 1,                                                  \
      "Whether files are written through shared mappings instead of by pwrite(): never; cached, only bytes that " \
      "the system's cache has; always where the system allows it; or auto, where that is expected to be faster. " \
      "For measuring and for tests.")                                                                             \
    X(COPY_STAGE, FLAG, "0", 1, "1: the CPU device goes through pinned memory too, as GPUs do, for tests.")       \
    X(COPY_PROTOCOL, WORDS("auto, driver, eager, staged, kernel, rails or host"), "auto", 1,                      \
      "The protocol that copies take wherever it supports them: driver, eager, staged, kernel, rails, host, "     \
      "or auto, the one that is expected to be the fastest. For measuring; see docs/copies.md.")                  \
    X(LAYOUT_AS_GPU, FLAG, "0", 1,                                                                                \
      "1: leat_copy_layout() on the CPU device launches the kernels of GPUs, compiled for the processor, and "    \
      "uses the paths that a GPU needs, for tests.")                                                              \
    X(LAYOUT_KERNEL, WORDS("auto, naive, blocked, vectors, elements, rows, strided, pixels, triples, nd-tile, "   \
                           "transpose, transpose-small, transpose-wide, transpose-odd or transpose-wide-odd"),    \
                           "auto", 1,                                                                             \
      "The kernel of leat_copy_layout(): on processors naive, blocked (plain C) or vectors (no streaming "        \
      "stores); on GPUs elements, rows, strided, pixels, triples, nd-tile or transpose, which -small, -wide, "    \
      "-odd or -wide-odd may follow; or auto, the best of them. For measuring.")                                  \
    X(PREFETCH_STREAMS_IN, NUMBER(0, 16), "0", 1,                                                                 \
      "Streams of leat's over which leat_managed_prefetch() to a device goes in chunks, 1 to 16; 0: the "         \
      "driver's one call. For measuring.")                                                                        \
    X(PREFETCH_STREAMS_OUT, NUMBER(0, 16), "0", 1, "The same for prefetches to the host.")                        \
    X(PREFETCH_CHUNK, NUMBER(64 << 10, (uint64_t)1 << 40), "16M", 1, "Bytes of such a chunk, 64K or more.")       \
    X(FAULT, ANY, "none", 1,                                                                                      \
      "Faults to inject into every driver, or into one (cuda:fail=N): fail=N, fail=ENTRY:N, delay=N, "            \
      "corrupt=N, copy-short, fill-off, query-ready, wait-nothing, order-loose.")
// clang-format on

enum leati_option {
#define LEATI_OPTION_ENUM(id, rule, initial, debug, text) LEATI_OPTION_##id,
    LEATI_OPTION_LIST(LEATI_OPTION_ENUM)
#undef LEATI_OPTION_ENUM
        LEATI_OPTION_COUNT
};

/* Returns the value as text; NULL if the variable is not set or empty. The text stays valid until the process
 * ends. */
const char *leati_option(enum leati_option option);

/* Sets *number to the value of a NUMBER, or to initial if the variable is not set. Returns INVALID, with a
 * message, if the value is not allowed. */
leat_status leati_option_number(enum leati_option option, uint64_t initial, uint64_t *number);

/* Returns INVALID if some option has a value that is not allowed; the message names the value and the allowed
 * values. what: name of the calling API function. */
leat_status leati_options_check(const char *what);

/* Writes a hint about LEAT_ variables that leat does not know, to append to a message, such as
 * " (LEAT_DEVCE is set, but leat knows no such variable; did you mean LEAT_DEVICE?)"; "" if there are none. */
void leati_options_unknown(char *text, size_t text_bytes);

/* Returns true if a FLAG is on. A value that is not allowed counts as off. That does no harm, because opening a
 * device fails with such a value. */
bool leati_option_flag(enum leati_option option);

#endif

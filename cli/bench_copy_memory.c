/*
 * bench_copy_memory.c - allocates and prepares the kinds of host memory that the group "copy" measures.
 */
#include "bench_copy.h"
#include "bench_verify.h"
#include "temporary_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static const size_t huge_page = 2 * MIB;

const struct copy_memory_text copy_memory_texts[COPY_MEMORY_COUNT] = {
    [COPY_PINNED] = {"pinned", "pinned", "pinned memory"},
    [COPY_PAGEABLE] = {"pageable", "pageable", "pageable memory, pages of 4 KiB"},
    [COPY_HUGE] = {"huge", "huge pages", "pageable memory, huge pages"},
    [COPY_REGISTERED] = {"registered", "registered", "registered memory"},
    [COPY_FILE_WARM] = {"file", "file", "file mapping, in the page cache"},
    [COPY_FILE_COLD] = {"file-cold", "cold file", "file mapping, on the disk"},
    [COPY_FRESH] = {"fresh", "pageable, fresh", "pageable memory, first touched by the copy"},
};

static bool is_file(enum copy_memory memory)
{
    return memory == COPY_FILE_WARM || memory == COPY_FILE_COLD;
}

static bool system_failed(struct bench *bench, const char *what)
{
    snprintf(bench->error, sizeof bench->error, "%s: %s", what, strerror(errno));
    return false;
}

/* Sets the access rights of a mapped file. During copies a source file is mapped read-only, as in programs that
 * load files. */
static bool set_writable(struct copy_host *host, bool writable)
{
    if (!is_file(host->memory) || !host->source)
        return true;
    return mprotect(host->map, host->map_bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ) == 0 ||
           system_failed(host->bench, "mprotect of a file mapping");
}

bool copy_host_fill(struct copy_host *host, size_t bytes, uint64_t seed)
{
    if (!set_writable(host, true))
        return false;
    bench_fill_host(host->bench, host->ptr, bytes, seed);
    return set_writable(host, false);
}

bool copy_host_prepare(struct copy_host *host, size_t bytes)
{
    size_t pages = (bytes + PAGE - 1) / PAGE * PAGE;

    if (host->memory == COPY_FRESH)
        return madvise(host->ptr, pages, MADV_DONTNEED) == 0 || system_failed(host->bench, "madvise");
    if (host->memory != COPY_FILE_COLD)
        return true;

    /* posix_fadvise() does not evict pages that are mapped or dirty, so unmap them and write them back first. */
    if (madvise(host->map, host->map_bytes, MADV_DONTNEED) != 0 || fdatasync(host->file) != 0)
        return system_failed(host->bench, "writing the file back");
    errno = posix_fadvise(host->file, 0, 0, POSIX_FADV_DONTNEED);
    return errno == 0 || system_failed(host->bench, "posix_fadvise");
}

/* Creates an unlinked file of this size in the folder for temporary files. */
static enum copy_host_state make_file(struct copy_host *host)
{
    host->file = cli_temporary_file();
    if (host->file >= 0) {
        host->file_open = true;
        errno = posix_fallocate(host->file, 0, (off_t)host->map_bytes);
        if (errno == 0)
            return COPY_HOST_READY;
    }
    bench_note(host->bench, "copy: no rows of file mappings: a temporary file of %zu MiB cannot be made: %s",
               host->map_bytes >> 20, strerror(errno));
    return COPY_HOST_NONE;
}

/* Checks that the file can be evicted from the page cache, which is impossible for a file system in memory. */
static enum copy_host_state check_cold(struct copy_host *host)
{
    unsigned char resident = 0;

    if (!copy_host_prepare(host, host->bytes))
        return COPY_HOST_FAILED;
    if (mincore(host->map, PAGE, &resident) == 0 && !(resident & 1))
        return COPY_HOST_READY;
    bench_note(host->bench, "copy: no rows of cold files: the folder for temporary files keeps them in memory");
    return COPY_HOST_NONE;
}

static bool system_has_huge_pages(void)
{
    char text[128] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");

    if (!file)
        return false;
    if (!fgets(text, sizeof text, file))
        text[0] = '\0';
    fclose(file);
    return text[0] && !strstr(text, "[never]");
}

static enum copy_host_state make_map(struct copy_host *host)
{
    int flags = is_file(host->memory) ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    enum copy_host_state state;

    host->map_bytes = (host->bytes + PAGE - 1) / PAGE * PAGE + (is_file(host->memory) ? 0 : huge_page);
    if (is_file(host->memory)) {
        state = make_file(host);
        if (state != COPY_HOST_READY)
            return state;
    }
    host->map = mmap(NULL, host->map_bytes, PROT_READ | PROT_WRITE, flags, host->file, 0);
    if (host->map == MAP_FAILED) {
        host->map = NULL;
        system_failed(host->bench, "mmap");
        return COPY_HOST_FAILED;
    }
    host->ptr = host->map;
    if (is_file(host->memory))
        return COPY_HOST_READY;
    host->ptr += (huge_page - (uintptr_t)host->map % huge_page) % huge_page;
    if (host->memory == COPY_HUGE && !system_has_huge_pages()) {
        bench_note(host->bench, "copy: no rows of huge pages: the system gives none");
        return COPY_HOST_NONE;
    }
    /* Ignore a failure: a kernel without huge pages does not know this advice, and always uses small pages. */
    (void)madvise(host->map, host->map_bytes, host->memory == COPY_HUGE ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return COPY_HOST_READY;
}

enum copy_host_state copy_host_make(struct bench *bench, enum copy_memory memory, bool source, size_t bytes,
                                    struct copy_host *host)
{
    enum copy_host_state state = COPY_HOST_READY;

    *host = (struct copy_host){.bench = bench, .memory = memory, .source = source, .bytes = bytes, .file = -1};
    if (memory == COPY_PINNED) {
        if (!bench_check(bench, leat_memory_alloc(bench->device, LEAT_KIND_PINNED, bytes, (void **)&host->ptr)))
            return COPY_HOST_FAILED;
    } else {
        state = make_map(host);
        if (state != COPY_HOST_READY)
            return state;
    }
    if (!copy_host_fill(host, bytes, bench_new_seed(bench)))
        return COPY_HOST_FAILED;
    if (memory == COPY_REGISTERED) {
        if (!bench_check(bench, leat_register(bench->device, host->ptr, bytes)))
            return COPY_HOST_FAILED;
        host->registered = true;
    }
    return memory == COPY_FILE_COLD ? check_cold(host) : COPY_HOST_READY;
}

void copy_host_free(struct copy_host *host)
{
    if (host->registered)
        leat_unregister(host->ptr);
    if (host->map)
        munmap(host->map, host->map_bytes);
    else if (host->ptr)
        leat_memory_free(host->ptr);
    if (host->file_open)
        close(host->file);
    *host = (struct copy_host){.ptr = NULL};
}

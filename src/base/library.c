/*
 * library.c - checks that a shared library's file is complete.
 *
 * dlopen() maps the segments that the headers of a shared object describe, and touches them. If the file was cut
 * off, this kills the process with SIGBUS. So leat first checks that the file is as long as its headers say. For a
 * bare name, it finds the file that dlopen() would load by the dynamic loader's own search path.
 */
#include "base/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENTS_MOST 64

/* Returns how many bytes a file must have to contain its segments; 0 if its headers cannot be read, because
 * dlopen() itself refuses such a file. */
static uint64_t bytes_needed(int fd)
{
    Elf64_Ehdr header;
    Elf64_Phdr segments[SEGMENTS_MOST];
    uint64_t needed = 0;
    size_t bytes;

    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return 0;
    if (memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_phentsize != sizeof segments[0] ||
        header.e_phnum > SEGMENTS_MOST)
        return 0;
    bytes = header.e_phnum * sizeof segments[0];
    if (pread(fd, segments, bytes, (off_t)header.e_phoff) != (ssize_t)bytes)
        return 0;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        uint64_t end = segments[i].p_offset + segments[i].p_filesz;

        if (segments[i].p_type == PT_LOAD && end > needed)
            needed = end;
    }
    return needed;
}

/* Opens dir/name, or name alone if dir is NULL. Returns -1 if there is no such file. */
static int open_in(const char *dir, const char *name)
{
    char path[4096];
    int length = snprintf(path, sizeof path, "%s%s%s", dir ? dir : "", dir ? "/" : "", name);

    if (length < 0 || (size_t)length >= sizeof path)
        return -1;
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* Opens the file that dlopen would load for a bare name, or returns -1. Searches only the search path, not the
 * cache of ldconfig. */
static int open_searched(const char *name)
{
    Dl_serinfo size;
    Dl_serinfo *paths = NULL;
    void *self;
    int fd = -1;

    self = dlopen(NULL, RTLD_LAZY);
    if (!self)
        return -1;
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0)
        goto close_self;
    paths = malloc(size.dls_size);
    if (!paths)
        goto close_self;
    *paths = size;
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, paths) == 0 && dlinfo(self, RTLD_DI_SERINFO, paths) == 0)
        for (unsigned i = 0; i < paths->dls_cnt && fd < 0; i++)
            fd = open_in(paths->dls_serpath[i].dls_name, name);

close_self:
    free(paths);
    dlclose(self);
    return fd;
}

bool leati_library_is_cut(const char *name, uint64_t *bytes, uint64_t *needed)
{
    struct stat file;
    bool cut = false;
    int fd;

    fd = strchr(name, '/') ? open_in(NULL, name) : open_searched(name);
    if (fd < 0)
        return false;
    *needed = bytes_needed(fd);
    if (fstat(fd, &file) == 0 && S_ISREG(file.st_mode)) {
        *bytes = (uint64_t)file.st_size;
        cut = *bytes < *needed;
    }
    close(fd);
    return cut;
}

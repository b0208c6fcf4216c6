/* run_program.c - looks at the program that "leat run" is to run, and finds the library to preload. See run.h. */
#include "run.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define LIBRARY "libleat-run.so"

/* Where "make install" puts libraries. */
#ifndef RUN_LIBDIR
#define RUN_LIBDIR "/usr/local/lib"
#endif

/* Finds the file that execvp() executes. Returns false if there is none that may be executed. */
static bool find_program(const char *program, char path[PATH_MAX])
{
    const char *folders = getenv("PATH"), *folder, *end;
    int length;

    if (strchr(program, '/')) {
        snprintf(path, PATH_MAX, "%s", program);
        return access(path, X_OK) == 0;
    }
    for (folder = folders ? folders : "/bin:/usr/bin"; folder; folder = *end ? end + 1 : NULL) {
        struct stat status;

        end = folder + strcspn(folder, ":");
        length = snprintf(path, PATH_MAX, "%.*s/%s", end > folder ? (int)(end - folder) : 1,
                          end > folder ? folder : ".", program);
        if (length < PATH_MAX && access(path, X_OK) == 0 && stat(path, &status) == 0 && S_ISREG(status.st_mode))
            return true;
    }
    return false;
}

/* Returns true if the system runs the file with other rights than the caller's. It then ignores LD_PRELOAD. */
static bool has_other_rights(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0)
        return false;
    if ((status.st_mode & S_ISUID && status.st_uid != getuid()) ||
        (status.st_mode & S_ISGID && status.st_gid != getgid()))
        return true;
    return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

/* Returns true if the ELF file of this process's class asks for a dynamic loader. */
static bool has_loader(int fd, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr part;

        if (pread(fd, &part, sizeof part, (off_t)(header->e_phoff + (Elf64_Off)i * header->e_phentsize)) !=
            (ssize_t)sizeof part)
            break;
        if (part.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* Looks at the contents of an executable file. For a script, *interpreter receives the program that reads it. */
static enum run_method look_inside(const char *path, char why[RUN_WHY_BYTES], char interpreter[PATH_MAX])
{
    enum run_method method = RUN_PRELOADED;
    union {
        Elf64_Ehdr elf;
        char text[PATH_MAX];
    } first = {.text = ""};
    Elf64_Ehdr mine = {.e_machine = EM_NONE};
    int fd = open(path, O_RDONLY | O_CLOEXEC), self;
    ssize_t length;
    char *word;

    interpreter[0] = '\0';
    if (fd < 0)
        return RUN_PRELOADED; /* it may be executable and not readable */
    length = pread(fd, first.text, sizeof first.text - 1, 0);
    self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (self >= 0) {
        if (pread(self, &mine, sizeof mine, 0) != (ssize_t)sizeof mine)
            mine.e_machine = EM_NONE;
        close(self);
    }
    if (length > 2 && first.text[0] == '#' && first.text[1] == '!') {
        first.text[strcspn(first.text, "\n")] = '\0';
        word = first.text + 2 + strspn(first.text + 2, " \t");
        word[strcspn(word, " \t")] = '\0';
        snprintf(interpreter, PATH_MAX, "%s", word);
    } else if (length >= (ssize_t)sizeof first.elf && !memcmp(first.elf.e_ident, ELFMAG, SELFMAG)) {
        if (first.elf.e_ident[EI_CLASS] != ELFCLASS64 ||
            (mine.e_machine != EM_NONE && first.elf.e_machine != mine.e_machine)) {
            snprintf(why, RUN_WHY_BYTES, "%.200s is %s and leat is not", path,
                     first.elf.e_ident[EI_CLASS] == ELFCLASS32 ? "a 32-bit program" : "for another processor");
            method = RUN_PLAIN;
        } else if (!has_loader(fd, &first.elf)) {
            snprintf(why, RUN_WHY_BYTES, "%.200s is statically linked, so nothing can be preloaded into it", path);
            method = RUN_PLAIN;
        }
    }
    close(fd);
    return method;
}

enum run_method run_inspect(const char *program, char why[RUN_WHY_BYTES])
{
    char path[PATH_MAX], interpreter[PATH_MAX];
    enum run_method method;

    why[0] = '\0';
    if (!find_program(program, path)) {
        snprintf(why, RUN_WHY_BYTES, "%s", strerror(strchr(program, '/') ? errno : ENOENT));
        return RUN_MISSING;
    }
    if (has_other_rights(path)) {
        snprintf(
            why, RUN_WHY_BYTES,
            "%.200s is setuid, setgid or has capabilities: the system ignores preloaded libraries in it; run it without leat run",
            path);
        return RUN_REFUSED;
    }
    method = look_inside(path, why, interpreter);
    if (interpreter[0])
        method = look_inside(interpreter, why, path);
    return method;
}

/* Finds a file or folder that has the name beside in the command's folder, or else the name installed. Returns
 * false if it is in neither place; path then is the second one. */
static bool find(const char *beside, const char *installed, char *path, size_t path_bytes)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    char *slash;

    if (length > 0) {
        self[length] = '\0';
        slash = strrchr(self, '/');
        if (slash) {
            *slash = '\0';
            if ((size_t)snprintf(path, path_bytes, "%s/%s", self, beside) < path_bytes && access(path, R_OK) == 0)
                return true;
        }
    }
    return (size_t)snprintf(path, path_bytes, "%s", installed) < path_bytes && access(path, R_OK) == 0;
}

bool run_find_library(char *path, size_t path_bytes)
{
    return find(LIBRARY, RUN_LIBDIR "/" LIBRARY, path, path_bytes);
}

bool run_find_faces(char *path, size_t path_bytes)
{
    return find("faces", RUN_LIBDIR "/leat/faces", path, path_bytes);
}

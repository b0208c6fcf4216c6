/* link_key.c - see link_key.h. */
#include "link_key.h"
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINK_KEY_MIN = 16 };

/* Checks that path is open as a file that only its owner can read. */
static bool is_private(const char *command, const char *path, int file)
{
    struct stat about;

    if (fstat(file, &about) != 0) {
        cli_complain("%s: the key file %s: fstat: %s", command, path, strerror(errno));
        return false;
    }
    if (!S_ISREG(about.st_mode) && !S_ISFIFO(about.st_mode)) {
        cli_complain("%s: the key file %s is neither a file nor a pipe", command, path);
        return false;
    }
    if ((about.st_mode & 077) != 0) {
        cli_complain("%s: other users can access the key file %s (mode %04o): run chmod 600 %s", command, path,
                     (unsigned)(about.st_mode & 07777), path);
        return false;
    }
    return true;
}

/* Reads the whole file. */
static bool read_all(const char *command, const char *path, int file, struct link_key *key)
{
    unsigned char more;
    ssize_t some;

    do {
        some = key->count < sizeof key->bytes ? read(file, key->bytes + key->count, sizeof key->bytes - key->count)
                                              : read(file, &more, 1);
        if (some > 0 && key->count == sizeof key->bytes) {
            cli_complain("%s: the key file %s has more than %d bytes", command, path, LINK_KEY_MAX);
            return false;
        }
        key->count += some > 0 ? (size_t)some : 0;
    } while (some > 0 || (some < 0 && errno == EINTR));
    if (some < 0) {
        cli_complain("%s: the key file %s: read: %s", command, path, strerror(errno));
        return false;
    }
    if (key->count < LINK_KEY_MIN) {
        cli_complain(
            "%s: the key file %s has %zu bytes, and a key has at least %d; make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE",
            command, path, key->count, LINK_KEY_MIN);
        return false;
    }
    return true;
}

bool link_key_read(const char *command, const char *address, const char *path, struct link_key *key)
{
    bool fine;
    int file;

    key->count = 0;
    if (!path && !strncmp(address, "unix:", 5))
        return true;
    if (!path)
        path = getenv("LEAT_LINK_KEY_FILE");
    if (!path || !path[0]) {
        cli_complain(
            "%s: %s needs a key that both ends know: --key-file FILE, or LEAT_LINK_KEY_FILE=FILE; make one with: head -c 32 /dev/urandom > FILE; chmod 600 FILE",
            command, address);
        return false;
    }
    file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0) {
        cli_complain("%s: the key file %s: %s", command, path, strerror(errno));
        return false;
    }
    fine = is_private(command, path, file) && read_all(command, path, file, key);
    close(file);
    if (!fine)
        link_key_erase(key);
    return fine;
}

void link_key_erase(struct link_key *key)
{
    explicit_bzero(key, sizeof *key);
}

leat_link_options link_key_options(const struct link_key *key, bool encrypt)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT;

    options.key = key->count ? key->bytes : NULL;
    options.key_bytes = key->count;
    options.encrypt = encrypt;
    return options;
}

bool link_listen(const char *command, const char *address, const char *key_file, bool encrypt,
                 leat_listener **listener)
{
    leat_link_options options;
    struct link_key key;
    char real[160];
    bool fine;

    if (!link_key_read(command, address, key_file, &key))
        return false;
    options = link_key_options(&key, encrypt);
    fine = leat_listen(address, &options, listener) == LEAT_OK &&
           leat_listener_get_address(*listener, real, sizeof real) == LEAT_OK;
    link_key_erase(&key);
    if (fine)
        fprintf(stderr, "leat: listening at %s\n", real);
    else
        cli_complain("%s: %s", command, leat_last_error());
    return fine;
}

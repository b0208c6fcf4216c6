/*
 * link_key.h - reads the key of a link from a file, for the commands that listen and connect.
 */
#ifndef CLI_LINK_KEY_H
#define CLI_LINK_KEY_H

#include <leat/link.h>
#include <stdbool.h>

enum { LINK_KEY_MAX = 4096 };

/* The key of a link; count 0: none. Erase it with link_key_erase(). */
struct link_key {
    unsigned char bytes[LINK_KEY_MAX];
    size_t count;
};

/*
 * Reads the key for an address. path: the value of --key-file, or NULL. Without it LEAT_LINK_KEY_FILE names the
 * file of a tcp: or ucx: address, and a unix: address has no key. Returns false after an error message if there is
 * no key for an address that needs one, or the file cannot be used. command: the name of the command, for
 * messages.
 */
bool link_key_read(const char *command, const char *address, const char *path, struct link_key *key);

void link_key_erase(struct link_key *key);

/* Returns options with this key. encrypt: as --encrypt. */
leat_link_options link_key_options(const struct link_key *key, bool encrypt);

/* Listens at an address with the key of a file, and prints the address with its real port to standard error. command:
 * its name, for messages. Returns false after a message. */
bool link_listen(const char *command, const char *address, const char *key_file, bool encrypt,
                 leat_listener **listener);

/* The line of the help about --encrypt, for all commands that have it. */
#define LINK_ENCRYPT_HELP                                                                                         \
    "  --encrypt        encrypts all bytes; if one end asks for it, both do. Not with a ucx: address\n"

#endif

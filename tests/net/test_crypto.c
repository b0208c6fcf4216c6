/*
 * test_crypto.c - tests what links use of libcrypto (net/crypto.h): published vectors, a system without memory or
 * random bytes, and a program that uses OpenSSL too.
 */
#include "harness.h"

#include "cipher.h"
#include "crypto.h"
#include "handshake.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- failures of the system ---- */

/* The memory of libcrypto. After allocations_left more, each fails; negative: none fails. */
static _Thread_local long allocations_left = -1;

static bool fails(void)
{
    if (allocations_left > 0)
        allocations_left--;
    return !allocations_left;
}

static void *allocate(size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails() ? NULL : malloc(bytes);
}

static void *reallocate(void *memory, size_t bytes, const char *file, int line)
{
    (void)file;
    (void)line;
    return fails() ? NULL : realloc(memory, bytes);
}

static void release(void *memory, const char *file, int line)
{
    (void)file;
    (void)line;
    free(memory);
}

static bool no_random; /* getrandom() fails */

/* In place of the system's. */
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
ssize_t __real_getrandom(void *bytes, size_t count, unsigned flags);

ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    if (!no_random)
        return __real_getrandom(bytes, count, flags);
    errno = ENOSYS;
    return -1;
}

/* ---- vectors ---- */

/* Reads bytes that are written in hexadecimal digits. */
static void read_hex(const char *text, unsigned char *bytes)
{
    for (; *text; text += 2) {
        unsigned value;

        assert_int_equal(sscanf(text, "%2x", &value), 1);
        *bytes++ = (unsigned char)value;
    }
}

/* RFC 4231, the second test case. The text is in two parts here. */
static void keyed_hash(void **state)
{
    const struct iovec parts[] = {{(char *)"what do ya want", 15}, {NULL, 0}, {(char *)" for nothing?", 13}};
    unsigned char hash[LEATN_HASH_BYTES], wanted[LEATN_HASH_BYTES];

    (void)state;
    read_hex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843", wanted);
    assert_int_equal(leatn_crypto_hash("Jefe", 4, parts, 3, hash), 0);
    assert_memory_equal(hash, wanted, sizeof wanted);
}

/* RFC 7748, section 6.1, and public keys with which each pair has the secret 0. */
static void common_secret(void **state)
{
    static const char *const none[] = {"0000000000000000000000000000000000000000000000000000000000000000",
                                       "0100000000000000000000000000000000000000000000000000000000000000",
                                       "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f"};
    unsigned char wanted[LEATN_PAIR_BYTES], common[LEATN_PAIR_BYTES], other[LEATN_PAIR_BYTES];
    struct leatn_pair pair, second;

    (void)state;
    read_hex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a", pair.secret);
    read_hex("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a", pair.open);
    read_hex("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f", other);
    read_hex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742", wanted);
    assert_int_equal(leatn_crypto_agree(&pair, other, common), 0);
    assert_memory_equal(common, wanted, sizeof wanted);
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        read_hex(none[i], other);
        assert_int_equal(leatn_crypto_agree(&pair, other, common), -EBADMSG);
    }

    assert_int_equal(leatn_crypto_make_pair(&pair), 0);
    assert_int_equal(leatn_crypto_make_pair(&second), 0);
    assert_memory_not_equal(&pair, &second, sizeof pair);
    assert_int_equal(leatn_crypto_agree(&pair, second.open, wanted), 0);
    assert_int_equal(leatn_crypto_agree(&second, pair.open, common), 0);
    assert_memory_equal(common, wanted, sizeof wanted);
}

/* RFC 8439, section 2.8.2. Its nonce is none that a record can have, so this takes the context that makes records.
 */
static void cipher(void **state)
{
    static const char text[] =
        "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would be it.";
    enum { BYTES = sizeof text - 1, TAG = 16 };
    unsigned char key[LEATN_CIPHER_KEY_BYTES], nonce[12], open[12], wanted[BYTES + TAG], got[BYTES + TAG];
    EVP_CIPHER_CTX *context;
    int done;

    (void)state;
    read_hex("808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f", key);
    read_hex("070000004041424344454647", nonce);
    read_hex("50515253c0c1c2c3c4c5c6c7", open);
    read_hex("d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92728b"
             "1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b4831d7bc"
             "3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691",
             wanted);
    context = leatn_crypto_cipher(key, true);
    assert_non_null(context);
    /* Twice: what a context did before must not matter. */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(EVP_CipherInit_ex(context, NULL, NULL, NULL, nonce, -1), 1);
        assert_int_equal(EVP_CipherUpdate(context, NULL, &done, open, sizeof open), 1);
        assert_int_equal(EVP_CipherUpdate(context, got, &done, (const unsigned char *)text, BYTES), 1);
        assert_int_equal(EVP_CipherFinal_ex(context, got + BYTES, &done), 1);
        assert_int_equal(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, TAG, got + BYTES), 1);
        assert_memory_equal(got, wanted, sizeof wanted);
    }
    EVP_CIPHER_CTX_free(context);
}

/* ---- handshakes and ciphers that fail ---- */

static const struct leatn_handshake_wishes wishes = {.idle_timeout_ns = 1000, .encrypt = true};

/* Moves what one end has to write to the other one. Returns false if there is nothing. */
static bool move_bytes(struct leatn_handshake *from, struct leatn_handshake *to)
{
    const void *written;
    void *read;
    size_t bytes = leatn_handshake_to_write(from, &written), room = leatn_handshake_to_read(to, &read);

    bytes = bytes < room ? bytes : room;
    if (!bytes)
        return false;
    memcpy(read, written, bytes);
    leatn_handshake_was_written(from, bytes);
    leatn_handshake_was_read(to, bytes);
    return true;
}

/* Makes a secret, a handshake of two ends and their ciphers, and sends a record. Returns NULL, or why that failed.
 */
static const char *use_all(void)
{
    static _Thread_local char why[600];
    struct leatn_handshake connects, listens;
    struct leatn_secret secret;
    struct leatn_cipher *sender, *receiver;
    const struct iovec part = {(char *)"record", 6};
    const char *wrong = NULL;
    char got[6];
    int ends[2];

    if (leatn_secret_derive(&secret, "a key of 16 bytes", 17))
        return "secret";
    leatn_handshake_start(&connects, &secret, true, &wishes);
    leatn_handshake_start(&listens, &secret, false, &wishes);
    while (move_bytes(&connects, &listens) || move_bytes(&listens, &connects))
        ;
    if (connects.step != LEATN_HANDSHAKE_DONE || listens.step != LEATN_HANDSHAKE_DONE) {
        snprintf(why, sizeof why, "%s; %s", connects.why, listens.why);
        assert_true(connects.why[0] || listens.why[0]);
        return why;
    }
    sender = leatn_cipher_create(&connects.keys);
    receiver = leatn_cipher_create(&listens.keys);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    if (!sender || !receiver)
        wrong = "ciphers";
    else if (leatn_cipher_send(sender, ends[0], &part, 1) != 6)
        wrong = "send";
    else if (leatn_cipher_receive(receiver, ends[1], got, 6) != 6)
        wrong = "receive";
    else
        assert_memory_equal(got, "record", 6);
    leatn_cipher_free(sender);
    leatn_cipher_free(receiver);
    close(ends[0]);
    close(ends[1]);
    return wrong;
}

/* Whichever allocation of libcrypto is the first that fails, and all later ones do: nothing but an error comes of
 * it, and everything works again with memory. */
static void no_memory(void **state)
{
    long count = 0;
    const char *wrong;

    (void)state;
    assert_null(use_all());
    do {
        allocations_left = ++count;
        wrong = use_all();
        allocations_left = -1;
        assert_int_equal(ERR_peek_error(), 0);
        assert_null(use_all());
    } while (wrong);
    printf("%ld allocations\n", count);
    assert_in_range(count, 10, 100000);
}

static void no_random_bytes(void **state)
{
    struct leatn_handshake shake;
    struct leatn_secret secret;
    const void *at;

    (void)state;
    assert_int_equal(leatn_secret_derive(&secret, "a key of 16 bytes", 17), 0);
    no_random = true;
    for (int connects = 0; connects < 2; connects++) {
        leatn_handshake_start(&shake, &secret, connects, &wishes);
        assert_int_equal(leatn_handshake_state(&shake), LEAT_ERROR_LINK);
        assert_int_equal(leatn_handshake_to_write(&shake, &at), 0);
        assert_non_null(strstr(shake.why, "getrandom"));
    }
    no_random = false;
}

/* ---- a program that uses OpenSSL too ---- */

/* Its errors stay in the queue, and no others come. */
static void errors_of_the_program(void **state)
{
    unsigned char common[LEATN_PAIR_BYTES], none[LEATN_PAIR_BYTES] = {0};
    struct leatn_pair pair;

    (void)state;
    assert_int_equal(leatn_crypto_make_pair(&pair), 0);
    ERR_clear_error();
    assert_int_equal(leatn_crypto_agree(&pair, none, common), -EBADMSG);
    assert_int_equal(ERR_peek_error(), 0);
    ERR_raise(ERR_LIB_USER, 7);
    assert_int_equal(leatn_crypto_agree(&pair, none, common), -EBADMSG);
    assert_null(use_all());
    assert_int_equal(ERR_GET_REASON(ERR_get_error()), 7);
    assert_int_equal(ERR_get_error(), 0);
}

/* The program may allow no algorithm that links need: they have a library context of their own. */
static void properties_of_the_program(void **state)
{
    (void)state;
    assert_int_equal(EVP_set_default_properties(NULL, "fips=yes"), 1);
    assert_null(EVP_CIPHER_fetch(NULL, "ChaCha20-Poly1305", NULL));
    ERR_clear_error();
    assert_null(use_all());
    assert_int_equal(EVP_set_default_properties(NULL, ""), 1);
}

/* Threads of links run while exit() lets OpenSSL clean up. A new handshake may fail then; a link lives on. */
static void links_at_exit(void **state)
{
    struct leatn_session_keys keys = {{0}, {0}};
    const struct iovec part = {(char *)"record", 6};
    int ends[2], ended;
    pid_t child;

    (void)state;
    assert_null(use_all());
    fflush(stdout);
    child = fork();
    if (!child) {
        struct leatn_cipher *cipher = leatn_cipher_create(&keys);
        char got[6];
        bool sent, received;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
            _exit(1);
        OPENSSL_cleanup();
        sent = leatn_cipher_send(cipher, ends[0], &part, 1) == 6;
        received = sent && leatn_cipher_receive(cipher, ends[1], got, 6) == 6 && !memcmp(got, "record", 6);
        leatn_cipher_free(cipher);
        use_all();
        _exit(received ? 0 : sent ? 2 : 3);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
}

/* ---- many threads make the library context at once, in a new process ---- */

static void *use_first(void *given)
{
    pthread_barrier_wait(given);
    return (void *)use_all();
}

static void first_use(void **state)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    pthread_barrier_t barrier;
    void *wrong;

    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_first, &barrier), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    pthread_barrier_destroy(&barrier);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_use), /* the first */
        cmocka_unit_test(keyed_hash),
        cmocka_unit_test(common_secret),
        cmocka_unit_test(cipher),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(no_random_bytes),
        cmocka_unit_test(errors_of_the_program),
        cmocka_unit_test(properties_of_the_program),
        cmocka_unit_test(links_at_exit),
    };

    if (!CRYPTO_set_mem_functions(allocate, reallocate, release))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}

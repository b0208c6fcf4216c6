/*
 * link_peer.c - one end of a link, for namespaces.sh: messages go there and back until one fails.
 *
 *     link_peer listen|connect ADDRESS BYTES ROUNDS
 *
 * A link of it fails after two seconds of silence. Exit status 0: all bytes were right; 3: the link failed, and the
 * message is on standard error; 1: anything else.
 */
#include <leat/leat.h>
#include <leat/link.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static int failed(const char *step, leat_status status)
{
    fprintf(stderr, "link_peer: %s: %s\n", step, leat_last_error());
    return status == LEAT_ERROR_LINK ? 3 : 1;
}

static void fill(unsigned char *bytes, size_t count, unsigned seed)
{
    uint32_t state = seed * 2654435761u + 1;

    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(state >> 24);
    }
}

struct peer {
    leat_stream *stream;
    leat_link *link;
    void *memory;             /* of the device */
    unsigned char *made, *got; /* of the host */
    size_t bytes;
};

/* Sends the bytes of a seed. */
static leat_status send_seed(struct peer *peer, unsigned seed)
{
    leat_status status;

    fill(peer->made, peer->bytes, seed);
    status = leat_copy(peer->stream, peer->memory, peer->made, peer->bytes);
    if (status == LEAT_OK)
        status = leat_send(peer->stream, peer->link, seed, peer->memory, peer->bytes);
    return status == LEAT_OK ? leat_stream_synchronize(peer->stream) : status;
}

/* Receives the bytes of a seed. *right becomes false if they are others. */
static leat_status receive_seed(struct peer *peer, unsigned seed, int *right)
{
    leat_status status = leat_receive(peer->stream, peer->memory, peer->link, seed, peer->bytes);

    if (status == LEAT_OK)
        status = leat_copy(peer->stream, peer->got, peer->memory, peer->bytes);
    if (status == LEAT_OK)
        status = leat_stream_synchronize(peer->stream);
    fill(peer->made, peer->bytes, seed);
    if (status == LEAT_OK && memcmp(peer->made, peer->got, peer->bytes) != 0)
        *right = 0;
    return status;
}

static int exchange(struct peer *peer, int listens, unsigned rounds)
{
    leat_status status = LEAT_OK;
    int right = 1;

    for (unsigned round = 1; round <= rounds && status == LEAT_OK && right; round++) {
        status = listens ? receive_seed(peer, 2 * round, &right) : send_seed(peer, 2 * round);
        if (status == LEAT_OK)
            status = listens ? send_seed(peer, 2 * round + 1) : receive_seed(peer, 2 * round + 1, &right);
        printf("round %u\n", round);
        fflush(stdout);
    }
    if (status != LEAT_OK)
        return failed("exchange", status);
    if (!right)
        fprintf(stderr, "link_peer: other bytes came than were sent\n");
    return right ? 0 : 1;
}

static leat_status meet(struct peer *peer, int listens, const char *address, const leat_link_options *options)
{
    leat_listener *listener;
    leat_status status;

    if (!listens)
        return leat_connect(address, options, &peer->link);
    status = leat_listen(address, options, &listener);
    if (status != LEAT_OK)
        return status;
    puts("listening");
    fflush(stdout);
    status = leat_accept(listener, 30 * SECOND, &peer->link);
    (void)leat_listener_close(listener);
    return status == LEAT_NOT_READY ? leat_error_set(LEAT_ERROR_LINK, "nobody connected") : status;
}

/* Opens the device, meets the other end, and exchanges messages. Returns the exit status. */
static int run(struct peer *peer, int listens, const char *address, unsigned rounds)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT;
    leat_device *device;
    leat_status status;
    int code;

    options.key = "the key of two namespaces";
    options.key_bytes = strlen(options.key);
    options.idle_timeout_ns = 2 * SECOND;
    status = leat_device_open("cpu:0", &device);
    if (status != LEAT_OK)
        return failed("open the device", status);
    status = leat_stream_create(device, &peer->stream);
    if (status == LEAT_OK)
        status = leat_alloc(peer->stream, peer->bytes, &peer->memory);
    if (status == LEAT_OK)
        status = meet(peer, listens, address, &options);
    code = status == LEAT_OK ? exchange(peer, listens, rounds) : failed("meet", status);
    (void)leat_link_close(peer->link);
    (void)leat_device_close(device);
    return code;
}

int main(int argc, char **argv)
{
    struct peer peer = {.bytes = argc == 5 ? strtoull(argv[3], NULL, 10) : 0};
    int code = 1;

    peer.made = malloc(peer.bytes);
    peer.got = malloc(peer.bytes);
    if (peer.bytes && peer.made && peer.got)
        code = run(&peer, !strcmp(argv[1], "listen"), argv[2], (unsigned)strtoul(argv[4], NULL, 10));
    free(peer.made);
    free(peer.got);
    return code;
}

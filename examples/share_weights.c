/*
 * share_weights.c - gives weights from one process to another, in device memory, without a copy and without the
 * disk.
 *
 *     cc share_weights.c -o share_weights $(pkg-config --cflags --libs leat)
 *     ./share_weights [device]
 *
 * One process, the trainer, has the weights in device memory and changes them again and again. Another one, the
 * server, uses the same memory. Both have a stream, and neither waits for the other on the host:
 *
 *     trainer                                       server
 *     leat_share_create(), leat_share_send()  --->  leat_share_receive()
 *     changes the weights
 *     leat_share_hand_over()                  --->  leat_share_take_over()
 *                                                   uses the weights
 *     leat_share_take_over()                  <---  leat_share_hand_over()
 *
 * At last the trainer ends. The server keeps the last weights, and learns that no more will come.
 *
 * The socket is a pair that the program makes before it splits into two with fork(); processes that are started
 * one by one use a socket in the file system. fork() must come before the first call of leat (leat/device.h).
 */
#include <leat/leat.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define VERSIONS 8
#define COUNT ((size_t)1 << 20) /* weights, 4 MiB */
#define BYTES (COUNT * sizeof(uint32_t))

static const char *who = "share_weights";

static int failed(const char *step)
{
    fprintf(stderr, "%s: cannot %s: %s\n", who, step, leat_last_error());
    return 1;
}

static int open_device(const char *name, leat_device **device, leat_stream **stream)
{
    if (leat_device_open(name, device) != LEAT_OK)
        return failed("open the device");
    if (leat_stream_create(*device, stream) != LEAT_OK)
        return failed("create a stream");
    return 0;
}

/* ---- the trainer ---- */

/* Makes the versions of the weights one after the other; the host is far ahead of the stream. */
static int train(leat_stream *stream, leat_share *share, void *weights)
{
    for (uint32_t version = 1; version <= VERSIONS; version++) {
        if (leat_fill_pattern(stream, weights, &version, sizeof version, BYTES) != LEAT_OK)
            return failed("make weights");
        if (leat_share_hand_over(stream, share) != LEAT_OK)
            return failed("hand the weights over");
        /* The next version must wait until the server has used this one. The last one stays with the server. */
        if (version < VERSIONS && leat_share_take_over(stream, share) != LEAT_OK)
            return failed("take the weights back");
    }
    /* The end of the process ends work that is not complete, so wait for it. */
    if (leat_stream_synchronize(stream) != LEAT_OK)
        return failed("finish the weights");
    return 0;
}

static int run_trainer(const char *device_name, int socket)
{
    leat_pool_options options = LEAT_POOL_OPTIONS_INIT;
    leat_device *device;
    leat_stream *stream;
    leat_share *share;
    leat_pool *pool;
    void *weights;

    if (open_device(device_name, &device, &stream))
        return 1;
    /* Only memory of such a pool can be shared: each block has pages of its own. */
    options.dedicated = 1;
    options.exportable = 1;
    if (leat_pool_create(device, &options, &pool) != LEAT_OK)
        return failed("create a pool");
    if (leat_pool_alloc(stream, pool, BYTES, &weights) != LEAT_OK)
        return failed("allocate the weights");
    if (leat_share_create(stream, weights, NULL, &share) != LEAT_OK)
        return failed("share the weights");
    if (leat_share_send(share, socket) != LEAT_OK)
        return failed("send the share");
    if (train(stream, share, weights))
        return 1;
    if (leat_share_destroy(share) != LEAT_OK)
        return failed("destroy the share");
    if (leat_device_close(device) != LEAT_OK)
        return failed("close the device");
    return 0;
}

/* ---- the server ---- */

static int check(const uint32_t *seen, uint32_t version)
{
    for (size_t i = 0; i < COUNT; i++)
        if (seen[i] != version) {
            fprintf(stderr, "%s: weight %zu is of version %u, not %u\n", who, i, seen[i], version);
            return 1;
        }
    return 0;
}

/* Uses each version. Here that is a copy to the host; a kernel would read the weights in the same way. */
static int serve(leat_stream *stream, leat_share *share, const void *weights, uint32_t *seen)
{
    for (uint32_t version = 1; version <= VERSIONS; version++) {
        if (leat_share_take_over(stream, share) != LEAT_OK)
            return failed("take the weights over");
        if (leat_copy(stream, seen + (version - 1) * COUNT, weights, BYTES) != LEAT_OK)
            return failed("use the weights");
        if (version < VERSIONS && leat_share_hand_over(stream, share) != LEAT_OK)
            return failed("hand the weights back");
    }
    /* The host waits only here. If the trainer had died, this call would say so. */
    if (leat_stream_synchronize(stream) != LEAT_OK)
        return failed("use all versions");
    for (uint32_t version = 1; version <= VERSIONS; version++)
        if (check(seen + (version - 1) * COUNT, version))
            return 1;
    printf("%u versions of %zu MiB of weights came from process to process without a copy\n", VERSIONS,
           BYTES >> 20);
    return 0;
}

/* The trainer has ended: the last weights are still there, and a wait for more fails instead of hanging. */
static int go_on_alone(leat_stream *stream, leat_share *share, const void *weights, uint32_t *seen)
{
    leat_status status = leat_share_take_over(stream, share);

    if (status == LEAT_OK) /* the end was not noticed yet: then the stream reports it */
        status = leat_stream_synchronize(stream);
    if (status != LEAT_ERROR_LINK) {
        fprintf(stderr, "%s: waiting for a trainer that has ended gives %s\n", who, leat_status_name(status));
        return 1;
    }
    printf("the trainer has ended: %s\n", leat_last_error());
    if (leat_copy(stream, seen, weights, BYTES) != LEAT_OK || leat_stream_synchronize(stream) != LEAT_OK)
        return failed("use the weights after the trainer");
    return check(seen, VERSIONS);
}

static int run_server(const char *device_name, int socket, pid_t trainer)
{
    leat_device *device;
    leat_stream *stream;
    leat_share *share;
    void *weights, *seen;
    int status;

    if (open_device(device_name, &device, &stream))
        return 1;
    if (leat_memory_alloc(device, LEAT_KIND_PINNED, VERSIONS * BYTES, &seen) != LEAT_OK)
        return failed("allocate pinned memory");
    if (leat_share_receive(device, socket, &share) != LEAT_OK)
        return failed("receive the share");
    if (leat_share_get_pointer(share, &weights, NULL) != LEAT_OK)
        return failed("find the weights");
    if (serve(stream, share, weights, seen))
        return 1;
    if (waitpid(trainer, &status, 0) != trainer || !WIFEXITED(status) || WEXITSTATUS(status)) {
        fprintf(stderr, "%s: the trainer failed\n", who);
        return 1;
    }
    if (go_on_alone(stream, share, weights, seen))
        return 1;
    if (leat_share_destroy(share) != LEAT_OK)
        return failed("destroy the share");
    if (leat_device_close(device) != LEAT_OK)
        return failed("close the device");
    return 0;
}

int main(int argc, char **argv)
{
    const char *device_name = argc > 1 ? argv[1] : NULL;
    int sockets[2];
    pid_t trainer;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets)) {
        perror("share_weights: socketpair");
        return 1;
    }
    trainer = fork();
    if (trainer < 0) {
        perror("share_weights: fork");
        return 1;
    }
    if (!trainer) {
        who = "share_weights (trainer)";
        close(sockets[1]);
        return run_trainer(device_name, sockets[0]);
    }
    close(sockets[0]);
    return run_server(device_name, sockets[1], trainer);
}

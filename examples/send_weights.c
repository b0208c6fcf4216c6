/*
 * send_weights.c - the weights of a model go from the device of one process to the device of another process, also
 * on another machine, without touching a disk.
 *
 *     cc send_weights.c -o send_weights $(pkg-config --cflags --libs leat-net)
 *     ./send_weights                                        two processes on this machine, over a unix socket
 *
 *     head -c 32 /dev/urandom > key; chmod 600 key          the key that both machines need
 *     ./send_weights receive tcp:0.0.0.0:7000 key           on the machine that receives, first
 *     ./send_weights send tcp:node1:7000 key                on the machine that has the weights
 *
 * LEAT_DEVICE=cuda:1 chooses the device. The calls of leat/link.h are in a separate library, libleat-net. Sends
 * and receives run in stream order like copies: the calls return at once, a kernel that follows a receive on its
 * stream sees the weights, and the host waits only when it needs a result.
 */
#include <leat/leat.h>
#include <leat/link.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TENSORS 6
#define NAME_BYTES 40
#define TENSOR_MOST_BYTES ((uint64_t)1 << 30) /* the receiver accepts no larger tensor */
#define TAG_TABLE 1
#define TAG_TENSOR 2 /* of the first tensor; the next one has the next tag */

/* What the sender tells about a tensor before its bytes. */
struct tensor {
    char name[NAME_BYTES];
    uint64_t bytes;
    uint64_t checksum; /* of its bytes, computed on the sender's device */
};

/* The state of one process. */
struct process {
    leat_device *device;
    leat_stream *stream;
    leat_kernel *pattern, *checksum;
    leat_link *link;
    struct tensor table[TENSORS];
    void *weights[TENSORS]; /* device memory */
    uint64_t *device_sums;  /* device memory: the checksum of each tensor */
    uint64_t sums[TENSORS]; /* a copy of them */
};

static int failed(const char *step)
{
    fprintf(stderr, "send_weights: cannot %s: %s\n", step, leat_last_error());
    return 1;
}

/* ---- the device ---- */

static int open_device(struct process *p)
{
    leat_module *module;
    void *memory;

    if (leat_device_open(NULL, &p->device) != LEAT_OK)
        return failed("open the device");
    if (leat_stream_create(p->device, &p->stream) != LEAT_OK)
        return failed("create a stream");
    if (leat_module_builtin(p->device, &module) != LEAT_OK ||
        leat_kernel_get(module, "leat_pattern_u64", &p->pattern) != LEAT_OK ||
        leat_kernel_get(module, "leat_checksum_u64", &p->checksum) != LEAT_OK)
        return failed("load the built-in kernels");
    if (leat_alloc(p->stream, sizeof p->sums, &memory) != LEAT_OK)
        return failed("allocate the sums");
    p->device_sums = memory;
    if (leat_fill(p->stream, memory, 0, sizeof p->sums) != LEAT_OK)
        return failed("clear the sums");
    return 0;
}

/* Adds the checksum of a tensor to its sum, in stream order. */
static int start_checksum(struct process *p, int tensor)
{
    uint64_t count = p->table[tensor].bytes / sizeof(uint64_t);
    void *sum = p->device_sums + tensor;
    void *args[] = {&p->weights[tensor], &count, &sum};

    if (leat_launch(p->stream, p->checksum, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 3) != LEAT_OK)
        return failed("launch the checksum");
    return 0;
}

/* Waits for the checksums. This also waits for everything else on the stream, and returns its failures. */
static int finish_checksums(struct process *p)
{
    if (leat_copy(p->stream, p->sums, p->device_sums, sizeof p->sums) != LEAT_OK ||
        leat_stream_synchronize(p->stream) != LEAT_OK)
        return failed("move the weights");
    return 0;
}

/* ---- the sender ---- */

/* Makes the weights. A real program would have trained them. */
static int make_weights(struct process *p)
{
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *tensor = &p->table[i];
        uint64_t count = (uint64_t)300000 * (uint64_t)(i + 1) + 7, seed = (uint64_t)i + 1;
        void *args[] = {&p->weights[i], &count, &seed};

        snprintf(tensor->name, sizeof tensor->name, "layers.%d.weight", i);
        tensor->bytes = count * sizeof(uint64_t);
        if (leat_alloc(p->stream, (size_t)tensor->bytes, &p->weights[i]) != LEAT_OK)
            return failed("allocate the weights");
        if (leat_launch(p->stream, p->pattern, leat_dim(256, 1, 1), leat_dim(256, 1, 1), 0, args, 3) != LEAT_OK)
            return failed("make the weights");
        if (start_checksum(p, i))
            return 1;
    }
    return finish_checksums(p);
}

static int send_weights(struct process *p)
{
    for (int i = 0; i < TENSORS; i++)
        p->table[i].checksum = p->sums[i];
    if (leat_send(p->stream, p->link, TAG_TABLE, p->table, sizeof p->table) != LEAT_OK)
        return failed("send the table");
    for (uint64_t i = 0; i < TENSORS; i++)
        if (leat_send(p->stream, p->link, TAG_TENSOR + i, p->weights[i], (size_t)p->table[i].bytes) != LEAT_OK)
            return failed("send a tensor");
    /* The program could go on computing here. The weights must not change before the stream has reached this
     * point. */
    if (leat_stream_synchronize(p->stream) != LEAT_OK)
        return failed("send the weights");
    return 0;
}

static int run_sender(const char *address, const leat_link_options *options)
{
    struct process p = {0};
    int wrong;

    /* Connect first: the receiver then need not wait for the device. */
    if (leat_connect(address, options, &p.link) != LEAT_OK)
        return failed("connect");
    wrong = open_device(&p) || make_weights(&p) || send_weights(&p);
    leat_link_close(p.link);
    if (p.device && leat_device_close(p.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}

/* ---- the receiver ---- */

/* Receives the table, and checks it: it comes from another process. */
static int receive_table(struct process *p)
{
    if (leat_receive(p->stream, p->table, p->link, TAG_TABLE, sizeof p->table) != LEAT_OK ||
        leat_stream_synchronize(p->stream) != LEAT_OK)
        return failed("receive the table");
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *tensor = &p->table[i];

        tensor->name[NAME_BYTES - 1] = '\0';
        if (!tensor->bytes || tensor->bytes > TENSOR_MOST_BYTES || tensor->bytes % sizeof(uint64_t)) {
            fprintf(stderr, "send_weights: tensor %d cannot have %" PRIu64 " bytes\n", i, tensor->bytes);
            return 1;
        }
    }
    return 0;
}

static int receive_weights(struct process *p)
{
    uint64_t bytes = 0;

    for (int i = 0; i < TENSORS; i++) {
        size_t tensor_bytes = (size_t)p->table[i].bytes;

        if (leat_alloc(p->stream, tensor_bytes, &p->weights[i]) != LEAT_OK)
            return failed("allocate the weights");
        if (leat_receive(p->stream, p->weights[i], p->link, TAG_TENSOR + (uint64_t)i, tensor_bytes) != LEAT_OK)
            return failed("receive a tensor");
        /* The kernel runs when the tensor is there, while the next one is on its way. */
        if (start_checksum(p, i))
            return 1;
        bytes += tensor_bytes;
    }
    if (finish_checksums(p))
        return 1;
    for (int i = 0; i < TENSORS; i++)
        if (p->sums[i] != p->table[i].checksum) {
            fprintf(stderr, "send_weights: the checksum of %s is %016" PRIx64 ", not %016" PRIx64 "\n",
                    p->table[i].name, p->sums[i], p->table[i].checksum);
            return 1;
        }
    printf("%d tensors, %.1f MB, are on the device, and their checksums are right\n", TENSORS,
           (double)bytes / 1e6);
    return 0;
}

static int run_receiver(leat_listener *listener)
{
    leat_link_info info = LEAT_LINK_INFO_INIT;
    struct process p = {0};
    int wrong;

    if (leat_accept(listener, LEAT_FOREVER, &p.link) != LEAT_OK)
        return failed("accept the sender");
    if (leat_link_get_info(p.link, &info) == LEAT_OK)
        printf("receiving from %s\n", info.peer);
    wrong = open_device(&p) || receive_table(&p) || receive_weights(&p);
    leat_link_close(p.link);
    if (p.device && leat_device_close(p.device) != LEAT_OK)
        wrong = failed("close the device");
    return wrong;
}

/* Listens, and then receives. ready: a pipe to a process that waits until it can connect; -1: none. */
static int listen_and_receive(const char *address, const leat_link_options *options, int ready)
{
    leat_listener *listener;
    char text[160];
    int wrong;

    if (leat_listen(address, options, &listener) != LEAT_OK)
        return failed("listen");
    if (leat_listener_get_address(listener, text, sizeof text) == LEAT_OK)
        printf("listening at %s\n", text);
    fflush(stdout);
    if (ready >= 0 && write(ready, "", 1) != 1)
        perror("send_weights: write");
    wrong = run_receiver(listener);
    leat_listener_close(listener);
    return wrong;
}

/* ---- two processes, here or on two machines ---- */

/* Starts a sender as a child process. The fork must come before the first call of leat. */
static int run_both(void)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT; /* a unix socket needs no key: the user is the same */
    char address[64], byte;
    int ready[2], status = 0, wrong;
    pid_t sender;

    snprintf(address, sizeof address, "unix:@send_weights-%ld", (long)getpid());
    if (pipe(ready) != 0 || (sender = fork()) < 0) {
        perror("send_weights: fork");
        return 1;
    }
    if (sender == 0) {
        close(ready[1]);
        _exit(read(ready[0], &byte, 1) == 1 ? run_sender(address, &options) : 1);
    }
    close(ready[0]);
    wrong = listen_and_receive(address, &options, ready[1]);
    close(ready[1]);
    if (waitpid(sender, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "send_weights: the sender failed\n");
        wrong = 1;
    }
    return wrong;
}

static int run_one(const char *role, const char *address, const char *key_path)
{
    leat_link_options options = LEAT_LINK_OPTIONS_INIT;
    unsigned char key[64];
    FILE *file = fopen(key_path, "rb");

    if (!file) {
        perror(key_path);
        return 1;
    }
    options.key = key;
    options.key_bytes = fread(key, 1, sizeof key, file);
    fclose(file);
    return !strcmp(role, "receive") ? listen_and_receive(address, &options, -1) : run_sender(address, &options);
}

int main(int argc, char **argv)
{
    if (argc == 4 && (!strcmp(argv[1], "receive") || !strcmp(argv[1], "send")))
        return run_one(argv[1], argv[2], argv[3]);
    if (argc == 1)
        return run_both();
    fprintf(stderr, "usage: send_weights [receive|send ADDRESS KEYFILE]\n");
    return 1;
}

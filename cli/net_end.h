/*
 * net_end.h - what the two ends of "leat bench net" share: the commands that the bench sends to "leat serve", and
 * the measured copies themselves, over a link and over a plain socket.
 *
 * The bench connects, and sends one command at a time. The other end prepares it, answers that it is ready, does
 * it, and answers with its processor time and whether the bytes were right.
 */
#ifndef CLI_NET_END_H
#define CLI_NET_END_H

#include "bench.h"

#include <leat/link.h>

#define NET_MAGIC UINT64_C(0x31746e6568b3c5d7)

enum {
    NET_VERSION = 1,
    NET_TEXT_MAX = 256,
    NET_COUNT_MAX = 64, /* messages of one run */
    NET_TOKEN_BYTES = 16
};

#define NET_BYTES_MAX (1 * GIB)

/* What a command asks for. */
enum net_op {
    NET_HELLO, /* tells the largest size, and asks what the other end is */
    NET_PLAIN, /* asks for a plain socket beside the link */
    NET_RUN,   /* messages in one direction, or both */
    NET_PING,  /* one message there, and the same back */
    NET_BYE,
    NET_OP_COUNT
};

/* The directions of a run, as seen from the bench. */
enum net_direction { NET_OUT, NET_IN, NET_BOTH, NET_DIRECTION_COUNT };

/* The kinds of memory, the same at both ends. */
enum net_kind { NET_PAGEABLE, NET_PINNED, NET_DEVICE, NET_KIND_COUNT };

extern const char *const net_kind_words[NET_KIND_COUNT];

enum net_tag { NET_TAG_COMMAND = 1, NET_TAG_REPLY = 2, NET_TAG_OUT = 3, NET_TAG_IN = 4 };

struct net_command {
    uint64_t magic;
    uint32_t version, op;
    uint32_t kind, direction, plain, count;
    uint64_t bytes;
    uint64_t seed; /* not 0: fill and check the bytes */
};

struct net_reply {
    uint64_t magic;
    uint32_t ok;
    uint32_t holds;                       /* the received bytes were right */
    double cpu_seconds;                   /* of the process, during the run */
    uint32_t port;                        /* of the plain socket; 0: text is its name in the abstract namespace */
    unsigned char token[NET_TOKEN_BYTES]; /* the first bytes of the plain socket */
    char text[NET_TEXT_MAX];              /* why ok is 0; or what the other end is */
};

/* One end. */
struct net_end {
    struct bench *bench;
    leat_link *link;
    bool served;       /* this end is "leat serve" */
    int plain;         /* the plain socket; -1: none */
    size_t room_bytes; /* of a served end: the largest message that it has memory for */
};

/* ---- messages; false with bench->error set ---- */

bool net_put(struct net_end *end, enum net_tag tag, const void *message, size_t bytes);
bool net_take(struct net_end *end, enum net_tag tag, void *message, size_t bytes);
/* Starts to receive a message; the caller waits for the ticket. */
bool net_take_start(struct net_end *end, enum net_tag tag, void *message, size_t bytes, leat_ticket **ticket);
bool net_wait(struct net_end *end, leat_ticket *ticket);

/* ---- runs ---- */

/* Makes the buffers of a run, and fills them if the command has a seed. Over a link, submits what this end can
 * submit before the other end begins. */
bool net_prepare(struct net_end *end, const struct net_command *command);

/* Does the run, and waits for its end. */
bool net_run(struct net_end *end, const struct net_command *command);

/* After a run with a seed: returns in *holds whether the bytes that this end received are right. */
bool net_check(struct net_end *end, const struct net_command *command, bool *holds);

/* ---- the plain socket: net_plain.c ---- */

/* Make a plain socket beside the link at an address of the link. The served end listens, fills reply, and then
 * accepts; the bench connects. */
int net_plain_listen(struct net_end *end, const char *address, struct net_reply *reply);
bool net_plain_accept(struct net_end *end, int listener, const struct net_reply *reply);
bool net_plain_connect(struct net_end *end, const char *address, const struct net_reply *reply);

/* The runs of net_run() over it. */
bool net_plain_run(struct net_end *end, const struct net_command *command);

/* Returns a buffer of a kind, or NULL with bench->error set. out: the one that is sent from. */
void *net_buffer(struct net_end *end, enum net_kind kind, bool out);

#endif

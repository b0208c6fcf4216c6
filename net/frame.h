/*
 * frame.h - the frames that the two ends of a link send after the handshake: their types, and their bytes.
 *
 * A frame is a header of 40 bytes, little-endian, and a tail: the payload of DATA, the name of GET and PUT, or the
 * address of ADDRESS.
 *
 *     u32 type, u32 bytes of the tail, u64 a, u64 b, u64 c, u64 d
 *
 * A receive has a number, which the receiving end chooses; the numbers of one end grow. The types, and what is in
 * a, b, c and d:
 *
 *     WANT      receive, tag, bytes, credit   the sender of this frame has made a receive; see "credit" below
 *     CREDIT    receive, credit               more payload may be sent
 *     DATA      receive, offset               payload of the receive
 *     UNWANT    receive                       the receive has ended early. The answer is GONE
 *     GONE      receive                       nothing about this receive will follow
 *     STOP      receive, status               the copy has failed at the end that sends; no payload follows
 *     GET       receive, offset, bytes, credit    like WANT, but for a region of the other end
 *     PUT       put, offset, bytes            asks for a receive into a region. The answer is WANT_PUT or PUT_DONE
 *     WANT_PUT  receive, put, credit          like WANT, for the put with this number
 *     PUT_DONE  put, status                   the bytes are in the region, or why they are not
 *     ALIVE                                   a sign of life
 *     BYE                                     the last frame of an end that closes the link
 *     ADDRESS                                 the tail is the UCX address of the end that sends it (carrier.h)
 *     CARRIED   receive, offset, bytes        like DATA, but the payload comes by UCX
 *
 * The credit is an offset in the message: the payload before it may be sent. It may be 0, except in CREDIT. These
 * functions are pure.
 */
#ifndef LEATN_FRAME_H
#define LEATN_FRAME_H

#include <leat/status.h>

#include <stdint.h>

enum leatn_frame_type {
    LEATN_FRAME_WANT = 1,
    LEATN_FRAME_CREDIT,
    LEATN_FRAME_DATA,
    LEATN_FRAME_UNWANT,
    LEATN_FRAME_GONE,
    LEATN_FRAME_STOP,
    LEATN_FRAME_GET,
    LEATN_FRAME_PUT,
    LEATN_FRAME_WANT_PUT,
    LEATN_FRAME_PUT_DONE,
    LEATN_FRAME_ALIVE,
    LEATN_FRAME_BYE,
    LEATN_FRAME_ADDRESS,
    LEATN_FRAME_CARRIED,
    LEATN_FRAME_TYPES
};

enum {
    LEATN_HEADER_BYTES = 40,
    LEATN_FRAGMENT_MAX = 1 << 20,   /* the largest payload of a DATA frame */
    LEATN_ADDRESS_FRAME_MAX = 4000, /* the largest tail of ADDRESS */
    LEATN_NAME_MAX = 127            /* the longest name of a region, without a terminating 0 */
};

/* A frame without its tail. Fields that the type does not have are 0. */
struct leatn_frame {
    enum leatn_frame_type type;
    uint32_t tail_bytes;
    uint64_t receive, put; /* numbers; never 0 */
    uint64_t tag;
    uint64_t offset, bytes, credit; /* at most INT64_MAX, and so is their sum */
    leat_status status;
};

/* Writes the LEATN_HEADER_BYTES bytes of the header. */
void leatn_frame_encode(const struct leatn_frame *frame, unsigned char *at);

/*
 * Reads a header, and checks all that can be checked without the state of the link: the type, fields that the type
 * does not have, the ranges of the others. Returns NULL, or what is wrong, as constant text.
 */
const char *leatn_frame_decode(const unsigned char *at, struct leatn_frame *frame);

#endif

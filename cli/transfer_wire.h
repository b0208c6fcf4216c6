/*
 * transfer_wire.h - the messages of "leat send" and "leat receive".
 *
 * The sender connects. For each file it sends an offer, with the name and the size. The receiver answers with ok
 * 1, or with ok 0 and the reason. The sender then sends the bytes in pieces of TRANSFER_PIECE_BYTES, the last one
 * shorter, piece i with the tag TRANSFER_TAG_PIECE + i % TRANSFER_SLOTS; then an end, with the checksum of all
 * bytes. The receiver compares the checksum with that of what it has, stores the file, and says so in a result.
 * After the last file the sender sends an offer with ok 0 and no name, and gets a result with the totals.
 *
 * Either side can give up in the middle: the sender by an end, the receiver by a result, with ok 0 and the reason.
 * Both then end the transfer.
 */
#ifndef CLI_TRANSFER_WIRE_H
#define CLI_TRANSFER_WIRE_H

#include <stdint.h>

#define TRANSFER_MAGIC UINT64_C(0x31656c6966e1b9a7)

enum { TRANSFER_VERSION = 1, TRANSFER_SLOTS = 4, TRANSFER_PIECE_BYTES = 8 << 20, TRANSFER_TEXT_MAX = 512 };

enum transfer_tag {
    TRANSFER_TAG_OFFER = 1,
    TRANSFER_TAG_ANSWER = 2,
    TRANSFER_TAG_END = 3,
    TRANSFER_TAG_RESULT = 4,
    TRANSFER_TAG_PIECE = 16 /* and the following TRANSFER_SLOTS - 1 */
};

/* Every message but the pieces. */
struct transfer_message {
    uint64_t magic;
    uint32_t version;
    uint32_t ok;
    uint64_t bytes;               /* size of the file; in the last result, of all files */
    uint64_t nanoseconds;         /* of a result: from the answer until all bytes were received and checked */
    uint32_t piece_bytes;         /* TRANSFER_PIECE_BYTES: both ends must agree */
    uint32_t checksum;            /* of an end and a result: CRC-32 of the bytes, as in zlib */
    char text[TRANSFER_TEXT_MAX]; /* the name, or the reason; ends with 0 */
};

#endif

/* frame.c - encodes, decodes and checks the frames of a link. See frame.h. */
#include "frame.h"

#include "net.h"

#include <string.h>

/* The fields of a frame, in the order in which decode_fields() checks them. */
enum field { NONE, RECEIVE, PUT, TAG, OFFSET, BYTES, CREDIT, STATUS };

enum { PLACES = 4 }; /* the places for fields in a header: a, b, c and d */

struct layout {
    enum field fields[PLACES];
    uint32_t tail_least, tail_most;
};

static const struct layout layouts[LEATN_FRAME_TYPES] = {
    [LEATN_FRAME_WANT] = {{RECEIVE, TAG, BYTES, CREDIT}, 0, 0},
    [LEATN_FRAME_CREDIT] = {{RECEIVE, CREDIT}, 0, 0},
    [LEATN_FRAME_DATA] = {{RECEIVE, OFFSET}, 1, LEATN_FRAGMENT_MAX},
    [LEATN_FRAME_UNWANT] = {{RECEIVE}, 0, 0},
    [LEATN_FRAME_GONE] = {{RECEIVE}, 0, 0},
    [LEATN_FRAME_STOP] = {{RECEIVE, STATUS}, 0, 0},
    [LEATN_FRAME_GET] = {{RECEIVE, OFFSET, BYTES, CREDIT}, 1, LEATN_NAME_MAX},
    [LEATN_FRAME_PUT] = {{PUT, OFFSET, BYTES}, 1, LEATN_NAME_MAX},
    [LEATN_FRAME_WANT_PUT] = {{RECEIVE, PUT, CREDIT}, 0, 0},
    [LEATN_FRAME_PUT_DONE] = {{PUT, STATUS}, 0, 0},
    [LEATN_FRAME_ALIVE] = {{NONE}, 0, 0},
    [LEATN_FRAME_BYE] = {{NONE}, 0, 0},
    [LEATN_FRAME_ADDRESS] = {{NONE}, 1, LEATN_ADDRESS_FRAME_MAX},
    [LEATN_FRAME_CARRIED] = {{RECEIVE, OFFSET, BYTES}, 0, 0},
};

/* Hosts are little-endian (net.h), so numbers are sent as they are in memory. */
static void write_u32(unsigned char *at, uint32_t value)
{
    memcpy(at, &value, sizeof value);
}

static void write_u64(unsigned char *at, uint64_t value)
{
    memcpy(at, &value, sizeof value);
}

static uint32_t read_u32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t read_u64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof value);
    return value;
}

static uint64_t get_field(const struct leatn_frame *frame, enum field field)
{
    switch (field) {
    case RECEIVE:
        return frame->receive;
    case PUT:
        return frame->put;
    case TAG:
        return frame->tag;
    case OFFSET:
        return frame->offset;
    case BYTES:
        return frame->bytes;
    case CREDIT:
        return frame->credit;
    case STATUS:
        return (uint64_t) - (int64_t)frame->status;
    default:
        return 0;
    }
}

void leatn_frame_encode(const struct leatn_frame *frame, unsigned char *at)
{
    const struct layout *layout = &layouts[frame->type];

    write_u32(at, (uint32_t)frame->type);
    write_u32(at + 4, frame->tail_bytes);
    for (unsigned i = 0; i < PLACES; i++)
        write_u64(at + 8 + 8 * i, get_field(frame, layout->fields[i]));
}

/* Reads a status. An end sends only those that the other end can return to its program. */
static const char *decode_status(struct leatn_frame *frame, uint64_t value)
{
    static const leat_status known[] = {LEAT_ERROR_RANGE, LEAT_ERROR_NOT_FOUND, LEAT_ERROR_NOT_PERMITTED,
                                        LEAT_ERROR_LINK};

    frame->status = LEAT_OK;
    if (!value)
        return frame->type == LEATN_FRAME_PUT_DONE ? NULL : "a copy stopped without a reason";
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        if (value == (uint64_t) - (int64_t)known[i]) {
            frame->status = known[i];
            return NULL;
        }
    return "an unknown status";
}

static const char *decode_field(struct leatn_frame *frame, enum field field, uint64_t value)
{
    switch (field) {
    case NONE:
        return value ? "a field that must be 0 is not" : NULL;
    case RECEIVE:
        frame->receive = value;
        return value ? NULL : "the number of a receive is 0";
    case PUT:
        frame->put = value;
        return value ? NULL : "the number of a put is 0";
    case TAG:
        frame->tag = value;
        return NULL;
    case OFFSET:
        frame->offset = value;
        return value <= INT64_MAX ? NULL : "an offset is too large";
    case BYTES:
        frame->bytes = value;
        return !value ? "a message has no bytes" : value <= INT64_MAX ? NULL : "a message is too large";
    case CREDIT:
        frame->credit = value;
        if (!value && frame->type == LEATN_FRAME_CREDIT)
            return "a credit is 0";
        return value <= INT64_MAX ? NULL : "a credit is too large";
    case STATUS:
        return decode_status(frame, value);
    }
    return NULL;
}

const char *leatn_frame_decode(const unsigned char *at, struct leatn_frame *frame)
{
    uint32_t type = read_u32(at);
    const struct layout *layout;
    const char *wrong;

    memset(frame, 0, sizeof *frame);
    if (!type || type >= LEATN_FRAME_TYPES)
        return "an unknown type of frame";
    layout = &layouts[type];
    frame->type = (enum leatn_frame_type)type;
    frame->tail_bytes = read_u32(at + 4);
    if (frame->tail_bytes < layout->tail_least || frame->tail_bytes > layout->tail_most)
        return "a frame has a wrong length";
    for (unsigned i = 0; i < PLACES; i++) {
        wrong = decode_field(frame, layout->fields[i], read_u64(at + 8 + 8 * i));
        if (wrong)
            return wrong;
    }
    if (frame->bytes && frame->credit > frame->bytes)
        return "a credit is larger than its message";
    if (frame->offset > INT64_MAX - (type == LEATN_FRAME_DATA ? frame->tail_bytes : frame->bytes))
        return "a range is too large";
    return NULL;
}

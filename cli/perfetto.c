/* perfetto.c - see perfetto.h. */
#include "perfetto.h"

#include <string.h>

/* Numbers of fields, from the published definition of the format. */
enum {
    TRACE_PACKET = 1,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_DESCRIPTOR = 60,
    EVENT_ANNOTATION = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK = 11,
    EVENT_COUNTER = 30,
    EVENT_FLOW = 47,
    DESCRIPTOR_UUID = 1,
    DESCRIPTOR_NAME = 2,
    DESCRIPTOR_PARENT = 5,
    DESCRIPTOR_COUNTER = 8,
    COUNTER_UNIT = 3,
    INTERNED_EVENT_NAMES = 2,
    INTERNED_ANNOTATION_NAMES = 3,
    NAME_IID = 1,
    NAME_TEXT = 2,
    ANNOTATION_NAME_IID = 1,
    ANNOTATION_UINT = 3
};

enum { TYPE_BEGIN = 1, TYPE_END = 2, TYPE_COUNTER = 4, UNIT_BYTES = 3, SEQUENCE = 1, ANNOTATION_BYTES = 1 };
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2 };
enum { MESSAGE_MAX = 1200, NAME_BYTES_MAX = 1000 };

/* A message in the making. What does not fit is left out; MESSAGE_MAX leaves room for the longest name. */
struct message {
    size_t bytes;
    unsigned char data[MESSAGE_MAX];
};

static void put_varint(struct message *message, uint64_t value)
{
    do {
        if (message->bytes == MESSAGE_MAX)
            return;
        message->data[message->bytes++] = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
}

static void put_tag(struct message *message, unsigned field, unsigned wire)
{
    put_varint(message, (uint64_t)field << 3 | wire);
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    put_tag(message, field, WIRE_VARINT);
    put_varint(message, value);
}

static void put_fixed64(struct message *message, unsigned field, uint64_t value)
{
    int i;

    put_tag(message, field, WIRE_FIXED64);
    for (i = 0; i < 8 && message->bytes < MESSAGE_MAX; i++)
        message->data[message->bytes++] = (unsigned char)(value >> 8 * i);
}

static void put_bytes(struct message *message, unsigned field, const void *data, size_t bytes)
{
    put_tag(message, field, WIRE_BYTES);
    put_varint(message, bytes);
    if (bytes > MESSAGE_MAX - message->bytes)
        bytes = MESSAGE_MAX - message->bytes;
    memcpy(message->data + message->bytes, data, bytes);
    message->bytes += bytes;
}

static void put_message(struct message *message, unsigned field, const struct message *inner)
{
    put_bytes(message, field, inner->data, inner->bytes);
}

static void put_text(struct message *message, unsigned field, const char *text)
{
    put_bytes(message, field, text, strnlen(text, NAME_BYTES_MAX));
}

/* ---- packets ---- */

static void write_packet(FILE *file, const struct message *packet)
{
    struct message head = {.bytes = 0};

    put_tag(&head, TRACE_PACKET, WIRE_BYTES);
    put_varint(&head, packet->bytes);
    fwrite(head.data, 1, head.bytes, file);
    fwrite(packet->data, 1, packet->bytes, file);
}

void perfetto_track(FILE *file, uint64_t track, uint64_t parent, const char *name, bool counter)
{
    struct message packet = {.bytes = 0}, descriptor = {.bytes = 0}, unit = {.bytes = 0};

    put_number(&descriptor, DESCRIPTOR_UUID, track);
    put_text(&descriptor, DESCRIPTOR_NAME, name);
    if (parent)
        put_number(&descriptor, DESCRIPTOR_PARENT, parent);
    if (counter) {
        put_number(&unit, COUNTER_UNIT, UNIT_BYTES);
        put_message(&descriptor, DESCRIPTOR_COUNTER, &unit);
    }
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_message(&packet, PACKET_DESCRIPTOR, &descriptor);
    write_packet(file, &packet);
}

/* Interns a text under iid: in names of events, or of annotations. */
static void write_name(FILE *file, unsigned kind, uint64_t iid, const char *text, unsigned flags)
{
    struct message packet = {.bytes = 0}, interned = {.bytes = 0}, name = {.bytes = 0};

    put_number(&name, NAME_IID, iid);
    put_text(&name, NAME_TEXT, text);
    put_message(&interned, kind, &name);
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_number(&packet, PACKET_SEQUENCE_FLAGS, flags);
    put_message(&packet, PACKET_INTERNED, &interned);
    write_packet(file, &packet);
}

void perfetto_begin(FILE *file)
{
    write_name(file, INTERNED_ANNOTATION_NAMES, ANNOTATION_BYTES, "bytes", FLAG_CLEARED | FLAG_NEEDS_STATE);
}

void perfetto_name(FILE *file, uint64_t number, const char *name)
{
    write_name(file, INTERNED_EVENT_NAMES, number, name, FLAG_NEEDS_STATE);
}

static void write_event(FILE *file, uint64_t ns, const struct message *event)
{
    struct message packet = {.bytes = 0};

    put_number(&packet, PACKET_TIMESTAMP, ns);
    put_number(&packet, PACKET_SEQUENCE, SEQUENCE);
    put_number(&packet, PACKET_SEQUENCE_FLAGS, FLAG_NEEDS_STATE);
    put_message(&packet, PACKET_TRACK_EVENT, event);
    write_packet(file, &packet);
}

void perfetto_slice_begin(FILE *file, const struct perfetto_slice *slice)
{
    struct message event = {.bytes = 0}, bytes = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_BEGIN);
    put_number(&event, EVENT_NAME_IID, slice->name);
    put_number(&event, EVENT_TRACK, slice->track);
    if (slice->bytes) {
        put_number(&bytes, ANNOTATION_NAME_IID, ANNOTATION_BYTES);
        put_number(&bytes, ANNOTATION_UINT, slice->bytes);
        put_message(&event, EVENT_ANNOTATION, &bytes);
    }
    if (slice->flow)
        put_fixed64(&event, EVENT_FLOW, slice->flow);
    write_event(file, slice->ns, &event);
}

void perfetto_slice_end(FILE *file, uint64_t track, uint64_t ns)
{
    struct message event = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_END);
    put_number(&event, EVENT_TRACK, track);
    write_event(file, ns, &event);
}

void perfetto_count(FILE *file, uint64_t track, uint64_t ns, int64_t value)
{
    struct message event = {.bytes = 0};

    put_number(&event, EVENT_TYPE, TYPE_COUNTER);
    put_number(&event, EVENT_TRACK, track);
    put_number(&event, EVENT_COUNTER, (uint64_t)value);
    write_event(file, ns, &event);
}

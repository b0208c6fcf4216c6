#!/usr/bin/env python3
"""Checks a timeline of "leat trace --perfetto" by the definitions in the package perfetto, and, where its
trace_processor can be fetched, by that too. The timeline must be of tests/traces/kineto_small.json. With two more
timelines: these must have equally many slices, flows and counts."""
import subprocess
import sys

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as definitions

CALLS, WORK, COPIES = 202, 81, 41


def check(condition, text):
    if not condition:
        sys.exit(f"perfetto_check.py: {text}")


def read(path):
    trace = definitions.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace.packet


def check_packets(packets):
    names, tracks, open_slices, flows = {}, {}, {}, {}
    counts = {"begin": 0, "counter": 0}
    events = []
    for packet in packets:
        check(packet.trusted_packet_sequence_id == 1, "a packet has no sequence")
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        for name in packet.interned_data.event_names:
            names[name.iid] = name.name
        if packet.HasField("track_event"):
            events.append(packet)
    for packet in sorted(events, key=lambda p: p.timestamp):  # stable
        event = packet.track_event
        check(event.track_uuid in tracks, "an event is on no track")
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == event.TYPE_SLICE_BEGIN:
            counts["begin"] += 1
            check(event.name_iid in names, "a slice has no name")
            stack.append(packet.timestamp)
            for flow in event.flow_ids:
                flows.setdefault(flow, []).append(tracks[event.track_uuid].name)
        elif event.type == event.TYPE_SLICE_END:
            check(stack and stack.pop() <= packet.timestamp, "slices do not nest")
        else:
            counts["counter"] += 1
            check(tracks[event.track_uuid].HasField("counter") and event.counter_value >= 0, "a counter is wrong")
    check(not any(open_slices.values()), "a slice has no end")
    check(counts["begin"] == CALLS + WORK, f"there are {counts['begin']} slices")
    check(counts["counter"] >= COPIES, f"there are {counts['counter']} counts")
    check(len(flows) == WORK and all(sorted(f) == ["stream 7", "thread 7"] for f in flows.values()), "a flow is wrong")


def check_processor(path):
    from perfetto.trace_processor import TraceProcessor

    try:
        processor = TraceProcessor(trace=path)
    except (OSError, subprocess.SubprocessError):
        print("skipped: the timeline by Perfetto's trace_processor: it cannot be fetched")
        return
    one = lambda query: next(iter(processor.query(query))).n
    check(one("select count(*) as n from slice") == CALLS + WORK, "trace_processor finds other slices")
    check(one("select count(*) as n from flow") == WORK, "trace_processor finds other flows")
    check(one("select count(*) as n from counter") >= COPIES, "trace_processor finds other counts")
    check(one("select count(*) as n from slice where dur < 0") == 0, "a slice has no end")
    check(one("select ifnull(sum(value), 0) as n from stats where severity in ('error', 'data_loss')") == 0,
          "trace_processor found errors")
    processor.close()


def count(packets):
    events = [packet.track_event for packet in packets if packet.HasField("track_event")]
    names = {name.iid: name.name for packet in packets for name in packet.interned_data.event_names}
    return (sorted(names[e.name_iid] for e in events if e.type == e.TYPE_SLICE_BEGIN), len({f for e in events for f in e.flow_ids}),
            sum(e.type == e.TYPE_COUNTER for e in events))


check_packets(read(sys.argv[1]))
if len(sys.argv) > 3:
    check(count(read(sys.argv[2])) == count(read(sys.argv[3])), "the timelines differ")
check_processor(sys.argv[1])

"""Many TCP senders at one port of a switch, with losses: a model in rounds, each of one round trip or longer.

In a round each sender sends its congestion window. The port forwards what its rate allows in a round trip, keeps what
fits in its buffer, and drops the rest, at random. A sender that lost packets halves its window and sends them again in
a later round. If fewer than three of its packets arrived, it does not learn of the loss, and waits for the
retransmission timeout. A sender without losses doubles its window (slow start), or adds one packet.
"""
import random


def incast(senders, packets, rate, round_trip, buffer_bytes, timeout, packet=9000, limit=1 << 30, seed=1):
    """Returns (goodput as a share of the rate, share of packets dropped, timeouts). limit: packets under way, each."""
    chance = random.Random(seed)
    left = [packets] * senders
    window = [min(10, limit)] * senders
    threshold = [float("inf")] * senders
    asleep_until = [0.0] * senders
    room = int((rate * round_trip + buffer_bytes) / packet)
    now, dropped, sent_packets, timeouts = 0.0, 0, 0, 0
    active = list(range(senders))
    while active:
        awake = [s for s in active if asleep_until[s] <= now]
        if not awake:
            now = min(asleep_until[s] for s in active)
            continue
        offers = [(s, min(window[s], left[s])) for s in awake]
        total = sum(count for _, count in offers)
        sent_packets += total
        lost = dict.fromkeys(awake, 0)
        if total > room:
            packets_of = [s for s, count in offers for _ in range(count)]
            for _ in range(total - room):
                i, last = int(chance.random() * len(packets_of)), packets_of.pop()
                if i < len(packets_of):
                    packets_of[i], last = last, packets_of[i]
                lost[last] += 1
            dropped += total - room
        now += max(round_trip, min(total, room) * packet / rate)
        for s, count in offers:
            left[s] -= count - lost[s]
            if not lost[s]:
                grown = window[s] * 2 if window[s] < threshold[s] else window[s] + 1
                window[s] = min(limit, grown)
            elif count - lost[s] >= 3:
                threshold[s] = window[s] = max(2, window[s] // 2)
            else:
                timeouts += 1
                threshold[s], window[s] = max(2, window[s] // 2), 1
                asleep_until[s] = now + timeout
        active = [s for s in active if left[s] > 0]
    return senders * packets * packet / (now * rate), dropped / sent_packets, timeouts


def paced(senders, packets, rate, round_trip, buffer_bytes, timeout, at_once, **options):
    """The same if the receiver lets `at_once` senders send at a time, with a window that fits into the buffer."""
    packet = options.get("packet", 9000)
    limit = max(1, int((rate * round_trip + buffer_bytes) / packet / at_once))
    seconds = dropped = 0.0
    timeouts = 0
    for first in range(0, senders, at_once):
        group = min(at_once, senders - first)
        goodput, share, count = incast(group, packets, rate, round_trip, buffer_bytes, timeout, limit=limit, **options)
        seconds += group * packets * packet / (goodput * rate)
        dropped += share * group / senders
        timeouts += count
    return senders * packets * packet / (seconds * rate), dropped, timeouts

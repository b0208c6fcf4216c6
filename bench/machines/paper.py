"""Closed forms: how long it takes to bring one message to every node.

All take a Path, which describes the network, and return seconds. simulation.py computes the same times from single
chunks, and check.py compares the two.

A chunk keeps a card busy for tau seconds, at the sender and at the receiver at the same time. Its last byte is at the
receiver `hop` seconds after it has left the sender. A node can forward it `relay` seconds later.
"""
import math
from collections import namedtuple

from inputs import CHUNK, value

Path = namedtuple("Path", "rate hop relay chunk_cost chunk", defaults=(CHUNK,))


def standard_path(rate, chunk=CHUNK):
    """Before a node forwards a chunk, a worker wakes up, and two streams see flags: that of the receive and of the send."""
    return Path(rate, value("hop"), value("wake") + 2 * value("flag"), value("chunk_cost"), chunk)


def tau(path):
    return path.chunk / path.rate + path.chunk_cost


def chunks(path, size):
    return max(1, math.ceil(size / path.chunk))


def depth_of(nodes):
    """Hops from the root to the deepest of `nodes` nodes of a complete binary tree."""
    return max(0, nodes.bit_length() - 1)


def single_link(path, size):
    return chunks(path, size) * tau(path) + path.hop


def storage(nodes, size, node_rate, storage_rate):
    """Each node reads everything from one storage system."""
    return max(size / node_rate, nodes * size / storage_rate)


def one_to_all(path, nodes, size):
    """The root sends everything to each of the other nodes. All chunks leave by one card."""
    return (nodes - 1) * chunks(path, size) * tau(path) + path.hop


def incast(path, senders, size):
    """Each sender has `size` bytes for the root, whose card takes them one after the other."""
    return senders * chunks(path, size) * tau(path) + path.hop


def binomial(path, nodes, size):
    """Each node that has the whole message sends it to a node that does not. Exact for powers of two."""
    whole = chunks(path, size) * tau(path)
    rounds = math.ceil(math.log2(nodes))
    return rounds * (whole + path.hop) + (rounds - 1) * path.relay


def chain(path, nodes, size):
    """Each node forwards each chunk to the next node."""
    hops = nodes - 1
    return (chunks(path, size) - 1) * tau(path) + hops * (tau(path) + path.hop) + (hops - 1) * path.relay


def binary_tree(path, nodes, size):
    """Each node forwards each chunk to two nodes. Exact for complete trees (2^k - 1 nodes)."""
    depth = depth_of(nodes)
    each = 1 if nodes == 2 else 2
    return (each * (chunks(path, size) - 1) * tau(path) + depth * (each * tau(path) + path.hop) +
            (depth - 1) * path.relay)


def two_trees(path, nodes, size):
    """Half of the chunks by each of two binary trees; a node that forwards in one is a leaf in the other. Estimate."""
    if nodes == 2:
        return single_link(path, size)
    depth = depth_of(nodes - 1) + 1
    return chunks(path, size) * tau(path) + depth * (2 * tau(path) + path.hop) + (depth - 1) * path.relay


def ring_all_gather(path, nodes, block):
    """Each node has a block, of one chunk, and all nodes need all blocks."""
    whole = Path(path.rate, path.hop, path.relay, path.chunk_cost, block)
    return (nodes - 1) * (tau(whole) + path.hop) + (nodes - 2) * path.relay


def window_rate(path, window):
    """Bytes per second of one link whose sender may have `window` bytes under way, until it is told to go on."""
    slots = max(1, window // path.chunk)
    return min(path.chunk / tau(path), slots * path.chunk / (tau(path) + 2 * path.hop))


def ring_rate(path, ring, stage_rate):
    """The same, where a chunk stays in a ring of `ring` bytes until the host link has taken it."""
    slots = max(1, ring // path.chunk)
    cycle = tau(path) + 2 * path.hop + path.chunk / stage_rate
    return min(path.chunk / tau(path), stage_rate, slots * path.chunk / cycle)


def best_chunk(path, size, fill_hops, per_chunk=1.0):
    """The chunk size for which fill time and fixed times together are least.

    T(c) = (size / c + fill_hops) (c / rate + cost): its derivative is zero where c^2 = size cost rate / fill_hops.
    """
    return math.sqrt(size * path.chunk_cost * path.rate / max(1, fill_hops) / per_chunk)


def hit(rate_per_hour, nodes, seconds):
    """The probability that at least one of the nodes fails in that time."""
    return 1 - math.exp(-rate_per_hour / 3600 * nodes * seconds)


def expected_restart(rate_per_hour, nodes, seconds, detection):
    """Mean time if a failure, seen `detection` seconds later, makes everything start again."""
    per_second = rate_per_hour / 3600 * nodes
    return seconds + math.expm1(per_second * seconds) * (1 / per_second + detection) - seconds


def expected_resume(rate_per_hour, nodes, seconds, detection):
    """Mean time if nothing that has arrived is sent again."""
    return seconds + rate_per_hour / 3600 * nodes * seconds * detection

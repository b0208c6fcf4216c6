"""The sentences of docs/machines.md that have results in them: its conclusions and two paragraphs."""
import paper
import tables
from inputs import AHEAD, CHUNK, FAILURES_PER_NODE_HOUR, GB, GIB, INPUTS, MIB, MODELS, card_rate, value
from tables import digits, percent, seconds, size_text

SMALL, MEDIUM, LARGE = MODELS


def trees(nodes, size, gbit=400, **options):
    return tables.broadcast_seconds(paper.two_trees, nodes, size, gbit, **options)


def chain(nodes, size):
    return tables.broadcast_seconds(paper.chain, nodes, size, 400)


def gigabytes(size):
    return f"{size / GB:.0f} GB"


def plain(name):
    return f"{INPUTS[name].value:g}"


def shape():
    storage = tables.storage_seconds(64, MEDIUM, 400)
    one = tables.broadcast_seconds(paper.one_to_all, 64, MEDIUM, 400)
    return f"""**Forward chunks in two trees.** With one card of 400 Gbit/s for each node, {gigabytes(MEDIUM)} are on
        64 nodes after {seconds(trees(64, MEDIUM))} and on 10000 nodes after {seconds(trees(10000, MEDIUM))}. If 64
        nodes read from one storage system of {plain("storage")} GB/s, they take {seconds(storage)}. If one node sends
        to all, they take {seconds(one)}."""


def first_shape():
    return f"""**Build the chain first.** It is the simplest shape. For {gigabytes(MEDIUM)} it takes
        {seconds(chain(64, MEDIUM))} on 64 nodes and {seconds(chain(512, MEDIUM))} on 512. Two trees are clearly
        faster beyond that ({seconds(trees(10000, MEDIUM))} against {seconds(chain(10000, MEDIUM))} on 10000 nodes),
        and for fewer bytes ({seconds(trees(512, SMALL))} against {seconds(chain(512, SMALL))} for {gigabytes(SMALL)}
        on 512 nodes)."""


def chunk_size():
    more = trees(512, LARGE, chunk=MIB) / trees(512, LARGE) - 1
    return f"""**Use chunks of 4 MiB, and announce {AHEAD} of them ahead.** Chunks of 1 MiB take {100 * more:.0f} %
        longer for {gigabytes(LARGE)} on 512 nodes. {AHEAD} chunks fill a card of 400 Gbit/s up to a round trip of
        {seconds(AHEAD * CHUNK / card_rate(400))}. If a receiver announced all {LARGE / CHUNK:.0f} chunks of
        {gigabytes(LARGE)} at once, they would be more than the {plain("receives")} that a link admits, and all would
        be in host memory while its stream is blocked."""


def source():
    warm, cold = (trees(512, LARGE, rails=8, source=value(name)) for name in ("file_warm", "file_cold"))
    return f"""**Let several ranks read the file.** With eight cards of 400 Gbit/s, {gigabytes(LARGE)} take
        {seconds(warm)} from one rank that reads a cached file at {plain("file_warm")} GB/s. From the memory of eight
        GPUs they would take {seconds(trees(512, LARGE, rails=8))}. From a cold file on the virtual disk that was
        measured they take {seconds(cold)}, whatever the network is."""


def protocols():
    limits = tables.node_limits(400, 8)
    return f"""**Use sockets up to about {digits(limits["sockets"] / GB, 2)} GB/s for a node, then RDMA.** To receive
        and forward what one card of 400 Gbit/s brings, sockets take {digits(tables.cores_for(card_rate(400)), 2)}
        cores and ten links. RDMA into the staging ring reaches about {digits(limits["ring"] / GB, 2)} GB/s: two cards
        of 400 Gbit/s or eight of 100. From four cards of 400 Gbit/s on, only RDMA from and to GPU memory can use them
        fully. Host memory is the limit of both, and its rate is assumed."""


def window():
    trip = value("window") * 3 / 4 / card_rate(400)
    return f"""**Keep the default window of {size_text(value("window"))} inside a data centre, and raise it beyond.**
        It fills a card of 400 Gbit/s up to a round trip of {seconds(trip)}, and one of 25 Gbit/s up to
        {seconds(16 * trip)}. At 10 ms it allows {digits(value("window") * 3 / 4 / 0.01 / GB)} GB/s on any card."""


def pacing(gathers):
    crowd, calm = gathers[512]
    return f"""**Let the receiver of a gather pace it.** 9999 receives at the same time may hold
        {size_text(9999 * value("window"))} of host memory; 8 at a time hold {size_text(8 * value("window"))}, and use
        the card as well. If 511 senders start at once at a switch that drops packets, the model reaches
        {percent(crowd[0])} of the card's rate; 8 at a time reach {percent(calm[0])}."""


def forwarding(slow_nodes):
    results = {hold: (below, late) for name, hold, below, late, _, _ in slow_nodes if name == "two trees"}
    return f"""**Forward from the destination, not from the ring.** In two trees of 64, a node at a quarter of the
        rate has {results[True][0]} nodes below it. If nodes forward from the ring, {results[True][1]} of the 62 other
        receivers are late, because each link waits for the slowest one. If nodes forward from the destination,
        {results[False][1]} are late: those below."""


def failures():
    slow, fast = trees(10000, LARGE, 25), trees(10000, LARGE)
    restart = paper.expected_restart(FAILURES_PER_NODE_HOUR, 10000, slow, value("idle")) / slow - 1
    return f"""**Notice failures fast; repair can wait.** {gigabytes(LARGE)} to 10000 nodes by cards of 25 Gbit/s take
        {seconds(slow)}, and {percent(paper.hit(FAILURES_PER_NODE_HOUR, 10000, slow))} of such broadcasts lose a node
        (by cards of 400 Gbit/s: {percent(paper.hit(FAILURES_PER_NODE_HOUR, 10000, fast))}). To start again then costs
        {percent(restart)} on average. With 400 Gbit/s most of the cost is the {plain("idle")} s until a silent link
        fails."""


def conclusions(gathers, slow_nodes):
    points = (shape(), first_shape(), chunk_size(), source(), protocols(), window(), pacing(gathers),
              forwarding(slow_nodes), failures())
    return "\n".join("- " + wrap(point, "\n  ") for point in points)


def outside():
    """The model beside what others measured."""
    few, many = trees(2, 1000 * GB, rails=8), trees(32, 1000 * GB, rails=8)
    return wrap(f"""checkpoint-engine updates 1 TB of weights on 2 nodes in {plain("update_16")} s and on 32 nodes in
        {plain("update_256")} s. For two trees and eight cards of 400 Gbit/s the model has {seconds(few)} and
        {seconds(many)}, for the network alone. The number of nodes matters as little there as here. The whole time is
        {digits(INPUTS["update_256"].value / many, 2)} times the model's: the update also copies from host memory,
        hands the weights over between processes and copies them into place, and its page does not say which network
        cards the nodes have.""")


def small_machine():
    sockets, ring = tables.small_machine()
    rest = value("two_host_links") / value("file_warm")
    return wrap(f"""The H200 machine of the measurements (16 processors, one GPU, {plain("memory_vm")} GB/s of memory
        traffic) could receive and forward {digits(sockets)} GB/s by sockets and {digits(ring)} GB/s by RDMA through
        the ring. Two processes on one machine should not use sockets: a socket on loopback moved at most
        {plain("loopback")} GB/s on two processors, so 8 GiB take {seconds(8 * GIB / value("loopback"))}. A cached
        file of 8 GiB takes {seconds(8 * GIB / value("file_warm"))} to one GPU, and two host links together carry
        {digits(rest, 2)} times that rate, so a second GPU can have the same bytes in the same time.""")


def wrap(text, newline="\n", width=113):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return newline.join(lines + [line])

"""The tables and the sentences of docs/machines.md, as Markdown. Each function returns the text of one block."""
import incast
import paper
import simulation
from inputs import (AHEAD, CARDS, CHUNK, FAILURES_PER_NODE_HOUR, GB, GIB, INPUTS, KIB, MIB, MODELS, NODES, RAILS, US,
                    card_rate, value)

SOCKET_CORE = value("socket_core")
NODE_GPUS = 8


# ---- numbers as text ----------------------------------------------------------------------------------------


def digits(number, count=3):
    """A number with `count` digits that matter, without an exponent."""
    if number == 0:
        return "0"
    text = f"{number:.{count}g}"
    return f"{float(text):,.0f}".replace(",", " ") if "e" in text or float(text) >= 1000 else text


def seconds(time):
    for unit, scale in (("h", 3600.0), ("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if time >= scale * (2 if unit == "h" else 1):
            return f"{digits(time / scale)} {unit}"
    return f"{digits(time / 1e-9)} ns"


def size_text(size):
    for unit, scale in (("GiB", 1 << 30), ("MiB", MIB), ("KiB", KIB)):
        if size >= scale:
            return f"{digits(size / scale)} {unit}"
    return f"{size:.0f} B"


def percent(share):
    if 0 < share < 0.0001:
        return "less than 0.01 %"
    return f"{digits(100 * share, 2)} %"


def table(head, rows, left=1):
    """A Markdown table; columns after the first `left` ones are aligned to the right."""
    lines = ["| " + " | ".join(head) + " |",
             "|" + "|".join("---" if i < left else "---:" for i in range(len(head))) + "|"]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


# ---- broadcast ----------------------------------------------------------------------------------------------

WAYS = (
    ("one sender to all", paper.one_to_all),
    ("binomial tree", paper.binomial),
    ("binary tree", paper.binary_tree),
    ("chain", paper.chain),
    ("two trees", paper.two_trees),
)


def broadcast_seconds(way, nodes, size, gbit, rails=1, chunk=CHUNK, source=float("inf")):
    """A message striped over rails, each of which has its own chain or tree. source: bytes per second of the root."""
    path = paper.standard_path(min(card_rate(gbit), source / rails), chunk)
    return way(path, nodes, size / rails)


def storage_seconds(nodes, size, gbit, rails=1):
    return paper.storage(nodes, size, min(card_rate(gbit) * rails, value("file_warm")), value("storage"))


def inputs_table():
    rows = [(source.what, f"{source.value:g} {source.unit}".strip(), source.kind, source.source or "")
            for source in INPUTS.values()]
    return table(("what", "value", "kind", "where"), rows).replace("---:", "---")


def ways_table():
    size = MODELS[1]
    rows = [[nodes, seconds(storage_seconds(nodes, size, 400))] +
            [seconds(broadcast_seconds(way, nodes, size, 400)) for _, way in WAYS] for nodes in NODES]
    return table(["nodes", "all read from storage"] + [name for name, _ in WAYS], rows, 0)


def sizes_table():
    rows = []
    for size in MODELS:
        for gbit in CARDS:
            rows.append([f"{size / GB:.0f} GB", f"{gbit} Gbit/s"] +
                        [seconds(broadcast_seconds(paper.two_trees, nodes, size, gbit)) for nodes in NODES])
    return table(["bytes", "card"] + [f"{nodes} nodes" for nodes in NODES], rows, 2)


def rails_table():
    rows = []
    size = MODELS[2]
    for gbit in CARDS:
        for source, limit in (("memory", float("inf")), ("a warm file", value("file_warm")),
                              ("8 fast disks", value("disks")), ("the virtual disk", value("file_cold"))):
            rows.append([f"{gbit} Gbit/s", source] +
                        [seconds(broadcast_seconds(paper.two_trees, 512, size, gbit, rails, source=limit))
                         for rails in RAILS])
    return table(["each card", "the root reads"] + [f"{rails} rail{'s' * (rails > 1)}" for rails in RAILS], rows, 2)


def chunk_table():
    rows = []
    for way, name, fill in ((paper.chain, "chain", lambda n: n - 2), (paper.two_trees, "two trees",
                                                                     lambda n: 2 * paper.depth_of(n - 1) + 2)):
        for nodes in (8, 512, 10000):
            for size in (MODELS[0], MODELS[2]):
                path = paper.standard_path(card_rate(400))
                best = paper.best_chunk(path, size, fill(nodes))
                least = way(path._replace(chunk=best), nodes, size)
                more = [way(path._replace(chunk=chunk * MIB), nodes, size) / least - 1 for chunk in (0.25, 1, 4, 16)]
                rows.append([name, nodes, f"{size / GB:.0f} GB", size_text(best), seconds(least)] +
                            [f"{abs(100 * part):.0f} %" for part in more])
    return table(["", "nodes", "bytes", "best chunk", "time with it", "more with 256 KiB", "1 MiB", "4 MiB", "16 MiB"],
                 rows)


# ---- windows and memory -------------------------------------------------------------------------------------

TRIPS = (20 * US, 100 * US, 1000 * US, 10000 * US, 80000 * US)


def window_needed(gbit, trip):
    """Credit comes in steps of a quarter of the window, so a window holds four thirds of the bytes under way."""
    return card_rate(gbit) * trip * 4 / 3


def window_table():
    rows = []
    for gbit in CARDS:
        for trip in TRIPS:
            cap = value("window") * 3 / 4 / trip
            rows.append([f"{gbit} Gbit/s", seconds(trip), size_text(card_rate(gbit) * trip),
                         size_text(window_needed(gbit, trip)),
                         f"{digits(min(cap, card_rate(gbit)) / GB)} GB/s",
                         f"{digits(100 * min(1, cap / card_rate(gbit)), 2)} %"])
    return table(["card", "round trip", "bytes under way", "window needed", "rate with 8 MiB", "of the card"], rows)


def ring_table():
    """One link over a card of 400 Gbit/s, through rings of several sizes, in chunks of 1 MiB."""
    rows = []
    for ring in (2, 4, 8, 16, 32, 64):
        rates = [paper.ring_rate(paper.standard_path(card_rate(400), MIB)._replace(hop=trip / 2), ring * MIB,
                                 value("host_link")) for trip in TRIPS[:4]]
        rows.append([f"{ring} MiB"] + [digits(rate / GB) for rate in rates])
    return table(["ring"] + [f"round trip {seconds(trip)}" for trip in TRIPS[:4]], rows)


def memory_table():
    window = value("window")
    ahead = AHEAD * CHUNK
    rows = [(f"receiver of one broadcast, all {MODELS[1] / GB:.0f} GB announced", 1, MODELS[1]),
            (f"the same, {AHEAD} chunks of 4 MiB announced", 1, ahead),
            ("node of two trees, 1 card, 8 chunks announced on each link", 2, 2 * ahead),
            ("the same, 8 cards", 16, 16 * ahead),
            ("the same, 8 cards of 400 Gbit/s by sockets, 10 links each", 160, 160 * ahead)]
    rows += [(f"root that gathers from {n - 1} nodes, one message each, all at once", n - 1, (n - 1) * window)
             for n in NODES[2:]]
    rows += [("root that gathers from 8 at a time", 8, 8 * window)]
    return table(["node", "links that receive", "host memory if streams are blocked"],
                 [(name, count, size_text(size)) for name, count, size in rows])


# ---- what a node can take -----------------------------------------------------------------------------------


def node_limits(gbit, rails, forwards=1):
    """Bytes per second that a node can receive, bring to its GPUs and forward from there, for three protocols.

    Passes over host memory for each received byte: it is written by the card (and with sockets read and written by the
    kernel) and read by the DMA into the GPU. For each forward it is written by the DMA out of the GPU and read by the
    card (and with sockets read and written by the kernel in between). Each of `rails` cards has a GPU.
    """
    line = card_rate(gbit) * rails
    link = value("host_link_both") / 2 if forwards else value("host_link")
    links = min(link * rails, value("eight_host_links"))
    cores = value("cores_node") * SOCKET_CORE / (1 + forwards)
    return {"line": line,
            "sockets": min(line, links, cores, value("memory_node") / (4 + 4 * forwards)),
            "ring": min(line, links, value("memory_node") / (2 + 2 * forwards)),
            "direct": line}


def cores_for(rate, forwards=1):
    return rate * (1 + forwards) / SOCKET_CORE


def way_needed(limits):
    for name, text in (("sockets", "sockets"), ("ring", "RDMA through the ring"), ("direct", "RDMA from GPU memory")):
        if limits[name] >= 0.99 * limits["line"]:
            return text
    raise AssertionError("the direct way has the line's rate")


def limits_table():
    rows = []
    for gbit in CARDS:
        for rails in RAILS:
            limits = node_limits(gbit, rails)
            rows.append([f"{rails} x {gbit} Gbit/s", digits(limits["line"] / GB), digits(cores_for(limits["line"])),
                         -int(-card_rate(gbit) // SOCKET_CORE), digits(limits["sockets"] / GB),
                         digits(limits["ring"] / GB), way_needed(limits)])
    return table(["cards of a node", "payload GB/s", "cores for sockets", "links per card", "sockets GB/s", "ring GB/s",
                  "needed for all of it"], rows)


def cores_table():
    """Processor seconds for each GB, and how many cores 47.5 GB/s need."""
    line = card_rate(400)
    rows = [(name, f"{digits(GB / rate, 2)} s", digits(line / rate)) for name, rate in (
        ("receive by a socket", SOCKET_CORE), ("send by a socket, assumed to cost as much", SOCKET_CORE),
        ("read a cached file into the ring", value("file_thread")),
        ("stage pageable memory into the ring", value("stage_thread")))]
    rows += [("RDMA into the ring or into GPU memory", "about 0", "about 0")]
    return table(["what leat's workers do", "processor time for a GB", f"cores for {digits(line / GB)} GB/s"], rows)


def small_machine():
    """GB/s that the measured machine with 16 processors and one GPU can receive and forward: sockets, ring."""
    link = value("host_link_both") / 2
    return (min(link, 16 * SOCKET_CORE / 2, value("memory_vm") / 8) / GB, min(link, value("memory_vm") / 4) / GB)


# ---- gather -------------------------------------------------------------------------------------------------

GATHER_AT_ONCE = 8


def incast_results(senders):
    rate, trip = card_rate(400), 2 * value("hop")
    packets = -int(-value("fragment") // 9000)
    arguments = (senders, packets, rate, trip, value("port_buffer"), value("rto"))
    return incast.incast(*arguments, limit=int(value("window") / 9000)), incast.paced(*arguments, GATHER_AT_ONCE)


def gather_table(results):
    rows = []
    for nodes in NODES[1:]:
        crowd, calm = results[nodes]
        rows.append([nodes, seconds(MODELS[2] / card_rate(400)), size_text((nodes - 1) * value("window")),
                     percent(crowd[0]), percent(crowd[1]), crowd[2],
                     size_text(GATHER_AT_ONCE * value("window")), percent(calm[0]), calm[2]])
    return table(["nodes", "400 GB at the card's rate", "memory, all at once", "rate, all at once", "packets lost",
                  "timeouts", "memory, 8 at a time", "rate, 8 at a time", "timeouts, 8 at a time"], rows, 0)


def gather_results():
    return {nodes: incast_results(nodes - 1) for nodes in NODES[1:]}


# ---- a slow node, and failures ------------------------------------------------------------------------------

SLOW_NODES, SLOW_BYTES, SLOW_FACTOR = 64, 128 * MIB, 0.25


def nodes_below(edges, node, trees=2):
    """The number of nodes that get chunks through a node."""
    below, found = {(node, tree) for tree in range(trees)}, set()
    for parent, child, tree in sorted(edges, key=lambda edge: edge[2]):
        if (parent, tree) in below:
            below.add((child, tree))
            found.add(child)
    return len(found)


def slow_results():
    """Simulated: one inner node whose cards have a quarter of the rate. Times of nodes relative to those without it."""
    path = paper.standard_path(card_rate(400), MIB)
    results = []
    for name, edges, victim in (("chain", simulation.chain(SLOW_NODES), 49),
                                ("binary tree", simulation.binary_tree(SLOW_NODES), 4),
                                ("two trees", simulation.two_trees(SLOW_NODES), 8)):
        healthy, _ = simulation.broadcast(path, edges, SLOW_NODES, SLOW_BYTES, window=8)
        for hold in (True, False):
            run, _ = simulation.broadcast(path, edges, SLOW_NODES, SLOW_BYTES, window=8, hold_ring=hold,
                                          factors={victim: SLOW_FACTOR})
            times = [node.finished / before.finished for node, before in zip(run.nodes[1:], healthy.nodes[1:])
                     if node.name != victim]
            results.append((name, hold, nodes_below(edges, victim), sum(time > 1.2 for time in times),
                            sum(times) / len(times), max(times)))
    return results


def slow_table(results):
    rows = [[name, "from the ring" if hold else "from the destination", below, late, digits(mean), digits(worst)]
            for name, hold, below, late, mean, worst in results]
    return table(["", "nodes forward", "nodes below the slow one", "other nodes that are late", "mean of the others",
                  "last of the others"], rows, 2)


DETECTION_FAST = 2.0


def failure_cases():
    for gbit in CARDS:
        for nodes in (512, 4096, 10000):
            time = broadcast_seconds(paper.two_trees, nodes, MODELS[2], gbit)
            yield gbit, nodes, time


def failures_table():
    rate, idle = FAILURES_PER_NODE_HOUR, value("idle")
    rows = []
    for gbit, nodes, time in failure_cases():
        rows.append([f"{gbit} Gbit/s", nodes, seconds(time), percent(paper.hit(rate, nodes, time)),
                     "+ " + percent(paper.expected_restart(rate, nodes, time, idle) / time - 1),
                     "+ " + percent(paper.expected_resume(rate, nodes, time, idle) / time - 1),
                     "+ " + percent(paper.expected_restart(rate, nodes, time, DETECTION_FAST) / time - 1),
                     "+ " + percent(paper.expected_resume(rate, nodes, time, DETECTION_FAST) / time - 1)])
    return table(["card", "nodes", "400 GB, two trees", "hit by a failure", "start again, 30 s", "go on, 30 s",
                  "start again, 2 s", "go on, 2 s"], rows)


def repair_results():
    """Simulated: node 21 of 64 dies in the middle, and its children learn of it after as long as a broadcast takes."""
    path = paper.standard_path(card_rate(400), MIB)
    results = []
    for name, edges in (("chain", simulation.chain(64)), ("binary tree", simulation.binary_tree(64)),
                        ("two trees", simulation.two_trees(64))):
        _, healthy = simulation.broadcast(path, edges, 64, SLOW_BYTES)
        victim = 5 if name == "binary tree" else 20
        run, repaired = simulation.broadcast_with_failure(path, edges, 64, SLOW_BYTES, victim, healthy / 2, healthy)
        on_time = sum(node.finished < 1.1 * healthy for node in run.nodes[1:] if not node.dead)
        results.append((name, repaired / healthy, on_time))
    return results


def repair_table(results):
    return table(["", "time, of a broadcast without failure", "of 62 other nodes not delayed"],
                 [(name, digits(time), on_time) for name, time, on_time in results])


# ---- simulation beside paper --------------------------------------------------------------------------------


SHAPES = (("chain", paper.chain, simulation.chain),
          ("binary tree", paper.binary_tree, simulation.binary_tree),
          ("two trees", paper.two_trees, simulation.two_trees))
QUICK_RUNS = ((63, 256 * MIB), (1000, 32 * MIB))  # nodes and bytes
FULL_RUNS = ((64, 8 * GB), (10000, 256 * MIB))


def agreement_table(runs=QUICK_RUNS):
    path = paper.standard_path(card_rate(400))
    rows = []
    for nodes, size in runs:
        for name, way, edges in SHAPES:
            _, simulated = simulation.broadcast(path, edges(nodes), nodes, size)
            expected = way(path, nodes, size)
            rows.append([name, nodes, size_text(size), seconds(simulated), seconds(expected),
                         f"{100 * (expected / simulated - 1):+.1f} %".replace("-0.0", "+0.0")])
    return table(["", "nodes", "bytes", "simulated", "on paper", "paper differs by"], rows)


def full_table():
    """The same with as many chunks as a real broadcast has: takes minutes."""
    return agreement_table(FULL_RUNS)


def full_on_paper():
    """The column "on paper" of full_table(), which is computed at once."""
    return [seconds(way(paper.standard_path(card_rate(400)), nodes, size)) for nodes, size in FULL_RUNS
            for _, way, _ in SHAPES]


# ---- inside a node ------------------------------------------------------------------------------------------


def inside_rows():
    """Seconds to give each of `gpus` GPUs of a node all the bytes, from host memory."""
    one, nvlink = value("host_link"), value("nvlink")
    for gpus, links in ((2, value("two_host_links")), (8, value("eight_host_links"))):
        for size in (8 * GIB, MODELS[1]):
            part = size / gpus
            yield (gpus, size, size / (links / gpus), size / one + CHUNK / nvlink,
                   max(size / links, (gpus - 1) * part / nvlink) + CHUNK / nvlink)


def inside_table():
    rows = [[gpus, size_text(size)] + [seconds(time) for time in times] for gpus, size, *times in inside_rows()]
    return table(["GPUs", "bytes", "each GPU by its own link", "one link, then NVLink",
                  "a part by each link, then NVLink"], rows, 0)


def sensitivity_table():
    """Two trees and the chain with latencies that are ten times shorter and longer."""
    rows = []
    for name, way in (("chain", paper.chain), ("two trees", paper.two_trees)):
        for nodes in (64, 10000):
            base = paper.standard_path(card_rate(400))
            times = [way(base._replace(hop=base.hop * f, relay=base.relay * f, chunk_cost=base.chunk_cost * f), nodes,
                         MODELS[1]) for f in (0.1, 1, 10)]
            half = way(base._replace(rate=base.rate / 2), nodes, MODELS[1])
            rows.append([name, nodes] + [seconds(time) for time in times] + [seconds(half)])
    return table(["", "nodes", "latencies / 10", "as assumed", "latencies x 10", "half the rate"], rows)

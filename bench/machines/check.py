"""Compares the simulation with the closed forms, and checks that no byte is lost."""
import math

import incast
import paper
import simulation
from inputs import AHEAD, GB, MIB, US

PATH = paper.Path(rate=50 * GB, hop=10 * US, relay=50 * US, chunk_cost=5 * US, chunk=MIB)
SIZE = 24 * MIB


class Checks:
    def __init__(self):
        self.passed = 0
        self.failures = []

    def true(self, name, holds, text=""):
        if holds:
            self.passed += 1
        else:
            self.failures.append(f"{name}: {text}" if text else name)

    def close(self, name, found, expected, tolerance=1e-9):
        apart = abs(found - expected) / expected
        self.true(name, apart <= tolerance, f"simulated {found:.9g}, on paper {expected:.9g}, {apart:.3g} apart")

    def conserved(self, name, run, size):
        """Every node but node 0 has all bytes once, and no node has sent a byte that none received."""
        self.true(f"{name}: bytes", all(node.taken == size for node in run.nodes[1:] if not node.dead),
                  f"{[node.taken for node in run.nodes][:9]} of {size}")
        if not any(node.dead for node in run.nodes):
            sent, taken = (sum(getattr(node, what) for node in run.nodes) for what in ("sent", "taken"))
            self.true(f"{name}: sent and received", sent == taken, f"{sent} and {taken}")


def check_shapes(checks):
    """Broadcasts and gathers on an idle network."""
    cases = [("single link", simulation.chain(2), 2, paper.single_link(PATH, SIZE))]
    cases += [(f"chain of {n}", simulation.chain(n), n, paper.chain(PATH, n, SIZE)) for n in (2, 3, 17, 100)]
    cases += [(f"binary tree of {n}", simulation.binary_tree(n), n, paper.binary_tree(PATH, n, SIZE))
              for n in (3, 7, 63, 255)]
    cases += [(f"one to {n - 1}", simulation.star(n), n, paper.one_to_all(PATH, n, SIZE)) for n in (2, 9, 65)]
    for name, edges, nodes, expected in cases:
        run, seconds = simulation.broadcast(PATH, edges, nodes, SIZE)
        checks.close(name, seconds, expected)
        checks.conserved(name, run, SIZE)
    whole = PATH._replace(chunk=SIZE)
    for nodes in (2, 4, 64, 256):
        run, seconds = simulation.broadcast(whole, simulation.binomial(nodes), nodes, SIZE)
        checks.close(f"binomial tree of {nodes}", seconds, paper.binomial(whole, nodes, SIZE))
        checks.conserved(f"binomial tree of {nodes}", run, SIZE)
    for senders in (1, 2, 8, 64):
        run, seconds = simulation.gather(PATH, senders, 8 * MIB)
        checks.close(f"incast of {senders}", seconds, paper.incast(PATH, senders, 8 * MIB))
        checks.true(f"incast of {senders}: bytes", run.nodes[0].taken == senders * 8 * MIB)
    for nodes in (2, 5, 16):
        run, seconds = simulation.ring_all_gather(PATH, nodes, MIB)
        checks.close(f"all-gather in a ring of {nodes}", seconds, paper.ring_all_gather(PATH, nodes, MIB))
        checks.true(f"all-gather in a ring of {nodes}: bytes",
                    all(node.taken == (nodes - 1) * MIB for node in run.nodes))


def check_two_trees(checks):
    """The closed form of two trees is an estimate."""
    for nodes in (3, 8, 20, 64, 257):
        edges = simulation.two_trees(nodes)
        children = {}
        for parent, child, tree in edges:
            children[tree, child] = parent
        checks.true(f"two trees of {nodes}: each node once in each tree",
                    len(edges) == 2 * (nodes - 1) == len(children))
        inner = [{parent for parent, _, tree in edges if tree == t and parent} for t in (0, 1)]
        checks.true(f"two trees of {nodes}: at most one node forwards in both", len(inner[0] & inner[1]) <= 1)
        run, seconds = simulation.broadcast(PATH, edges, nodes, 200 * MIB)
        checks.close(f"two trees of {nodes}", seconds, paper.two_trees(PATH, nodes, 200 * MIB), 0.15)
        checks.conserved(f"two trees of {nodes}", run, 200 * MIB)
        _, few_ahead = simulation.broadcast(PATH, edges, nodes, 200 * MIB, window=AHEAD)
        checks.close(f"two trees of {nodes}, {AHEAD} chunks ahead", few_ahead, seconds, 0.02)


def check_rails_and_windows(checks):
    for rails in (2, 4, 8):
        run, seconds = simulation.broadcast(PATH, simulation.chain(2), 2, SIZE, rails=rails)
        checks.close(f"{rails} rails", seconds, paper.single_link(PATH, SIZE / rails))
        checks.conserved(f"{rails} rails", run, SIZE)
    size = 1600 * MIB
    for hop in (10 * US, 1000 * US):
        for window in (1, 2, 8, 32):
            far = PATH._replace(hop=hop)
            _, seconds = simulation.broadcast(far, simulation.chain(2), 2, size, window=window)
            checks.close(f"window of {window} chunks, {hop * 1e6:.0f} us", size / seconds,
                         paper.window_rate(far, window * MIB), 0.03)
    for stage_rate in (200 * GB, 20 * GB):
        for ring in (1, 2, 4, 16):
            _, seconds = simulation.broadcast(PATH, simulation.chain(2), 2, size, window=ring, stage_rate=stage_rate)
            expected = paper.ring_rate(PATH, ring * MIB, stage_rate)
            checks.close(f"ring of {ring} chunks, host link {stage_rate / GB:.0f} GB/s", size / seconds, expected, 0.03)


def check_hold_ring(checks):
    """Two hops, a window of one chunk: its place is free when the middle node has sent the chunk on."""
    run, seconds = simulation.broadcast(PATH, simulation.chain(3), 3, SIZE, window=1, hold_ring=True)
    cycle = 2 * paper.tau(PATH) + 2 * PATH.hop + PATH.relay
    checks.close("a chain that holds its ring", seconds, paper.chunks(PATH, SIZE) * cycle)
    checks.conserved("a chain that holds its ring", run, SIZE)


def check_extremes(checks):
    """What must hold whatever the inputs are."""
    edges = simulation.chain(8)
    _, healthy = simulation.broadcast(PATH, edges, 8, SIZE)
    _, endless = simulation.broadcast(PATH._replace(rate=1e30, hop=0, relay=0, chunk_cost=0), edges, 8, SIZE)
    _, slow = simulation.broadcast(PATH, edges, 8, SIZE, factors={7: 0.25})
    run, repaired = simulation.broadcast_with_failure(PATH, edges, 8, SIZE, 3, healthy / 2, 0.5)
    checks.true("an endless rate takes no time", endless < 1e-12)
    checks.true("a slow last node is slower by at most its factor", healthy < slow < 4 * healthy + 1e-9)
    checks.true("a repaired chain ends after the detection", healthy / 2 + 0.5 < repaired < healthy + 0.5 + healthy)
    checks.conserved("a repaired chain", run, SIZE)
    # Node 2 sends all to node 3, and to node 4 what node 3 had not; one or two chunks were under way when node 3 died.
    twice = run.nodes[2].sent + run.nodes[3].sent - 2 * SIZE
    checks.true("a repaired chain sends only what is missing", 0 <= twice <= 2 * MIB, f"{twice} bytes too many")
    run, repaired = simulation.broadcast_with_failure(PATH, simulation.two_trees(64), 64, 8 * SIZE, 21,
                                                      paper.two_trees(PATH, 64, 8 * SIZE) / 2, 0.1)
    checks.conserved("two repaired trees", run, 8 * SIZE)
    again = [simulation.broadcast(PATH, simulation.two_trees(33), 33, SIZE)[1] for _ in range(2)]
    checks.true("the same simulation twice is the same", again[0] == again[1])
    for way in (paper.chain, paper.two_trees, paper.binary_tree, paper.binomial, paper.one_to_all):
        times = [way(PATH, nodes, 8 * GB) for nodes in (2, 8, 64, 512, 4096, 10000)]
        checks.true(f"{way.__name__}: more nodes take no less time", times == sorted(times))
        checks.true(f"{way.__name__}: no faster than one link", min(times) >= paper.single_link(PATH, 8 * GB))
    best = paper.best_chunk(PATH, 8 * GB, 100)
    times = [paper.chain(PATH._replace(chunk=best * factor), 101, 8 * GB) for factor in (0.9, 1, 1.1)]
    checks.true("the best chunk is best", times[1] < min(times[0], times[2]))


def check_failures(checks):
    checks.close("a failure in an hour of one node", paper.hit(1.0, 1, 3600), 1 - math.exp(-1))
    checks.close("no failure: the plain time", paper.expected_restart(1e-12, 1, 100, 30), 100, 1e-6)
    checks.close("restarts: the known mean", paper.expected_restart(3600, 1, 2, 0), math.exp(2) - 1)


def check_incast(checks):
    goodput, dropped, timeouts = incast.incast(1, 10000, 5e9, 100 * US, 1 << 40, 0.2)
    checks.true("one sender loses nothing", dropped == 0 and timeouts == 0 and 0.5 < goodput <= 1)
    # By hand: a port that takes 5 packets a round trip. Windows of 10, 5, 6, 3, 4, 5, and the last 3 packets.
    found = incast.incast(1, 30, 5 * 9000 / (100 * US), 100 * US, 100, 0.2)
    checks.close("rounds of one sender: goodput", found[0], 30 / 35)
    checks.close("rounds of one sender: packets lost", found[1], 6 / 36)
    crowd = incast.incast(400, 20, 5e9, 100 * US, MIB, 0.2)
    checks.true("a timeout takes its time", 400 * 20 * 9000 / (crowd[0] * 5e9) > 0.2)
    calm = incast.paced(400, 20, 5e9, 100 * US, MIB, 0.2, 8)
    checks.true("a crowd loses packets", crowd[1] > 0 and crowd[2] > 0)
    checks.true("paced senders lose nothing", calm[1] == 0 and calm[2] == 0)
    checks.true("no more than the rate", crowd[0] <= 1 and calm[0] <= 1)
    checks.true("the same seed, the same result", crowd == incast.incast(400, 20, 5e9, 100 * US, MIB, 0.2))


def run_checks():
    checks = Checks()
    for part in (check_shapes, check_two_trees, check_rails_and_windows, check_hold_ring, check_extremes,
                 check_failures, check_incast):
        part(checks)
    return checks

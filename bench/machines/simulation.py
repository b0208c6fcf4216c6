"""Simulates chunks that nodes pass to one another: a discrete-event simulation.

Chunks and not flows are simulated, because what the model asks for happens to chunks: a window is used up, a ring is
full, a tree forwards before it has everything, a node dies in the middle. Chunks of several senders take turns at a
receiver's card, so that the senders share it fairly, as flows with max-min shares would.

A node has a sending and a receiving card for each rail. Each handles one chunk at a time: chunk / rate + chunk_cost
seconds. Chunks that arrive at a busy receiving card wait in the network, in the order of their arrival. Nothing is
lost: losses are in incast.py. The host link takes received chunks, one at a time. A sender may have `window` chunks of
a link under way. The receiver gives a chunk's place back when the host link has taken it, and in a simulation with
hold_ring also not before the chunk was sent to all children.
"""
import heapq
from collections import deque


class Card:
    """One direction of a network card, or a host link."""

    def __init__(self, rate, cost=0.0):
        self.rate = rate
        self.cost = cost
        self.free_at = 0.0
        self.busy = False
        self.ready = deque()  # links that have a chunk and a place for it, in turn

    def seconds(self, size):
        return size / self.rate + self.cost


class Link:
    """From one node to another, by one rail. A link of each tree is its own."""

    def __init__(self, source, target, rail, window):
        self.source, self.target, self.rail = source, target, rail
        self.window = window
        self.under_way = 0
        self.waiting = deque()
        self.queued = False  # in its card's list of ready links


class Node:
    def __init__(self, name, path, rails, factor=1.0, stage_rate=float("inf")):
        self.name = name
        self.sending = [Card(path.rate * factor, path.chunk_cost) for _ in range(rails)]
        self.receiving = [Card(path.rate * factor, path.chunk_cost) for _ in range(rails)]
        self.host_link = Card(stage_rate)
        self.links = {}      # tree: links to the children, in the order in which they get each chunk
        self.has = set()     # chunks that are in host memory and can be forwarded
        self.to_send = {}    # chunk: (children that still need it, link to give the place back to)
        self.dead = False
        self.taken = 0       # bytes that the host link has moved
        self.sent = 0
        self.finished = 0.0  # when the last chunk was taken


class Simulation:
    def __init__(self, path, nodes, rails=1, window=None, stage_rate=float("inf"), factors=None, hold_ring=False):
        """window: chunks under way for each link; None: no limit. factors: rates of single nodes, relative."""
        self.path, self.rails, self.hold_ring = path, rails, hold_ring
        self.window = window if window is not None else 1 << 60
        factors = factors or {}
        self.nodes = [Node(i, path, rails, factors.get(i, 1.0), stage_rate) for i in range(nodes)]
        self.parents = {}    # (tree, child): link
        self.now, self.events, self.sequence = 0.0, [], 0
        self.sizes = []
        self.trees = 1

    # ---- what to simulate ----------------------------------------------------------------------------------

    def connect(self, source, target, tree=0):
        links = [Link(self.nodes[source], self.nodes[target], rail, self.window) for rail in range(self.rails)]
        self.nodes[source].links.setdefault(tree, []).append(links)
        self.parents[tree, target] = links
        self.trees = max(self.trees, tree + 1)

    def cut(self, size):
        """Cuts a message into chunks."""
        whole, rest = divmod(int(size), int(self.path.chunk))
        self.sizes = [int(self.path.chunk)] * whole + ([rest] if rest else [])

    def tree_of(self, chunk):
        return chunk // self.rails % self.trees

    def give(self, node, chunk_numbers):
        """The node has these chunks from the beginning, and sends them to its children."""
        for chunk in chunk_numbers:
            self.nodes[node].has.add(chunk)
            self.forward(self.nodes[node], chunk)

    def kill(self, node, at, detection):
        self.after(at, self.die, self.nodes[node])
        self.after(at + detection, self.repair, self.nodes[node])

    # ---- what happens --------------------------------------------------------------------------------------

    def after(self, seconds, function, *arguments):
        self.sequence += 1
        heapq.heappush(self.events, (self.now + seconds, self.sequence, function, arguments))

    def run(self):
        while self.events:
            self.now, _, function, arguments = heapq.heappop(self.events)
            function(*arguments)
        return max(node.finished for node in self.nodes if not node.dead)

    def forward(self, node, chunk, parent=None):
        children = node.links.get(self.tree_of(chunk), ())
        node.to_send[chunk] = [len(children), parent]
        for links in children:
            self.offer(links[chunk % self.rails], chunk)

    def offer(self, link, chunk):
        link.waiting.append(chunk)
        self.check(link)

    def check(self, link):
        """Puts a link in the list of its card if it can send."""
        if link.waiting and link.under_way < link.window and not link.queued:
            link.queued = True
            card = link.source.sending[link.rail]
            card.ready.append(link)
            self.start(card)

    def start(self, card):
        if card.busy or not card.ready:
            return
        link = card.ready.popleft()
        link.queued = False
        if link.source.dead or not link.waiting:
            self.start(card)
            return
        chunk = link.waiting.popleft()
        size = self.sizes[chunk]
        card.busy = True
        link.under_way += 1
        leaves = card.seconds(size)
        self.after(leaves, self.has_left, card, link, chunk)
        # The first byte reaches the receiver's card after one hop. The last one cannot be there before it was sent.
        self.after(self.path.hop, self.arrives, link, chunk, self.now + leaves + self.path.hop)
        self.check(link)

    def has_left(self, card, link, chunk):
        card.busy = False
        node = link.source
        node.sent += self.sizes[chunk]
        if node.to_send.get(chunk):
            node.to_send[chunk][0] -= 1
            self.give_back(node, chunk)
        self.start(card)

    def arrives(self, link, chunk, earliest):
        card = link.target.receiving[link.rail]
        end = max(max(self.now, card.free_at) + card.seconds(self.sizes[chunk]), earliest)
        card.free_at = end
        self.after(end - self.now, self.is_there, link, chunk)

    def is_there(self, link, chunk):
        node = link.target
        if node.dead or link.source.dead or chunk in node.has:
            return
        node.has.add(chunk)
        self.after(self.path.relay, self.forward_received, node, chunk, link)
        end = max(self.now, node.host_link.free_at) + node.host_link.seconds(self.sizes[chunk])
        node.host_link.free_at = end
        self.after(end - self.now, self.is_taken, link, chunk)

    def forward_received(self, node, chunk, link):
        self.forward(node, chunk, link)
        self.give_back(node, chunk)

    def is_taken(self, link, chunk):
        node = link.target
        node.taken += self.sizes[chunk]
        node.finished = self.now
        if not self.hold_ring:
            self.after(self.path.hop, self.place_is_free, link)

    def give_back(self, node, chunk):
        """With hold_ring, a chunk's place is free when it was sent to all children. The host link is taken as faster."""
        left, link = node.to_send[chunk]
        if self.hold_ring and left == 0 and link is not None:
            node.to_send[chunk][1] = None
            self.after(self.path.hop, self.place_is_free, link)

    def place_is_free(self, link):
        link.under_way -= 1
        self.check(link)

    # ---- failures ------------------------------------------------------------------------------------------

    def die(self, node):
        node.dead = True

    def repair(self, node):
        """Connects the children of a dead node with its parent, which sends what they lack."""
        for tree in range(self.trees):
            parent = self.parents[tree, node.name][0].source
            parent.links[tree].remove(self.parents[tree, node.name])
            for link in self.parents[tree, node.name]:
                link.waiting.clear()
            for links in node.links.get(tree, ()):
                child = links[0].target
                self.connect(parent.name, child.name, tree)
                missing = [c for c in sorted(parent.has) if c not in child.has and self.tree_of(c) == tree]
                for chunk in missing:
                    # A chunk that the parent has received, but not forwarded yet, reaches the child with the others.
                    if parent.to_send.get(chunk):
                        parent.to_send[chunk][0] += 1
                        self.offer(self.parents[tree, child.name][chunk % self.rails], chunk)


# ---- who sends to whom: (parent, child, tree) -------------------------------------------------------------------


def star(nodes):
    return [(0, child, 0) for child in range(1, nodes)]


def chain(nodes):
    return [(i, i + 1, 0) for i in range(nodes - 1)]


def binary_tree(nodes):
    return [((child - 1) // 2, child, 0) for child in range(1, nodes)]


def binomial(nodes):
    """The first child has the most nodes below it."""
    edges, step = [], 1
    while step < nodes:
        step *= 2
    while step > 1:
        step //= 2
        edges += [(i, i + step, 0) for i in range(0, nodes, 2 * step) if i + step < nodes]
    return edges


def in_order(low, high, parent, label, tree):
    """A binary tree of the places low to high, in which every other place is a leaf."""
    if low > high:
        return []
    top = highest(low, high)
    here = label(top)
    return ([(parent, here, tree)] + in_order(low, top - 1, here, label, tree) +
            in_order(top + 1, high, here, label, tree))


def highest(low, high):
    """The number between both that is divisible by the highest power of two."""
    power = 1
    while (high // (2 * power)) * 2 * power >= low:
        power *= 2
    return high // power * power


def two_trees(nodes):
    """Two trees over nodes 1 to nodes - 1; a node that has children in one has none, or one, in the other."""
    below = nodes - 1
    return (in_order(1, below, 0, lambda place: place, 0) +
            in_order(1, below, 0, lambda place: place % below + 1, 1))


def broadcast(path, edges, nodes, size, **options):
    """Simulates a broadcast from node 0. Returns the simulation and its time."""
    simulation = Simulation(path, nodes, **options)
    for parent, child, tree in edges:
        simulation.connect(parent, child, tree)
    simulation.cut(size)
    simulation.give(0, range(len(simulation.sizes)))
    return simulation, simulation.run()


def gather(path, senders, size, **options):
    """Simulates senders that send `size` bytes each to node 0."""
    simulation = Simulation(path, senders + 1, **options)
    simulation.trees = senders
    whole = int(size // path.chunk)
    simulation.sizes = [int(path.chunk)] * (whole * senders)
    simulation.tree_of = lambda chunk: chunk // whole
    for sender in range(senders):
        simulation.nodes[sender + 1].links[sender] = []
        simulation.connect(sender + 1, 0, sender)
        simulation.give(sender + 1, range(sender * whole, (sender + 1) * whole))
    return simulation, simulation.run()


def ring_all_gather(path, nodes, block):
    """Each node has one block; each block goes around the ring, as far as the node before its own."""
    whole = path._replace(chunk=block)
    simulation = Simulation(whole, nodes)
    simulation.sizes = [int(block)] * nodes
    simulation.trees = nodes
    simulation.tree_of = lambda chunk: chunk
    for block_number in range(nodes):
        for i in range(nodes - 1):
            simulation.connect((block_number + i) % nodes, (block_number + i + 1) % nodes, block_number)
    for node in range(nodes):
        simulation.give(node, [node])
    return simulation, simulation.run()


def broadcast_with_failure(path, edges, nodes, size, victim, at, detection, **options):
    """A broadcast in which node `victim` dies; its children learn of it `detection` seconds later."""
    simulation = Simulation(path, nodes, **options)
    for parent, child, tree in edges:
        simulation.connect(parent, child, tree)
    simulation.cut(size)
    simulation.kill(victim, at, detection)
    simulation.give(0, range(len(simulation.sizes)))
    return simulation, simulation.run()

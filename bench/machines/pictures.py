"""The pictures of docs/machines.md, as SVG: readable on light and on dark pages."""
import math

import tables
from inputs import CARDS, GB, MODELS, RAILS

STYLE = """text{font:12px sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:bold}
.quiet{fill:#59636e}
.right{text-anchor:end}
.middle{text-anchor:middle}
.paper{fill:#ffffff}
.grid{stroke:#d1d9e0;stroke-width:0.8}
.line{fill:none;stroke-width:2.4}
.a{stroke:#59636e}.b{stroke:#b35900}.c{stroke:#8250df}.d{stroke:#1a7f37}.e{stroke:#c4302b}.f{stroke:#0b61a8}
@media (prefers-color-scheme: dark){
text{fill:#e6edf3}
.quiet{fill:#9198a1}
.paper{fill:#14181d}
.grid{stroke:#30363d}
.a{stroke:#9198a1}.b{stroke:#f1a65a}.c{stroke:#c297ff}.d{stroke:#57ab5a}.e{stroke:#ff7b72}.f{stroke:#7bb0e0}
}"""
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 860, 430, 80, 56, 190, 60


class Plot:
    """A plot with two logarithmic axes. x and y: (least, most); ticks: pairs of value and text."""

    def __init__(self, title, x, y, x_ticks, y_ticks, x_name, y_name):
        self.x, self.y = x, y
        self.ends = []
        self.lines = ['<?xml version="1.0" encoding="UTF-8"?>',
                      f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                      f'viewBox="0 0 {WIDTH} {HEIGHT}">', f"<title>{title}</title>", f"<style>\n{STYLE}\n</style>",
                      f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>']
        self.text(16, 26, "title", title)
        for number, text in x_ticks:
            self.grid(self.place(number, y[0]), self.place(number, y[1]))
            self.text(self.place(number, y[0])[0], HEIGHT - BOTTOM + 18, "middle", text)
        for number, text in y_ticks:
            self.grid(self.place(x[0], number), self.place(x[1], number))
            self.text(LEFT - 8, self.place(x[0], number)[1] + 4, "right", text)
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, "middle quiet", x_name)
        self.text(16, 46, "quiet", y_name)

    def place(self, x, y):
        def share(number, ends):
            return math.log(number / ends[0]) / math.log(ends[1] / ends[0])
        return (LEFT + share(x, self.x) * (WIDTH - LEFT - RIGHT),
                HEIGHT - BOTTOM - share(y, self.y) * (HEIGHT - TOP - BOTTOM))

    def text(self, x, y, style, text):
        self.lines.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{style}">{text}</text>')

    def grid(self, start, end):
        self.lines.append(f'<line class="grid" x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" '
                          f'y2="{end[1]:.1f}"/>')

    def curve(self, style, name, points, dashes=""):
        places = [self.place(x, y) for x, y in points]
        dash = f' stroke-dasharray="{dashes}"' if dashes else ""
        self.lines.append(f'<polyline class="line {style}"{dash} points="' +
                          " ".join(f"{x:.1f},{y:.1f}" for x, y in places) + '"/>')
        self.ends.append((places[-1][1], name, places[-1][0], style))

    def finish(self):
        """Writes the names beside the ends of the curves, without overlaps."""
        last = -100.0
        for y, name, x, style in sorted(self.ends):
            last = max(y, last + 16)
            self.lines.append(f'<line class="line {style}" x1="{x:.1f}" y1="{y:.1f}" x2="{x + 14:.1f}" '
                              f'y2="{last:.1f}"/>')
            self.text(x + 18, last + 4, "name", name)
        return "\n".join(self.lines + ["</svg>", ""])


def spread_picture():
    nodes = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 10000]
    size = MODELS[1]
    plot = Plot("70 GB to all nodes, one card of 400 Gbit/s each (model)", (2, 10000), (1, 20000),
                [(n, str(n)) for n in (2, 8, 64, 512, 4096, 10000)],
                [(1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3600, "1 h")], "nodes", "time")
    plot.curve("a", "all read from storage", [(n, tables.storage_seconds(n, size, 400)) for n in nodes], "7 4")
    for style, (name, way) in zip("bcdef", tables.WAYS):
        plot.curve(style, name, [(n, tables.broadcast_seconds(way, n, size, 400)) for n in nodes],
                   "2 4" if name == "chain" else "")
    return plot.finish()


def limits_picture():
    cards = sorted({tables.node_limits(gbit, rails)["line"] / GB: (gbit, rails) for gbit in CARDS
                    for rails in RAILS if gbit * rails in (25, 100, 200, 400, 800, 1600, 3200)}.items())
    plot = Plot("What a node with 8 GPUs can receive, forward and bring to its GPUs (model)",
                (cards[0][0], cards[-1][0]), (2.5, 500), [(line, f"{line:.3g}") for line, _ in cards],
                [(n, f"{n} GB/s") for n in (3, 10, 30, 100, 300)], "payload of all network cards of the node, GB/s",
                "reached")
    for style, key, name, dashes in (("e", "sockets", "sockets", ""), ("b", "ring", "RDMA through the ring", "7 4"),
                                     ("f", "direct", "RDMA from GPU memory", "2 4")):
        plot.curve(style, name, [(line, tables.node_limits(*card)[key] / GB) for line, card in cards], dashes)
    return plot.finish()


PICTURES = {"machines-spread.svg": spread_picture, "machines-limits.svg": limits_picture}

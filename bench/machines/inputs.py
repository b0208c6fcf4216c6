"""The figures that go into the model: value, unit, and where each comes from.

kind is "measured" (on this project's machines), "defined" (by leat itself), "cited" (a page or paper of others), or
"assumed".
"""
from collections import namedtuple

Input = namedtuple("Input", "value unit kind what source")

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
GB = 1e9
US = 1e-6

INPUTS = {
    "host_link": Input(55.4, "GB/s", "measured", "pinned memory to one GPU, PCIe 5 x16",
                       "README.md; one H200"),
    "host_link_both": Input(94.7, "GB/s", "measured", "pinned memory to and from one GPU, both directions together",
                            "one H200"),
    "two_host_links": Input(110.6, "GB/s", "measured", "pinned memory to two GPUs at once", "two H200s"),
    "eight_host_links": Input(278, "GB/s", "cited", "pinned memory to eight GPUs at once",
                              "NVIDIA/cuda-samples#357"),
    "nvlink": Input(395, "GB/s", "measured", "GPU to GPU over NVLink, one direction", "two H200s"),
    "file_warm": Input(52.8, "GB/s", "measured", "file in the page cache to one GPU, 16 threads",
                       "docs/files.md: 52.4 to 52.9"),
    "file_thread": Input(7.0, "GB/s", "measured", "pread() from the page cache, one thread", "64 processors"),
    "file_cold": Input(2.29, "GB/s", "measured", "file on a virtual disk, past the cache", "docs/files.md"),
    "disks": Input(48, "GB/s", "cited", "file on 8 PCIe 5 disks", "DeepSpeed, DeepNVMe, 2025"),
    "stage_thread": Input(10.2, "GB/s", "measured", "staging of pageable memory, one thread, non-temporal stores",
                          "one H200, 16 processors"),
    "memory_vm": Input(140, "GB/s", "measured", "traffic of host memory, reads and writes, 16 processors",
                       "docs/copies.md"),
    "memory_node": Input(400, "GB/s", "assumed", "traffic of host memory of a node with two sockets and 8 GPUs", ""),
    "cores_node": Input(96, "cores", "assumed", "processors of such a node that may move bytes", ""),
    "wake": Input(50, "us", "measured", "a sleeping worker starts", "docs/copies.md: 30 to 70"),
    "flag": Input(9.2, "us", "measured", "host writes a flag, the stream continues", "one H200"),
    "loopback": Input(1.28, "GB/s", "measured", "socket on loopback, both ends on 2 processors, best of several runs",
                      "0.66 to 1.28, 2 processors"),
    "socket_core": Input(40, "Gbit/s", "cited", "TCP receive with one core, one connection",
                         "Cai and others, SIGCOMM 2021: one core fills a card of 40, not of 100"),
    "payload": Input(0.95, "", "assumed", "share of a card's nominal rate that payload gets", ""),
    "hop": Input(10, "us", "assumed", "one direction between two nodes, with switches", ""),
    "chunk_cost": Input(1, "us", "assumed", "fixed time of a chunk at a card that has the next chunk ready", ""),
    "storage": Input(100, "GB/s", "assumed", "one shared storage system, all readers together", ""),
    "port_buffer": Input(16, "MiB", "assumed", "buffer of a switch that one port can get", ""),
    "rto": Input(200, "ms", "measured", "least retransmission timeout of TCP, the default",
                 "net.ipv4.tcp_rto_min_us, read on Linux 6.18"),
    "idle": Input(30, "s", "defined", "silence after which a link fails, the default", "include/leat/link.h"),
    "window": Input(8, "MiB", "defined", "window of a message, the default", "include/leat/link.h"),
    "fragment": Input(1, "MiB", "defined", "largest fragment of a message", "design of libleat-net"),
    "receives": Input(65536, "", "defined", "receives of a link that may be announced at the same time",
                      "design of libleat-net"),
    "tcp_wmem": Input(4, "MiB", "measured", "largest send buffer of a socket, the default",
                      "net.ipv4.tcp_wmem, read on Linux 6.18"),
    "tcp_rmem": Input(32, "MiB", "measured", "largest receive buffer of a socket, the default",
                      "net.ipv4.tcp_rmem, read on Linux 6.18; 6 MiB on older ones"),
    "update_16": Input(14.36, "s", "cited", "1 TB of weights to 2 nodes (16 H20) by checkpoint-engine",
                       "MoonshotAI/checkpoint-engine, release 0.2.0"),
    "update_256": Input(16.04, "s", "cited", "the same to 32 nodes (256 H20)", "the same"),
    "failures": Input(419, "", "cited", "failures of a job of 2048 nodes (16384 GPUs) in 54 days",
                      "Meta, The Llama 3 Herd of Models"),
}


def value(name):
    """The value of an input in bytes, seconds and bytes per second."""
    scale = {"GB/s": GB, "Gbit/s": GB / 8, "us": US, "ms": 1e-3, "MiB": MIB}
    return INPUTS[name].value * scale.get(INPUTS[name].unit, 1)


CARDS = (25, 100, 400)  # Gbit/s
RAILS = (1, 2, 4, 8)
NODES = (2, 8, 64, 512, 4096, 10000)
MODELS = (8 * GB, 70 * GB, 400 * GB)
CHUNK = 4 * MIB
AHEAD = 8  # chunks that a receiver announces before they are there
FAILURES_PER_NODE_HOUR = INPUTS["failures"].value / (54 * 24 * 2048)


def card_rate(gbit):
    """Payload bytes per second of a network card."""
    return gbit * GB / 8 * INPUTS["payload"].value

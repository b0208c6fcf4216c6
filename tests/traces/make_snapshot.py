#!/usr/bin/env python3
"""Makes pytorch_snapshot.pickle and pytorch_snapshot_2.pickle.gz: a small memory snapshot in the shape in which
torch.cuda.memory._dump_snapshot() writes it, by Python's own pickle module, in protocol 4 and in protocol 2.

    make_snapshot.py FOLDER

Needs no PyTorch. The recording begins late, and has two devices, of which only the second is used:
- two blocks (3000000 and 1000 bytes) are older than the recording: one is freed during it, one is live at its end;
- 40 blocks of 20000 bytes and more are allocated and freed on the default stream;
- one block of 8000000 bytes, on its own stream, is freed while another stream uses it;
- one allocation of 10**12 bytes fails;
- a block that was freed before the recording becomes usable again during it.
"""
import gzip
import pathlib
import pickle
import sys

BASE = 0x7F3A00000000
SIDE_STREAM = 94857249538048


class Recorder:
    """Stands for an allocator: its addresses only grow. Only the recorded events matter."""

    def __init__(self):
        self.events, self.live = [], {}
        self.next = BASE
        self.time = 1700000000000000
        self.frames = [{"filename": "/home/somebody/" + "train" * 20 + ".py", "line": 17, "name": "step"}]

    def add(self, action, addr, size, stream):
        self.time += 7
        self.events.append(
            {
                "action": action,
                "addr": addr,
                "size": size,
                "stream": stream,
                "time_us": self.time,
                "compile_context": "N/A",
                "user_metadata": "",
                "frames": self.frames,
            }
        )

    def place(self, size, stream):
        addr, self.next = self.next, self.next + (size + 511) // 512 * 512
        self.live[addr] = (size, stream)
        return addr

    def alloc(self, size, stream=0):
        addr = self.place(size, stream)
        self.add("alloc", addr, size, stream)
        return addr

    def request(self, addr):
        self.add("free_requested", addr, *self.live[addr])

    def complete(self, addr):
        self.add("free_completed", addr, *self.live.pop(addr))

    def free(self, addr):
        self.request(addr)
        self.complete(addr)


def record():
    recorder = Recorder()
    old_freed, old_kept = recorder.place(3000000, 0), recorder.place(1000, 0)
    gone = recorder.place(512, 0)
    recorder.complete(gone)
    blocks = [recorder.alloc(20000 + 512 * i) for i in range(20)]
    recorder.add("segment_alloc", BASE + 2**30, 20971520, 0)
    side = recorder.alloc(8000000, SIDE_STREAM)
    recorder.free(old_freed)
    recorder.request(side)
    for addr in blocks[::2]:
        recorder.free(addr)
    blocks = blocks[1::2] + [recorder.alloc(30000 + 512 * i) for i in range(20)]
    recorder.complete(side)
    recorder.events.append({"action": "oom", "device_free": 5, "size": 10**12, "stream": 0, "time_us": recorder.time})
    recorder.add("snapshot", 0, 0, 0)
    for addr in blocks:
        recorder.free(addr)
    assert list(recorder.live) == [old_kept]
    return recorder


def snapshot():
    recorder = record()
    (kept, (size, stream)), = recorder.live.items()
    block = {"address": kept, "size": 1024, "requested_size": size, "state": "active_allocated", "frames": []}
    before = {"address": BASE, "size": kept - BASE, "requested_size": 0, "state": "inactive", "frames": []}
    segment = {
        "device": 1,
        "address": BASE,
        "total_size": 20971520,
        "allocated_size": 1024,
        "active_size": 1024,
        "requested_size": size,
        "stream": stream,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": recorder.frames,
        "blocks": [before, block],
    }
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.0,
        "expandable_segments": False,
        "release_lock_on_cudamalloc": True,
        "roundup_power2_divisions": {"1": 0, "2": 0},
    }
    return {
        "segments": [segment],
        "device_traces": [[], recorder.events],
        "allocator_settings": settings,
        "external_annotations": [],
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    data = snapshot()
    (folder / "pytorch_snapshot.pickle").write_bytes(pickle.dumps(data, protocol=4))
    # Without time and name the compressed file is the same each time.
    packed = gzip.compress(pickle.dumps(data, protocol=2), mtime=0)
    (folder / "pytorch_snapshot_2.pickle.gz").write_bytes(packed)


if __name__ == "__main__":
    main()

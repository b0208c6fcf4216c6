#!/usr/bin/env python3
"""Writes nsys_small.sqlite: an export of Nsight Systems with the columns that such files have, of an invented run: a range
with an allocation, a blocking copy, a kernel and a wait. With --large N: N kernels on four streams, each with its call.

Usage: make_nsys.py OUT | make_nsys.py --large N OUT
"""
import os
import sqlite3
import sys

PROCESS = 1 << 48 | 4711 << 24  # of a machine with the number 1
TABLES = """
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT, cuDevice INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER,
    globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
    contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
    bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
    globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL);
CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER NOT NULL, end INTEGER NOT NULL,
    deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER, syncType INTEGER NOT NULL,
    eventId INTEGER NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT,
    globalTid INTEGER, textId INTEGER);
"""
STRINGS = [(1, "cudaMalloc_v3020"), (2, "cudaMemcpy_v3020"), (3, "cudaLaunchKernel_ptsz_v7000"),
           (4, "cudaDeviceSynchronize_v3020"), (5, "square"), (6, "square<float>(float*)"), (7, "step"),
           (8, "not used by anything")]


def insert(file, table, rows):
    file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def small(file):
    thread = PROCESS | 7
    insert(file, "TARGET_INFO_GPU", [(0, 0, "GPU", 0)])
    insert(file, "CUPTI_ACTIVITY_KIND_RUNTIME", [
        (1100, 1150, 0, thread, 3, 1, 0), (1200, 1220, 0, thread, 4, 2, 0), (1460, 1470, 0, thread, 5, 3, 0),
        (1500, 3548, 0, thread, 6, 4, 0)])
    insert(file, "CUPTI_ACTIVITY_KIND_MEMCPY", [(1250, 1450, 0, 1, 3, 4, PROCESS, 4096, 1, 0, 2),
                                                (0, 0, 0, 1, 3, 9, PROCESS, 1, 1, 0, 2)])  # its times were not known
    insert(file, "CUPTI_ACTIVITY_KIND_KERNEL", [(1480, 3480, 0, 1, None, 3, 5, PROCESS, 6, 5, None)])
    insert(file, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", [(1510, 3540, 0, 0, 6, 4, 0)])
    insert(file, "NVTX_EVENTS", [(1050, 4050, 59, None, thread, 7), (1060, None, 34, "a mark", thread, None)])


def large(file, count):
    insert(file, "CUPTI_ACTIVITY_KIND_RUNTIME",
           [(i * 1000, i * 1000 + 300, 0, PROCESS | i % 3, i + 1, 3, 0) for i in range(count)])
    insert(file, "CUPTI_ACTIVITY_KIND_KERNEL",
           [(i * 1000 + 400, i * 1000 + 1300, 0, 1, None, i % 4, i + 1, PROCESS, 6, 5, None) for i in range(count)])


def main():
    out = sys.argv[-1]
    if os.path.exists(out):
        os.unlink(out)
    file = sqlite3.connect(out)
    file.execute("PRAGMA page_size = 512")
    file.executescript(TABLES)
    insert(file, "StringIds", STRINGS)
    if sys.argv[1] == "--large":
        large(file, int(sys.argv[2]))
    else:
        small(file)
    file.commit()
    file.close()


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at every port of a running job: noise, other versions, impossible lengths, half a
greeting, crowds, broken HTTP. The job must not notice, and the logs must say who came and why not.

Usage: hostile_test.py TROUPE [unittest arguments].
"""
import contextlib
import os
import pathlib
import random
import re
import select
import socket
import struct
import tempfile
import time
import unittest

import cluster
from cluster import DEADLINE_S, Cluster, checkpoint_hash, children_of, make_data, run_local
from cluster import write_job

EPOCHS = 20  # of 20 steps
CROWD = 50  # connections at each port
GROWTH_KB = 64 * 1024  # a small part of what the strangers announce
HANDSHAKE_S = 1  # in the job's processes; the coordinator's is 5
CLOSED_S = 30  # by then everybody has been turned away
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
VERSION = 1


def head(version, kind, header_bytes, payload_bytes):
    """A frame's fixed part; its checksum is wrong, which comes after all that is tested here."""
    return b"TRPE" + struct.pack("<HH", version, kind) + bytes(40) + struct.pack(
        "<II", header_bytes, payload_bytes) + bytes(8)


# Where links are served: what a stranger sends, and what the log says.
GREETINGS = {
    "noise": (random.Random(1).randbytes(4096), r"not with Troupe's mark"),
    "version": (head(VERSION + 98, 0, 0, 0),
                rf"the peer speaks protocol version {VERSION + 98}, this program {VERSION}"),
    "old version": (head(0, 0, 0, 0),
                    rf"the peer speaks protocol version 0, this program {VERSION}"),
    "4 GiB header": (head(VERSION, 1, 2**32 - 1, 0), r"header of 4294967295 bytes; the limit is"),
    "4 GiB payload": (head(VERSION, 1, 0, 2**32 - 1), r"payload of 4294967295 bytes; the limit is"),
    "no such type": (head(VERSION, 999, 8, 8), r"unknown type 999"),
    "checksum": (head(VERSION, 1, 8, 0) + bytes(8), r"checksum|with a payload|before the greeting"),
    "HTTP": (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
             r"an HTTP request; this port is for Troupe's links"),
    "half a head": (head(VERSION, 1, 8, 0)[:30], r"no greeting within \d+ ms, 30 bytes came"),
}
# At the pages: what a stranger sends, the status of the answer, and what the log says, if anything.
REQUESTS = {
    "noise": (random.Random(2).randbytes(4096), "408", "no whole request head"),
    "no request": (b"\0\1\2 / HTTP/9.9\r\n:::\r\n\r\n", "400", "no HTTP request"),
    "empty": (b"\r\n\r\n", "400", "no HTTP request"),
    "endless head": (b"GET / HTTP/1.1\r\nX: " + b"A" * 20_000, "431", "head is too long"),
    "frame": (head(VERSION, 1, 2**32 - 1, 2**32 - 1), "408", "no whole request head"),
    "upload": (b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999999\r\n\r\n", "4..", ""),
    "path": (b"GET /../../../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "4..", ""),
    "half a head": (b"GET /metrics HTTP/1.1\r\nHost", "408", "no whole request head"),
}


def tree_of(pids):
    """The processes and all below them."""
    found = set(pids)
    for pid in list(found):
        found |= tree_of(children_of(pid))
    return found


def listening_ports(pid):
    """The TCP ports that a process listens on."""
    inodes = set()
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(link)))
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def resident_kb(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1])


def call(port, sent, host="127.0.0.1"):
    """Connects from `host`, an address of the loopback network, and says it."""
    stranger = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S,
                                        source_address=(host, 0))
    with contextlib.suppress(OSError):  # it may be closed before all is sent
        stranger.sendall(sent)
    return stranger


def read_until_closed(strangers, seconds):
    """What each was answered before it was closed; who is still open at the end is missing."""
    heard = {stranger: b"" for stranger in strangers}
    closed = set()
    deadline = time.monotonic() + seconds
    while len(closed) < len(heard) and time.monotonic() < deadline:
        waiting = [stranger for stranger in heard if stranger not in closed]
        for stranger in select.select(waiting, [], [], 0.2)[0]:
            try:
                more = stranger.recv(65536)
            except OSError:
                more = b""
            heard[stranger] += more
            if not more:
                closed.add(stranger)
                stranger.close()
    return {stranger: heard[stranger] for stranger in closed}


class HostileTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_data(self.folder)
        self.undisturbed = run_local(self.folder, "undisturbed", EPOCHS)
        self.cluster = Cluster(self.folder, {"a": 2, "b": 2})
        self.addCleanup(self.cluster.end)

    def test_strangers_at_every_port_disturb_nobody(self):
        submitted = self.cluster.submit(write_job(self.folder, "job", EPOCHS),
                                        'train.hold="until-scraped"',
                                        f'limits.handshake_ms="{HANDSHAKE_S}s"')
        self.addCleanup(submitted.kill)
        self.wait_for_steps()
        links, pages = self.find_ports()
        # The coordinator and two parameter servers; these, two agents and two hosts.
        self.assertEqual((len(links), len(pages)), (3, 7), f"{links} {pages}")
        before = {pid: resident_kb(pid) for pid in pages}

        strangers = {**self.greet_wrongly(links, GREETINGS), **self.greet_wrongly(pages, REQUESTS)}
        heard = read_until_closed([stranger for stranger, *_ in strangers.values()], CLOSED_S)
        self.check_answers(strangers, heard)
        crowd = [call(port, b"T") for ports in (links, pages) for port in ports.values()
                 for _ in range(CROWD)]
        self.assertEqual(len(read_until_closed(crowd, CLOSED_S)), len(crowd))
        for pid, kb in before.items():
            self.assertLess(resident_kb(pid) - kb, GROWTH_KB, f"{pid} of {links} {pages}")

        while submitted.poll() is None:
            for port in pages.values():
                with contextlib.suppress(OSError):  # that process has ended
                    read_until_closed([call(port, SCRAPE)], DEADLINE_S)
        out, err = submitted.communicate(timeout=DEADLINE_S)
        self.assertEqual(submitted.returncode, 0, err + self.cluster.text())
        self.assertEqual(checkpoint_hash(self.folder / "job"), self.undisturbed)
        for name, process in self.cluster.processes.items():
            self.assertIsNone(process.poll(), name)
        self.check_log(strangers)

    def wait_for_steps(self):
        """Until the job trains."""
        deadline = time.monotonic() + DEADLINE_S
        text = ""
        while time.monotonic() < deadline:
            text = self.cluster.troupe("job", "list").communicate(timeout=DEADLINE_S)[0]
            if re.search(r" [1-9]\d*/\d+ ", text):
                return
            time.sleep(0.05)
        self.fail(f"the job never trained: {text}{self.cluster.text()}")

    def find_ports(self):
        """{process: port that speaks frames}, {process: port that speaks HTTP}."""
        found = [(pid, port)
                 for pid in tree_of(process.pid for process in self.cluster.processes.values())
                 for port in listening_ports(pid)]
        callers = {call(port, HEALTH): (pid, port) for pid, port in found}
        heard = read_until_closed(list(callers), DEADLINE_S)
        links, pages = {}, {}
        for caller, (pid, port) in callers.items():
            kind = pages if heard[caller].startswith(b"HTTP/1.1 200") else links
            self.assertNotIn(pid, kind)
            kind[pid] = port
        return links, pages

    @staticmethod
    def greet_wrongly(ports, table):
        """{(process, name): (socket, its address, its row)}; everybody has said their line. A port
        may serve again for another connection: each has a host of its own, too."""
        strangers = {}
        for pid, port in ports.items():
            for name, row in table.items():
                host = f"127.{1 + len(table)}.0.{1 + len(strangers)}"
                stranger = call(port, row[0], host)
                strangers[pid, name] = (stranger, f"{host}:{stranger.getsockname()[1]}", row)
        return strangers

    def check_answers(self, strangers, heard):
        """Everybody was closed; HTTP had its status, another version both versions."""
        for (pid, name), (stranger, _, row) in strangers.items():
            with self.subTest("answer", pid=pid, stranger=name):
                self.assertIn(stranger, heard, "still open")
                if len(row) == 3:
                    self.assertRegex(heard[stranger], b"^HTTP/1.1 " + row[1].encode() + b" ")
                elif "version" in name:
                    self.assertRegex(heard[stranger], row[1].encode())
                else:
                    self.assertEqual(heard[stranger], b"")

    def check_log(self, strangers):
        """One line for each names the peer and the reason."""
        lines = self.cluster.text().splitlines()
        for (pid, name), (_, address, row) in strangers.items():
            with self.subTest("log", pid=pid, stranger=name):
                about = [line for line in lines if re.search(rf"{address}\b", line)]
                if row[-1]:
                    self.assertEqual(len(about), 1, about)
                    self.assertRegex(about[0], row[-1])


if __name__ == "__main__":
    cluster.main()

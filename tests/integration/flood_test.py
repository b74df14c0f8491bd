#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A flood of malformed frames, handshakes and HTTP requests at every port of a cluster while its
jobs train, half of it without TLS and half under TLS. Nobody crashes or hangs, memory and logs stay
within their bounds, and every job ends in the bits of an undisturbed one. Job follows job until
all has been sent, so jobs begin and end under the flood, too.

Usage: flood_test.py TROUPE COUNT [unittest arguments]. FLOOD_SEED repeats a run's strangers.
"""
import collections
import contextlib
import functools
import os
import pathlib
import random
import re
import select
import socket
import ssl
import struct
import sys
import time

import cluster
import wire
from cluster import DEADLINE_S, ClusterCase, checkpoint_hash, run_local, troupe, write_job
from hostile_test import listening_ports, resident_kb, tree_of

COUNT = 10_000  # see the end
SEED = int(os.environ.get("FLOOD_SEED", "20261122"))
EPOCHS = 20  # of 20 steps, of each job; five times as many where the flood is long
LONG = 100_000
BATCH = 48  # connections at once at one port
WAITING = 300  # connections at once that want to see how they are turned away
# Of what strangers may fill: 64 connections that greet (pending_connections_max), each with 4 KiB
# (hello_bytes_max) of a frame, and 64 at the pages (http_connections_max), each with 12 KiB of a
# head; under TLS each has OpenSSL's two buffers of a record (17 KiB) and its handshake, 100 KiB
# with all that. These are 13 MiB. The rest is what a job's processes need for their work.
GROWTH_KB = 48 * 1024
LINES = 50  # that one budget of a process's log (base/log.h) writes in WINDOW_S seconds
WINDOW_S = 10
BUDGETS = 4  # of one process: greetings, pages, links that break, messages that are not taken
TOKEN = "a-word-that-nobody-of-the-flood-knows"
AGENT = ("agent", 0)
METHODS = [b"GET", b"POST", b"PUT", b"DELETE", b"TRACE", b"CONNECT", b"get", b"G\0T", b"PRI", b""]
PATHS = [b"/metrics", b"/healthz", b"/sd/targets", b"/", b"*", b"/../../etc/passwd", b"//", b"/%00",
         b"http://other/metrics", b"/" + b"a" * 3_000]


def epochs():
    return EPOCHS * 5 if COUNT > LONG else EPOCHS


def sealed(head, header, payload=b""):
    """A frame whose checksum fits whatever was done to it."""
    return head[:-4] + struct.pack("<I", wire.crc32c(head[:-4] + header)) + header + payload


@functools.cache
def corpus():
    """Whole frames of many kinds; none of them may do anything here."""
    return [
        wire.hello(AGENT, name="flood"), wire.hello(("deviceServer", 0), "flood", 1),
        wire.hello(("worker", 3), "flood", 7, lane=1, lanes=2, resume=True),
        wire.frame("pong", "number=1", sequence=1),
        wire.frame("agentHello", 'name="flood",version="none",slots=1', sequence=1),
        wire.frame("jobStop", 'id="nobody"', sequence=1),
        wire.frame("jobQuery", "", sequence=1),
        wire.frame("gradientPush", "slice=(key=0,slice=0),node=(level=1,group=0,begin=0,end=2),"
                   "step=3,count=32", "flood", 1, 1, 1, ("deviceServer", 0),
                   ("parameterServer", 0), bytes(256)),
        wire.frame("weightPull", "slice=(key=0,slice=0),version=3", "flood", 1, 1, 1,
                   ("deviceServer", 0), ("parameterServer", 0)),
        wire.frame("goodbye", 'text="flood"', sequence=1),
        wire.frame("jobEnd", 'code=internal,text="flood"', sequence=1)]


class Strangers:
    """Makes what the flood sends. A kind gives (bytes, whether the port must close by itself)."""

    def __init__(self, noise, recorded):
        self.noise = noise
        self.recorded = recorded  # frames that a real agent has sent
        self.hellos = self.make_hellos()

    @staticmethod
    def make_hellos():
        """Greetings of TLS 1.3 as OpenSSL makes them."""
        made = []
        for _ in range(50):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            out = ssl.MemoryBIO()
            with contextlib.suppress(ssl.SSLWantReadError):
                context.wrap_bio(ssl.MemoryBIO(), out).do_handshake()
            made.append(out.read())
        return made

    def flip(self, data, most=8):
        changed = bytearray(data)
        for _ in range(self.noise.randint(1, most)):
            changed[self.noise.randrange(len(changed))] ^= 1 << self.noise.randrange(8)
        return bytes(changed)

    # ---- frames ----

    def damaged_frame(self):
        """Of a real frame, some bits; the checksum does not fit. Lengths may promise more."""
        return self.flip(self.noise.choice(self.recorded + corpus())), False

    def forged_frame(self):
        """The header's bits change, and the checksum fits."""
        frame = self.noise.choice(corpus())
        head, header = frame[:wire.HEAD.size], frame[wire.HEAD.size:]
        return sealed(head, self.flip(header)), False

    def forged_head(self):
        """Numbers of the fixed part, with a checksum that fits."""
        frame = self.noise.choice(corpus())
        fields = list(wire.HEAD.unpack(frame[:wire.HEAD.size]))
        where = self.noise.randrange(1, len(fields) - 1)
        size = (2, 2, 8, 8, 8, 8, 8, 4, 4, 4)[where - 1]
        fields[where] = self.noise.choice([0, 1, 2**(8 * size) - 1,
                                           self.noise.getrandbits(8 * size)])
        return sealed(wire.HEAD.pack(*fields), frame[wire.HEAD.size:]), False

    def cut_frame(self):
        frame = self.noise.choice(self.recorded + corpus())
        return frame[:self.noise.randrange(1, len(frame))], False

    def spliced_frames(self):
        """Several frames, none of which fits its place; one is cut in the middle."""
        frames = self.noise.choices(self.recorded + corpus(), k=4)
        return frames[0][:self.noise.randrange(8, 64)] + b"".join(frames[1:]), False

    def greeted(self):
        """A Hello, whoever says it, and damage behind it."""
        return self.noise.choice(corpus()[1:3]) + self.damaged_frame()[0], False

    def junk(self):
        return b"\xff" + self.noise.randbytes(self.noise.randint(80, 2_000)), True

    # ---- handshakes ----

    def cut_greeting(self):
        greeting = self.noise.choice(self.hellos)
        return greeting[:self.noise.randrange(1, len(greeting))], False

    def damaged_greeting(self):
        return self.flip(self.noise.choice(self.hellos)), False

    def record(self, kind=None):
        """A right head, and noise."""
        size = self.noise.randint(1, 600)
        kind = kind or self.noise.choice([20, 21, 22, 23, 24, 0, 255])
        version = self.noise.choice([b"\3\1", b"\3\3", b"\3\4", b"\0\2"])
        return bytes([kind]) + version + struct.pack(">H", size) + self.noise.randbytes(size), False

    def vast_record(self):
        return b"\x16\3\1\xff\xff" + self.noise.randbytes(400), False

    def greeting_and_noise(self):
        """A right greeting, then records that nobody has a key for."""
        return self.noise.choice(self.hellos) + self.record(20)[0] + self.record(23)[0], False

    def crumbs(self):
        """A greeting in records of a few bytes each."""
        body, step = self.noise.choice(self.hellos)[5:], self.noise.randint(1, 40)
        return b"".join(b"\x16\3\1" + struct.pack(">H", len(body[at:at + step])) +
                        body[at:at + step] for at in range(0, len(body), step))[:-1], False

    # ---- requests ----

    def request(self):
        """A whole head, wrong in its own way."""
        version = self.noise.choice([b"HTTP/1.1", b"HTTP/9.9", b"HTTP/1.0", b"", b"\0"])
        lines = [b" ".join([self.noise.choice(METHODS), self.noise.choice(PATHS), version])]
        for _ in range(self.noise.randint(0, 6)):
            lines.append(self.noise.choice([
                b"Host: x", b"Content-Length: -1", b"Content-Length: 99999999999999999999", b": x",
                b"Transfer-Encoding: chunked", b"Authorization: Bearer " + self.noise.randbytes(30),
                b"Range: bytes=0-,0-,0-", b"X" * 500, b"\0\xff: \r", b"Expect: 100-continue"]))
        return b"\r\n".join(lines) + b"\r\n\r\n", True

    def pipelined(self):
        return b"".join(self.request()[0] for _ in range(8)), True

    def huge_head(self):
        return b"GET /metrics HTTP/1.1\r\nX: " + b"A" * self.noise.randint(9_000, 40_000), True

    def half_request(self):
        whole = self.request()[0]
        return whole[:self.noise.randrange(1, len(whole))], False

    def upload(self):
        return b"POST /metrics HTTP/1.1\r\nContent-Length: 9999\r\n\r\n" + bytes(5_000), True

    FRAMES = (damaged_frame, forged_frame, forged_head, cut_frame, spliced_frames, greeted, junk)
    HANDSHAKES = (cut_greeting, damaged_greeting, record, vast_record, greeting_and_noise, crumbs)
    REQUESTS = (request, pipelined, huge_head, half_request, upload)

    def make(self, at_links):
        """Mostly what belongs to the port, sometimes what belongs elsewhere."""
        own = self.FRAMES + self.HANDSHAKES if at_links else self.REQUESTS + self.HANDSHAKES
        kinds = self.noise.choices((own, self.FRAMES + self.REQUESTS), (9, 1))[0]
        kind = self.noise.choice(kinds)
        data, closes = kind(self)
        # Somebody who speaks another protocol may have said too little to be judged.
        return kind.__name__, data, closes and (kind in self.REQUESTS) != at_links


class FloodTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        print(f"FLOOD_SEED={SEED}", flush=True)
        cls.undisturbed = run_local(cls.folder, "undisturbed", epochs())

    def setUp(self):
        self.noise = random.Random(f"{SEED} {self.id()}")
        self.sent = collections.Counter()
        self.waiting = {}  # connection -> port, what it sent, until when it may stay
        self.deaf = []
        self.hosts = 0
        self.growth_kb = {}

    def record_agent(self):
        """Frames that a real agent sends to whom it takes for its coordinator."""
        with socket.create_server(("127.0.0.1", 0)) as gate:
            gate.settimeout(DEADLINE_S)
            recorder = self.made.start("recorded", "agent", "--join",
                                       f"127.0.0.1:{gate.getsockname()[1]}", "--name", "recorded")
            peer, _ = gate.accept()
            frames = []
            with peer:
                peer.settimeout(DEADLINE_S)
                for _ in range(3):
                    head = wire.receive(peer, wire.HEAD.size)
                    sizes = wire.HEAD.unpack(head)
                    frames.append(head + wire.receive(peer, sizes[8] + sizes[9]))
                    if len(frames) == 1:
                        peer.sendall(wire.frame("helloReply", f"protocol={wire.VERSION}"))
        recorder.terminate()
        recorder.wait(timeout=DEADLINE_S)
        del self.made.processes["recorded"]
        return frames

    def find_ports(self):
        """[(port, whether links are served there)] of all processes: who serves pages says so at
        /sd/targets, or is asked."""
        found = []
        for pid in tree_of(process.pid for process in self.made.processes.values()):
            with contextlib.suppress(OSError):  # it has ended since
                found += [(port, self.serves_links(port)) for port in sorted(listening_ports(pid))]
        return found

    def serves_links(self, port):
        """Pages answer who asks for /healthz, under TLS or without."""
        with contextlib.ExitStack() as open_ones, contextlib.suppress(OSError):
            peer = open_ones.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S))
            if self.tls:
                peer = open_ones.enter_context(self.tls.wrap_socket(peer))
            peer.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            return not peer.recv(100).startswith(b"HTTP/1.1 200")
        return True

    def call(self, port):
        """From addresses in turn: the system keeps those of closed connections for a minute."""
        self.hosts += 1
        host = ".".join(map(str, (127, 60 + self.hosts // 60_000 % 100, self.hosts // 250 % 240,
                                  1 + self.hosts % 250)))
        peer = socket.socket()
        peer.settimeout(DEADLINE_S)
        peer.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        peer.bind((host, 0))
        peer.connect(("127.0.0.1", port))
        return peer

    def pour(self, port, at_links, strangers, count):
        """One batch at one port: some leave at once, some break off, some wait for an answer."""
        for _ in range(count):
            name, data, closes = strangers.make(at_links)
            try:
                peer = self.call(port)
            except OSError:
                return  # that process has ended
            with contextlib.suppress(OSError):  # it may be closed before all is sent
                peer.settimeout(1)
                peer.sendall(data)
            self.sent[name] += 1
            if closes and self.noise.random() < 0.5:
                self.waiting[peer] = (port, name, time.monotonic() + DEADLINE_S)
                continue
            if self.noise.random() < 0.5:  # reset
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        self.hear(WAITING)

    def hear(self, most):
        """Until no more than `most` wait to be turned away."""
        while True:
            poller = select.poll()
            by_number = {peer.fileno(): peer for peer in self.waiting}
            for number in by_number:
                poller.register(number, select.POLLIN)
            for number, _ in poller.poll(0 if len(self.waiting) <= most else 100):
                try:
                    more = by_number[number].recv(65_536)
                except OSError:
                    more = b""
                if not more:
                    by_number[number].close()
                    del self.waiting[by_number[number]]
            for peer in [each for each in self.waiting
                         if time.monotonic() > self.waiting[each][2]]:
                self.deaf.append(self.waiting.pop(peer)[:2])
                peer.close()
            if len(self.waiting) <= most:
                return

    def drip(self, slow, ports):
        """Slow writers: some at every port all the time, a byte now and then."""
        for peer in list(slow):
            try:
                peer.send(self.noise.choice([b"T", b"\x16", b"G", b"\0"]))
            except OSError:
                slow.remove(peer)
                peer.close()
        for port, _ in ports:
            if len(slow) < 6 * len(ports):
                with contextlib.suppress(OSError):
                    slow.append(self.call(port))
                    self.sent["slow"] += 1

    def flood(self, job, strangers, wanted):
        """Until `wanted` are sent in all or the job has ended."""
        ports = self.find_ports()
        self.assertGreaterEqual(len(ports), 5, self.made.text()[-3_000:])
        self.assertEqual(len([port for port, links in ports if links]), 3, ports)
        for pid in tree_of(process.pid for process in self.made.processes.values()):
            self.begin_memory(pid)
        slow = []
        while job.poll() is None and sum(self.sent.values()) < wanted:
            for port, at_links in ports:
                self.pour(port, at_links, strangers,
                          min(BATCH, max(wanted - sum(self.sent.values()), 0)))
            self.drip(slow, ports)
            self.look_at_memory()
        for peer in slow:
            peer.close()
        self.hear(0)

    def begin_memory(self, pid):
        """From now on the system keeps the process's peak."""
        if pid in self.growth_kb:
            return
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")
            self.growth_kb[pid] = (resident_kb(pid), 0)

    def look_at_memory(self):
        for pid, (before, most) in self.growth_kb.items():
            with contextlib.suppress(OSError, TypeError):  # it has ended
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                peak = int(re.search(r"VmHWM:\s+(\d+)", status)[1])
                self.growth_kb[pid] = (before, max(most, peak - before))

    def run_flood(self, **how):
        self.made = self.cluster({"a": 2, "b": 2}, **how)
        strangers = Strangers(self.noise, self.record_agent() if not self.tls else corpus())
        begun = time.monotonic()
        jobs = 0
        while sum(self.sent.values()) < COUNT // 2:
            jobs += 1
            name = f"flooded{jobs}-{'tls' if self.tls else 'plain'}"
            job = self.made.submit(write_job(self.folder, name, epochs()), name=name)
            self.addCleanup(job.kill)
            self.made.wait_status(name, r"steps? +[1-9]|step +[1-9]")
            self.flood(job, strangers, COUNT // 2)
            out, err = job.communicate(timeout=DEADLINE_S)
            self.assertEqual(job.returncode, 0, out + err + self.made.text()[-5_000:])
            self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)
        seconds = time.monotonic() - begun
        self.look_at_memory()
        self.check(jobs, seconds)

    def check(self, jobs, seconds):
        lines = self.made.text().count("\n")
        growth = sorted(most for _, most in self.growth_kb.values())
        print(f"{sum(self.sent.values())} strangers in {seconds:.0f} s, {jobs} jobs: "
              f"{dict(self.sent)}; {lines} lines of logs; growth of memory in KiB: {growth}",
              flush=True)
        self.assertEqual(self.deaf, [])
        for name, process in self.made.processes.items():
            self.assertIsNone(process.poll(), name)
        self.assertLess(max(growth), GROWTH_KB, growth)
        self.assertLess(lines, len(self.growth_kb) * BUDGETS * LINES * (seconds / WINDOW_S + 1))
        done = self.made.troupe("job", "list")
        self.assertEqual(done.communicate(timeout=DEADLINE_S)[1], "")
        self.assertEqual(done.returncode, 0)
        for port, at_links in self.find_ports():  # links there, pages here: all still serve
            self.assertEqual(at_links, port == int(self.made.address.rsplit(":", 1)[1]))

    def test_without_tls(self):
        self.tls = None
        self.run_flood()

    def test_under_tls(self):
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.tls.check_hostname, self.tls.verify_mode = False, ssl.CERT_NONE
        folder = self.folder / "ca"
        troupe("ca", "init", folder, "--cluster", "lab").check_returncode()
        people = {"coordinator": ("coordinator", "main"), "a": ("agent", "a"), "b": ("agent", "b"),
                  "person": ("person", "ann"), "pages": ("coordinator", "pages")}
        files = {}
        for each, (role, name) in people.items():
            files[each] = self.folder / f"{each}.pem"
            troupe("ca", "issue", folder, role, name, "--out", files[each]).check_returncode()
        token = self.folder / "token"
        token.touch(0o600)
        token.write_text(TOKEN)
        self.run_flood(identities=files, options=["--metrics-tls", files["pages"],
                                                  "--metrics-token", token])


if __name__ == "__main__":
    COUNT = int(sys.argv.pop(2))
    cluster.main()

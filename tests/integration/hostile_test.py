#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Strangers at every port of a running job: noise, other versions, impossible lengths, half a
greeting, crowds, broken HTTP; and those who know the protocol and the job, but not its secret. The
job must not notice, and the logs must say who came and why not.

Usage: hostile_test.py TROUPE [unittest arguments].
"""
import contextlib
import itertools
import os
import pathlib
import random
import re
import resource
import select
import socket
import struct
import tempfile
import time
import unittest

import cluster
import wire
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


# Who knows everything of a job but its secret. What they do at a parameter server (connection, job,
# port's own actor), and what its log says of it.
DEVICE_SERVER = ("deviceServer", 0)
NOT_PROVED = r"it says that it is .* and does not prove it"


def prove_badly(peer, actor, job, server, secret=b"\x07" * 16, **said):
    """A whole greeting under another secret; gives the answer's text."""
    generation = said.pop("generation", 1)
    peer.sendall(wire.hello(actor, job, generation, **said))
    name, envelope = wire.hear(peer)
    assert name == "challenge", envelope
    peer.sendall(wire.proof(secret, wire.challenge_in(envelope), server, actor, job, generation))
    return wire.hear(peer)


def forge(peer, job, name, fields, sender, payload=b""):
    """Greets, and goes on as if it were believed."""
    peer.sendall(wire.hello(DEVICE_SERVER, job, 1))
    wire.hear(peer)
    peer.sendall(wire.frame(name, fields, job, 1, 1, 1, sender, ("parameterServer", 0), payload))


PUSH = "slice=(key=0,slice=0),node=(level=1,group=0,begin=0,end=2),step=3,count=32"
IMPOSTORS = {
    "wrong secret": (lambda peer, job, server: prove_badly(peer, DEVICE_SERVER, job, server),
                     NOT_PROVED),
    "no secret": (lambda peer, job, server: prove_badly(peer, DEVICE_SERVER, job, server,
                                                        bytes(16)), NOT_PROVED),
    "wrong actor": (lambda peer, job, server: prove_badly(peer, ("deviceServer", 4_000_000), job,
                                                          server), NOT_PROVED),
    "a worker": (lambda peer, job, server: prove_badly(peer, ("worker", 0), job, server),
                 NOT_PROVED),
    "the coordinator": (lambda peer, job, server: prove_badly(peer, ("coordinator", 0), job,
                                                              server), NOT_PROVED),
    "another job": (lambda peer, job, server: prove_badly(peer, DEVICE_SERVER, "other", server),
                    NOT_PROVED),
    "another run": (lambda peer, job, server: prove_badly(peer, DEVICE_SERVER, job, server,
                                                          generation=9), NOT_PROVED),
    "a resumed link": (lambda peer, job, server: prove_badly(peer, DEVICE_SERVER, job, server,
                                                             resume=True), NOT_PROVED),
    "close": (lambda peer, job, server: peer.sendall(wire.hello(DEVICE_SERVER, job, 1)),
              r"it went after \d+ bytes of its greeting"),
    "second Hello": (lambda peer, job, server: peer.sendall(
        2 * wire.hello(DEVICE_SERVER, job, 1)), r"a Hello before the greeting"),
    "goodbye": (lambda peer, job, server: forge(peer, job, "goodbye", 'text="bye"', DEVICE_SERVER),
                r"a Goodbye before the greeting"),
    "pull": (lambda peer, job, server: forge(
        peer, job, "weightPull", f"slice=(key=0,slice=0),version={2**64 - 1}", DEVICE_SERVER),
             r"a WeightPull before the greeting"),
    "push": (lambda peer, job, server: forge(peer, job, "gradientPush", PUSH, DEVICE_SERVER),
             r"a GradientPush before the greeting"),
    "forged from": (lambda peer, job, server: forge(
        peer, job, "gradientPush", PUSH, ("deviceServer", 1)),
                    r"a GradientPush before the greeting"),
    "forged JobEnd": (lambda peer, job, server: forge(
        peer, job, "jobEnd", 'code=internal,text="forged"', ("coordinator", 0)),
                      r"a JobEnd before the greeting"),
    "forged Placement": (lambda peer, job, server: forge(
        peer, job, "placement", "view=9", ("coordinator", 0)), r"a Placement before the greeting"),
    "hold": (lambda peer, job, server: peer.sendall(wire.hello(DEVICE_SERVER, job, 1)),
             r"no greeting within \d+ ms"),
}
AGENT = ("agent", 0)
# What people without business do at the coordinator's port: bytes, and what its log says.
CALLERS = {
    "mute": (lambda version: [], r"said nothing but Hello for \d+ ms"),
    "garbage": (lambda version: [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + bytes(64)],
                r"an HTTP request; this port is for Troupe's links"),
    "forged JobEnd": (lambda version: [wire.frame("jobEnd", "code=ok", sequence=1)],
                      r"the coordinator does not take that"),
    "another job's": (lambda version: [wire.frame("jobQuery", "", "x", 1, sequence=1)],
                      r"a JobQuery of job 'x' generation 1 on a link of job '' generation 0"),
    "endless slots": (lambda version: [wire.frame(
        "agentHello", f'name="e",version="{version}",slots={2**32 - 1}', sequence=1)],
                      r"agent 'e' offers 4294967295 worker slots; the limit is 4096"),
    "a GPU beyond all": (lambda version: [wire.frame(
        "agentHello", f'name="e",version="{version}",gpus=[(index={2**32 - 1},memoryBytes=1)]',
        sequence=1)], r"agent 'e' offers GPU 4294967295: indices are from 0 to 63"),
    "GPUs without end": (lambda version: [wire.frame(
        "agentHello", f'name="e",version="{version}",gpus=[{",".join(["(index=0)"] * 65)}]',
        sequence=1)], r"gpus has length 65; the limit is 64"),
    "a page elsewhere": (lambda version: [wire.frame(
        "agentHello", f'name="e",version="{version}",slots=1,httpAddress="169.254.169.254:80"',
        sequence=1)], r"'169.254.169.254:80' is no address of 127"),
}
KEPT = 1_100  # greetings; the coordinator has 1,024 places


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
        for stranger, *_ in strangers.values():
            stranger.close()
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

    def test_who_does_not_know_the_secret_disturbs_nobody(self):
        submitted = self.cluster.submit(write_job(self.folder, "job", EPOCHS),
                                        'train.hold="until-scraped"', name="victim")
        self.addCleanup(submitted.kill)
        self.wait_for_steps()
        links, pages = self.find_ports()
        coordinator = links.pop(self.cluster.coordinator.pid)
        servers = {self.shard_of(pid): port for pid, port in links.items()}
        self.assertEqual(sorted(servers), [0, 1])
        lines = {}
        kept = []
        for shard, port in servers.items():
            for number, (name, (act, line)) in enumerate(IMPOSTORS.items()):
                host = f"127.{20 + shard}.0.{1 + number}"
                peer = wire.connect(port, host)
                answer = act(peer, "victim", ("parameterServer", shard))
                lines[f"{host}:{peer.getsockname()[1]}"] = (name, line)
                if line == NOT_PROVED:
                    with self.subTest("refusal", name=name):
                        self.assertEqual(answer[0], "helloReply")
                        self.assertIn("permissionDenied", answer[1])
                        self.assertNotIn("victim", answer[1])
                        self.assertIn("generation = 0", answer[1])
                if name == "close":
                    peer.close()
                else:
                    kept.append(peer)
        kept += self.call_coordinator(coordinator, lines)
        heard = read_until_closed(kept, CLOSED_S)
        self.assertEqual(len(heard), len(kept))
        for data in heard.values():  # nothing but what greets and turns away
            names, rest = wire.frames_in(data)
            self.assertLessEqual(set(names), {"challenge", "helloReply", "jobEnd", "goodbye",
                                              "acknowledgement", "ping"})
            self.assertEqual(rest, b"")
            self.assertNotIn(b"victim", data)
        while submitted.poll() is None:
            for port in pages.values():
                with contextlib.suppress(OSError):  # that process has ended
                    read_until_closed([call(port, SCRAPE)], DEADLINE_S)
        out, err = submitted.communicate(timeout=DEADLINE_S)
        self.assertEqual(submitted.returncode, 0, err + self.cluster.text())
        self.assertEqual(checkpoint_hash(self.folder / "job"), self.undisturbed)
        about = self.cluster.lines_about(lines)
        for address, (name, line) in lines.items():
            with self.subTest("log", stranger=name, address=address):
                self.assertEqual(len(about[address]), 1, about[address])
                self.assertRegex(about[address][0], line)

    def call_coordinator(self, port, lines):
        """Everybody has greeted and said their line."""
        version = cluster.troupe("version").stdout.split()[1]
        peers = []
        for number, (name, (said, line)) in enumerate(CALLERS.items()):
            host = f"127.30.0.{1 + number}"
            peer = wire.connect(port, host)
            peer.sendall(wire.hello(AGENT, name="e", token=1_000 + number))
            self.assertEqual(wire.hear(peer)[0], "helloReply")
            for data in said(version):
                peer.sendall(data)
            lines[f"{host}:{peer.getsockname()[1]}"] = (name, line)
            peers.append(peer)
        return peers

    @staticmethod
    def shard_of(pid):
        """Which parameter server a process is."""
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        return int(words[words.index("--index") + 1])

    def test_the_secret_stands_nowhere_in_proc(self):
        submitted = self.cluster.submit(write_job(self.folder, "job", EPOCHS), name="victim")
        self.addCleanup(submitted.kill)
        self.wait_for_steps()
        known = {"--job", "--generation", "--role", "--index", "--name", "--listen", "--pages"}
        seen = 0
        for name in ("a", "b"):
            agent = self.cluster.processes[name].pid
            for pid, words in children_of(agent).items():
                self.assertEqual({word for word in words if word.startswith("--")}, known)
                ours = pathlib.Path(f"/proc/{agent}/environ").read_bytes().split(b"\0")
                theirs = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                other = (b"OMP_", b"CUDA_VISIBLE_DEVICES=", b"CUDA_DEVICE_ORDER=")  # of an agent
                self.assertLessEqual({word for word in theirs if not word.startswith(other)},
                                     set(ours))
                self.assertIn(b"CUDA_VISIBLE_DEVICES=", theirs)  # a job on CPUs sees no GPU
                seen += 1
        self.assertEqual(seen, 4)
        self.cluster.troupe("job", "stop", "victim").communicate(timeout=DEADLINE_S)

    def test_greetings_alone_keep_no_place(self):
        port = int(self.cluster.address.rsplit(":", 1)[1])
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4_096), most))
        first = wire.hello(AGENT, name="crowd", token=2**40)
        kind = struct.unpack_from("<H", first, 6)[0]
        crowd = []
        for token in range(2**40, 2**40 + KEPT):
            header = first[wire.HEAD.size:].replace(struct.pack("<Q", 2**40),
                                                    struct.pack("<Q", token))
            peer = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
            with contextlib.suppress(OSError):  # the last ones are turned away
                peer.sendall(wire.seal(kind, header))
            crowd.append(peer)
        alive = wire.frame("pong", "number=1")
        deadline = time.monotonic() + DEADLINE_S
        served = False
        while not served and time.monotonic() < deadline:
            for peer in crowd:
                with contextlib.suppress(OSError):  # it has been turned away
                    peer.sendall(alive)
            done = self.cluster.troupe("job", "list")
            done.communicate(timeout=DEADLINE_S)
            served = done.returncode == 0
        self.assertTrue(served, self.cluster.text()[-2_000:])
        for peer in crowd:
            peer.close()

    def test_who_asks_and_reads_nothing_is_cut_off(self):
        job = write_job(self.folder, "waits", EPOCHS)
        for number in range(30):  # for more machines than there are
            done = self.cluster.troupe("job", "submit", job, "--id", f"waits{number}",
                                       "--set", "workers.machines=40")
            done.communicate(timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0)
        port = int(self.cluster.address.rsplit(":", 1)[1])
        pid = self.cluster.coordinator.pid
        before = resident_kb(pid)
        one = wire.frame("jobQuery", "", sequence=1)
        kind, header = struct.unpack_from("<H", one, 6)[0], one[wire.HEAD.size:]
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        peer.settimeout(DEADLINE_S)
        peer.connect(("127.0.0.1", port))
        peer.sendall(wire.hello(AGENT, name="deaf"))
        with self.assertRaises(OSError):
            deadline = time.monotonic() + DEADLINE_S
            for sequence in itertools.count(1):
                self.assertLess(time.monotonic(), deadline)
                peer.sendall(wire.seal(kind, header, sequence=sequence))
        peer.close()
        self.assertLess(resident_kb(pid) - before, 64_000)
        self.cluster.wait_for("coordinator", "asks and reads no answers")

    def test_a_link_of_many_connections_keeps_no_places(self):
        port = int(self.cluster.address.rsplit(":", 1)[1])
        crowd = []
        for token in range(1, 18):
            peer = wire.connect(port)
            peer.sendall(wire.hello(AGENT, name="wide", token=token, lanes=64))
            crowd.append(peer)
        done = self.cluster.troupe("job", "list")
        done.communicate(timeout=DEADLINE_S)
        self.assertEqual(done.returncode, 0)
        for peer in crowd:
            peer.close()

    def test_a_false_coordinator_reaches_no_file(self):
        """An agent obeys whoever sits on its coordinator's port: what can it be made to do?"""
        precious = self.folder / "precious"
        precious.write_text("hunter2")
        place = self.folder / "place"
        place.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as gate:
            self.cluster.start("c", "agent", "--join", f"127.0.0.1:{gate.getsockname()[1]}",
                               "--name", "c", "--checkpoint-root", place)
            gate.settimeout(DEADLINE_S)
            agent, _ = gate.accept()
            agent.settimeout(DEADLINE_S)
            self.assertEqual(wire.hear(agent)[0], "hello")
            agent.sendall(wire.frame("helloReply", f"protocol={VERSION}"))
            self.assertEqual(wire.hear(agent)[0], "agentHello")
            (place / ".probe-link").symlink_to(precious)
            probes = [(place, str(precious), "x", "true"), (place, str(precious), "", "true"),
                      (place, "../precious", "x", "true"), (place, "../precious", "", "true"),
                      (self.folder, "precious", "x", "true"), (self.folder, "precious", "", "true"),
                      (self.folder, ".probe-x", "x", "true"), (place, ".probe-x", "a b", "true"),
                      (place, ".probe-link", "hunter2", "false"),
                      (self.folder / "new", ".probe-x", "x", "true")]
            for number, (path, file, nonce, write) in enumerate(probes, 1):
                with self.subTest(path=path, file=file):
                    agent.sendall(wire.frame(
                        "folderProbe", f'job="j",generation=1,path="{path}",file="{file}",'
                        f'nonce="{nonce}",write={write}', sequence=number))
                    name = text = ""
                    while name != "folderProbeResult":
                        name, text = wire.hear(agent)
                    self.assertNotIn("code = ok", text)
                    self.assertNotIn("hunter2", text)
            agent.close()
        self.assertEqual(precious.read_text(), "hunter2")
        self.assertEqual([path.name for path in place.iterdir()], [".probe-link"])
        self.assertFalse((self.folder / "new").exists())
        self.assertFalse((self.folder / ".probe-x").exists())

    def test_errors_quote_no_file_and_roots_bound_what_jobs_open(self):
        """A job may name any file that agents may read, and hears what is wrong with it."""
        secret = self.folder / "secret"
        secret.write_bytes(b"hunter2-hunter2\n" * 100)
        jobs = {}
        for name in ("index", "records", "weights"):
            folder = self.folder / name
            folder.mkdir()
            for file in ("train.rec", "train.idx", "test.rec", "test.idx"):
                (folder / file).write_bytes((self.folder / file).read_bytes())
            jobs[name] = write_job(self.folder, name, 1)
            text = jobs[name].read_text().replace(f'"{self.folder}/t', f'"{folder}/t')
            jobs[name].write_text(text.replace(f'"{folder}"', f'"{folder}/out"'))
        for folder, file in (("index", "train.idx"), ("records", "train.rec")):
            (self.folder / folder / file).unlink()
            (self.folder / folder / file).symlink_to(secret)
        (self.folder / "records" / "train.idx").write_text("0\t0\n1\t4\n")
        for name, job in jobs.items():
            settings = [f"train.weights={secret}"] if name == "weights" else []
            done = self.cluster.submit(job, *settings)
            out, err = done.communicate(timeout=DEADLINE_S)
            with self.subTest(name=name):
                self.assertEqual(done.returncode, 1, err)
                shown = out + err + self.cluster.text()
                for quoted in ("hunter", "0x746e7568", hex(0x746e7568)[2:],
                               str(int.from_bytes(b"hunter2-", "little"))):
                    self.assertNotIn(quoted, shown)
        self.cluster.end()
        data = self.folder / "data"
        data.mkdir()
        for file in ("train.rec", "train.idx", "test.rec", "test.idx"):
            (data / file).write_bytes((self.folder / file).read_bytes())
        bounded = Cluster(self.folder, {"a": 4},
                          options=["--data-root", data, "--checkpoint-root", data])
        self.addCleanup(bounded.end)
        inside = (f"data.train={data}/train.rec", f"data.test={data}/test.rec")
        for settings, refused in (((), "train.rec"), (inside, "job"),
                                  ((*inside, f"checkpoint.dir={data}/out"), None)):
            done = bounded.submit(write_job(self.folder, "job", 1), *settings)
            err = done.communicate(timeout=DEADLINE_S)[1]
            with self.subTest(settings=settings):
                self.assertEqual(done.returncode, 1 if refused else 0, err)
                if refused:
                    # Without settings several are outside; which one is told first is open.
                    outside = f"{self.folder}/{refused}" if settings else f"{self.folder}/"
                    self.assertRegex(
                        err, r"(the coordinator|machine 'a').* --(data|checkpoint)-root "
                        rf"{data}: {outside}[a-z.]*: lies outside of ")

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
        expected = {address: (pid, name, row[-1])
                    for (pid, name), (_, address, row) in strangers.items() if row[-1]}
        about = self.cluster.lines_about(expected)
        for address, (pid, name, line) in expected.items():
            with self.subTest("log", pid=pid, stranger=name):
                self.assertEqual(len(about[address]), 1, about[address])
                self.assertRegex(about[address][0], line)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the integration tests share: data, job files, and a cluster of real processes on loopback.

Every wait has a deadline; what a test starts, it ends. A test file's last line is `cluster.main()`.
"""
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import time
import unittest

TROUPE = ""  # the program; see main()
DEADLINE_S = 600  # only what hangs takes so long, however busy the machine is

JOB = """
name = "tiny"
seed = 11
[model]
network = "tiny-bn"
classes = 10
[data]
train = "{data}/train.rec"
test = "{data}/test.rec"
mean = [0.5]
std = [0.25]
batch = 8
[train]
epochs = {epochs}
log_every = "4 steps"
optimizer = {{ name = "sgd", lr = 0.05, momentum = 0.9, wd = 1e-4 }}
schedule = {{ name = "cosine" }}
[workers]
machines = 2
devices = 2
threads = 1
[checkpoint]
dir = "{out}"
every = "10 steps"
keep = 0
"""


def troupe(*words):
    """Runs the program to its end; its output is text."""
    return subprocess.run([TROUPE, *map(str, words)], capture_output=True, text=True,
                          timeout=DEADLINE_S)


def write_idx(path, shape, values):
    head = struct.pack(">BBBB", 0, 0, 8, len(shape)) + b"".join(struct.pack(">I", n) for n in shape)
    path.write_bytes(head + values)


def make_data(folder):
    """640 + 80 images of noise, packed."""
    files = {}
    for name, count in (("train", 640), ("test", 80)):
        state = 12345 + count
        values = bytearray()
        for _ in range(count * 28 * 28):
            state = (state * 1103515245 + 12345) & 0x7FFFFFFF
            values.append(state >> 23)
        files[name] = (folder / f"{name}-images", folder / f"{name}-labels")
        write_idx(files[name][0], (count, 28, 28), bytes(values))
        write_idx(files[name][1], (count,), bytes(i * 7 % 10 for i in range(count)))
    troupe("data", "pack", "idx", "--images", files["train"][0], "--labels", files["train"][1],
           "--test-images", files["test"][0], "--test-labels", files["test"][1],
           "--out", folder).check_returncode()


def children_of(pid):
    """{pid: command line} of a process's children."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            if parent == pid:
                found[int(entry.name)] = (entry / "cmdline").read_bytes().decode().split("\0")
        except (OSError, IndexError):
            continue
    return found


def write_job(folder, name, epochs):
    """A job file whose checkpoints go to `folder / name`."""
    path = folder / f"{name}.toml"
    path.write_text(JOB.format(data=folder, out=folder / name, epochs=epochs))
    return path


def checkpoint_hash(folder):
    done = troupe("checkpoint", "hash", folder)
    done.check_returncode()
    return done.stdout.strip()


def run_local(folder, name, epochs):
    """The hash that write_job's job ends with in one process."""
    troupe("run", write_job(folder, name, epochs)).check_returncode()
    return checkpoint_hash(folder / name)


class Cluster:
    """A coordinator and agents; ends them all."""

    def __init__(self, folder, agents, limits="", options=(), agent_options=(), identities=None,
                 address="127.0.0.1:0", places=None, metrics=None, coordinator_options=()):
        """`agents`: {name: slots}; `limits`: the text of a limits file for all; `options`: more
        words for the coordinator and every agent; `coordinator_options`, `agent_options`: for it
        and for them alone;
        `identities`: files by name, of the coordinator and the person, too; `address`: where the
        coordinator listens; `places`: words before the program by name, and the machine's own
        address: {"a": (["ip", "netns", "exec", "n"], "10.0.0.1")}; `metrics`: where the
        coordinator's pages are, if not at its address."""
        self.folder = folder
        self.limits = folder / "limits.toml"
        self.limits.write_text(limits)
        self.options = options
        self.agent_options = agent_options
        self.coordinator_options = coordinator_options
        self.identities = identities or {}
        self.places = places or {}
        self.token = self.make_token("ann", "admin") if "person" in self.identities else None
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.processes = {}
        self.address = address
        self.metrics = metrics
        self.start_coordinator()
        for name, slots in agents.items():
            self.start_agent(name, slots)
            self.wait_for(name, "joined the coordinator")

    def make_token(self, person, rights, *more):
        """A file that lets the person of this name do that."""
        file = self.folder / f"{person}-{rights}.token"
        troupe("token", "make", self.folder / "state", person, "--rights", rights, "--out", file,
               *more).check_returncode()
        return file

    def start_coordinator(self):
        """At the address of the one before."""
        pages = self.metrics or self.address.rsplit(":", 1)[0] + ":0"
        self.coordinator = self.start("coordinator", "coordinator", "--listen", self.address,
                                      "--metrics", pages, "--state", self.folder / "state",
                                      "--limits", self.limits, *self.options,
                                      *self.coordinator_options)
        line = self.wait_for("coordinator", r"coordinator on (\S+), https?://(\S+)/metrics")
        self.address, self.http = line.group(1), line.group(2)

    def start_agent(self, name, slots, log=None, address=None, metrics=None):
        """`log`: its name among the processes; `address`: another way to the coordinator;
        `metrics`: where its pages are."""
        own = ["--advertise", self.places[name][1]] if name in self.places else []
        own += ["--metrics", metrics] if metrics else []
        return self.start(log or name, "agent", "--join", address or self.address, "--name", name,
                          "--devices", f"cpu:{slots}", "--limits", self.limits, *own,
                          *self.options, *self.agent_options)

    def command(self, name, *arguments):
        """The program as `name`: where it is and who it is."""
        before = self.places[name][0] if name in self.places else []
        who = ["--identity", self.identities[name]] if name in self.identities else []
        return [*before, TROUPE, *map(str, (*who, *arguments))]

    def start(self, name, *arguments):
        with open(self.logs / name, "w") as log:
            self.processes[name] = subprocess.Popen(self.command(name, *arguments), stdout=log,
                                                    stderr=log)
        return self.processes[name]

    def wait_for(self, name, pattern, times=1):
        """What of a log matches; `times`: at least so often."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            text = (self.logs / name).read_text()
            found = list(re.finditer(pattern, text))
            if len(found) >= times:
                return found[-1]
            if self.processes[name].poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{name} never said {pattern}:\n{text}")

    def troupe(self, *arguments):
        token = ["--token", self.token] if self.token else []
        words = self.command("person", "--coordinator", self.address, *token, *arguments)
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def submit(self, job, *settings, name=None):
        words = ["job", "submit", job, "--wait"] + (["--id", name] if name else [])
        for setting in settings:
            words += ["--set", setting]
        return self.troupe(*words)

    def wait_status(self, job, pattern):
        """The `job status` text of the only job once it matches."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            done = self.troupe("job", "status", job)
            text = done.communicate(timeout=DEADLINE_S)[0]
            if re.search(pattern, text):
                return text
            time.sleep(0.1)
        raise AssertionError(f"job {job} never showed {pattern}: {text}")

    def text(self):
        return "\n".join(f"--- {path.name}\n{path.read_text()}" for path in self.logs.iterdir())

    def lines_about(self, addresses):
        """What the logs say of each address, once there is a line about every one. A link that may
        still be resumed is given up, and so logged, some time after it was cut."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            lines = self.text().splitlines()
            about = {address: [line for line in lines if re.search(rf"{address}\b", line)]
                     for address in addresses}
            if all(about.values()) or time.monotonic() > deadline:
                return about
            time.sleep(0.1)

    def end(self):
        for process in reversed(list(self.processes.values())):
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class ClusterCase(unittest.TestCase):
    """The tests of a class share data; each has a folder and clusters of its own."""

    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        make_data(cls.folder)

    def cluster(self, agents, **how):
        folder = self.folder / self.id().rsplit(".", 1)[1]
        folder.mkdir()
        made = Cluster(folder, agents, **how)
        self.addCleanup(made.end)
        return made


def main():
    """Runs the calling file's tests: PROGRAM TROUPE [unittest arguments]."""
    global TROUPE
    TROUPE = sys.argv.pop(1)
    unittest.main(verbosity=2)

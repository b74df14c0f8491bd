#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real processes on loopback: a coordinator, agents and jobs of the built `troupe`.

Usage: company_test.py TROUPE [unittest arguments]. Data is made here: noise with labels, enough to
see whether bits are equal. Every wait has a deadline; what a test starts, it ends.
"""
import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

TROUPE = ""
DEADLINE_S = 120
LONG_EPOCHS = 20  # of 20 steps: long enough to be disturbed

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
    subprocess.run([TROUPE, "data", "pack", "idx", "--images", files["train"][0],
                    "--labels", files["train"][1], "--test-images", files["test"][0],
                    "--test-labels", files["test"][1], "--out", folder],
                   check=True, timeout=DEADLINE_S, stdout=subprocess.DEVNULL)


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


class Cluster:
    """A coordinator and agents; ends them all."""

    def __init__(self, folder, agents):
        self.folder = folder
        self.logs = folder / "logs"
        self.logs.mkdir(exist_ok=True)
        self.processes = {}
        self.coordinator = self.start("coordinator", "coordinator", "--listen", "127.0.0.1:0",
                                      "--http", "127.0.0.1:0", "--state", folder / "state")
        line = self.wait_for("coordinator", r"coordinator on (\S+), http://(\S+)/metrics")
        self.address, self.http = line.group(1), line.group(2)
        for name, slots in agents.items():
            self.start(name, "agent", "--join", self.address, "--name", name,
                       "--devices", f"cpu:{slots}")
            self.wait_for(name, "joined the coordinator")

    def start(self, name, *arguments):
        with open(self.logs / name, "w") as log:
            self.processes[name] = subprocess.Popen([TROUPE, *map(str, arguments)], stdout=log,
                                                    stderr=log)
        return self.processes[name]

    def wait_for(self, name, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            text = (self.logs / name).read_text()
            found = re.search(pattern, text)
            if found:
                return found
            if self.processes[name].poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(f"{name} never said {pattern}:\n{text}")

    def troupe(self, *arguments):
        return subprocess.Popen([TROUPE, "--coordinator", self.address, *map(str, arguments)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def submit(self, job, *settings):
        words = ["job", "submit", job, "--wait"]
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


class CompanyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        make_data(cls.folder)
        cls.undisturbed = cls.run_local("undisturbed", epochs=1)
        cls.undisturbed_long = cls.run_local("long", epochs=LONG_EPOCHS)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def job_file(cls, name, epochs):
        path = cls.folder / f"{name}.toml"
        path.write_text(JOB.format(data=cls.folder, out=cls.folder / name, epochs=epochs))
        return path

    @classmethod
    def run_local(cls, name, epochs):
        subprocess.run([TROUPE, "run", cls.job_file(name, epochs)], check=True, timeout=DEADLINE_S,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return cls.hash(name)

    @classmethod
    def hash(cls, name):
        return subprocess.run([TROUPE, "checkpoint", "hash", cls.folder / name], check=True,
                              timeout=DEADLINE_S, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    def cluster(self, agents):
        folder = self.folder / self.id().rsplit(".", 1)[1]
        folder.mkdir()
        cluster = Cluster(folder, agents)
        self.addCleanup(cluster.end)
        return cluster

    def finish(self, cluster, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err + "\n" + cluster.text()

    def assert_no_children(self, cluster):
        for name, process in cluster.processes.items():
            if process.poll() is None:
                self.assertEqual(children_of(process.pid), {}, name)

    def test_two_agents_give_the_bits_of_one_process(self):
        cluster = self.cluster({"a": 2, "b": 2})
        for shards in (1, 3):
            name = f"shards{shards}"
            code, out, log = self.finish(
                cluster, cluster.submit(self.job_file(name, 1), f"servers.shards={shards}"))
            self.assertEqual(code, 0, log)
            self.assertIn("test accuracy", out)
            self.assertEqual(self.hash(name), self.undisturbed)
        self.assert_no_children(cluster)

    def test_uneven_agents_give_the_same_bits(self):
        cluster = self.cluster({"a": 3, "b": 1})
        code, _, log = self.finish(cluster, cluster.submit(self.job_file("uneven", 1)))
        self.assertEqual(code, 0, log)
        self.assertEqual(self.hash("uneven"), self.undisturbed)

    def kill_and_resume(self, name, choose, expected):
        """Kills what choose(cluster) names in a running job; the same job then ends as ever."""
        cluster = self.cluster({"a": 2, "b": 2})
        job = self.job_file(name, LONG_EPOCHS)
        submitted = cluster.troupe("job", "submit", job, "--id", name, "--wait")
        cluster.wait_status(name, r"checkpoint ")
        began = time.monotonic()
        os.kill(choose(cluster), signal.SIGKILL)
        code, _, log = self.finish(cluster, submitted)
        self.assertLess(time.monotonic() - began, 10, log)
        self.assertEqual(code, 1, log)
        self.assertRegex(log, expected)
        self.assert_no_children(cluster)
        if cluster.processes["b"].poll() is not None:  # 'a' has two places: it needs two more
            cluster.start("b2", "agent", "--join", cluster.address, "--name", "b2", "--devices",
                          "cpu:2")
        code, _, log = self.finish(cluster, cluster.submit(job))
        self.assertEqual(code, 0, log)
        self.assertEqual(self.hash(name), self.undisturbed_long)

    @staticmethod
    def child(cluster, agent, role):
        for pid, words in children_of(cluster.processes[agent].pid).items():
            if role in words:
                return pid
        raise AssertionError(f"agent {agent} has no {role}")

    def test_killed_host_process(self):
        self.kill_and_resume("killed-a", lambda cluster: self.child(cluster, "b", "host"),
                             r"host process of machine 'b' \(ranks 2, 3\) was killed by signal 9")

    def test_killed_parameter_server(self):
        self.kill_and_resume("killed-b", lambda cluster: self.child(cluster, "b", "server"),
                             r"parameter server 1 on machine 'b' was killed by signal 9")

    def test_killed_agent(self):
        self.kill_and_resume("killed-c", lambda cluster: cluster.processes["b"].pid,
                             r"agent of machine 'b' is lost .*ranks 2, 3")

    def test_killed_coordinator(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = self.job_file("orphan", 200)
        submitted = cluster.troupe("job", "submit", job, "--id", "orphan", "--wait")
        cluster.wait_status("orphan", r"checkpoint ")
        time.sleep(1)  # the waiting command looks, too
        cluster.coordinator.kill()
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 4, log)
        self.assertRegex(log, r"resumes from .*step-")
        for name in ("a", "b"):
            self.assertEqual(cluster.processes[name].wait(timeout=20), 4, cluster.text())

    def test_stop_names_the_checkpoint_and_resumes(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = self.job_file("stopped", LONG_EPOCHS)
        cluster.troupe("job", "submit", job, "--id", "stopped").communicate(timeout=DEADLINE_S)
        cluster.wait_status("stopped", r"checkpoint ")
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "stopped"))
        self.assertEqual(code, 0, log)
        self.assertRegex(out, r"stopped: .*resumes from .*step-")
        code, _, log = self.finish(cluster, cluster.submit(job))
        self.assertEqual(code, 0, log)
        self.assertEqual(self.hash("stopped"), self.undisturbed_long)

    def test_targets_are_scraped(self):
        cluster = self.cluster({"a": 2, "b": 2})
        submitted = cluster.submit(self.job_file("scraped", 1), 'train.hold="until-scraped"')
        deadline = time.monotonic() + DEADLINE_S
        steps = {}
        while time.monotonic() < deadline and submitted.poll() is None:
            with urllib.request.urlopen(f"http://{cluster.http}/sd/targets", timeout=10) as reply:
                targets = json.load(reply)
            for target in targets:
                try:
                    url = f"http://{target['targets'][0]}/metrics"
                    with urllib.request.urlopen(url, timeout=10) as reply:
                        text = reply.read().decode()
                except OSError:
                    continue  # has just ended
                for rank, value in re.findall(r'troupe_worker_steps_total{rank="(\d)"} (\S+)',
                                              text):
                    steps[rank] = float(value)
            time.sleep(0.2)
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 0, log)
        self.assertEqual(steps, {str(rank): 20.0 for rank in range(4)})

    def test_second_coordinator_is_refused(self):
        cluster = self.cluster({})
        second = subprocess.run([TROUPE, "coordinator", "--listen", "127.0.0.1:0", "--http",
                                 "127.0.0.1:0", "--state", cluster.folder / "state"],
                                capture_output=True, text=True, timeout=DEADLINE_S)
        self.assertEqual(second.returncode, 6, second.stderr)
        self.assertIn("another coordinator", second.stderr)

    def test_other_addresses_need_tls(self):
        for words in (["--listen", "0.0.0.0:0", "--http", "127.0.0.1:0"],
                      ["--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"]):
            done = subprocess.run([TROUPE, "coordinator", *words, "--state", self.folder / "tls"],
                                  capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 8, done.stderr)

    def test_absent_coordinator(self):
        for words in (["--coordinator", "127.0.0.1:1", "job", "list"],
                      ["agent", "--join", "127.0.0.1:1", "--name", "a", "--join-wait", "300ms"]):
            done = subprocess.run([TROUPE, *words], capture_output=True, text=True,
                                  timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("127.0.0.1:1", done.stderr)


if __name__ == "__main__":
    TROUPE = sys.argv.pop(1)
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Alerts end to end: a real fault in a real cluster, and what a real Prometheus says within two
minutes of it, with the configuration and the intervals that `troupe gen prometheus` writes and the
rules of monitoring/alerts.yml. Each fault raises its alert, and no other alert fires in this time.

Usage: alerts_test.py TROUPE [unittest arguments]. Needs `prometheus`; a full disk needs root.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

import cluster
import prometheus_test
from cluster import DEADLINE_S, ClusterCase, children_of, troupe, write_job

RULES = pathlib.Path(__file__).resolve().parents[2] / "monitoring/alerts.yml"
PROMISE_S = 120  # from a fault to its alert
EPOCHS = 1_000_000
SIDE = 1_000  # of the pictures that take long to decode
FIRED = 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[1h]))'
HOSTS = 'count(up{role="host"} == 1)'
# A network that has next to nothing to compute.
MEAN = {"nodes": [
    {"op": "null", "name": "data", "inputs": []},
    {"op": "Pooling", "name": "mean", "inputs": [[0, 0, 0]],
     "attrs": {"global_pool": "True", "pool_type": "avg", "kernel": "(1, 1)"}},
    {"op": "Flatten", "name": "flat", "inputs": [[1, 0, 0]]},
    {"op": "null", "name": "fc_weight", "inputs": []},
    {"op": "null", "name": "fc_bias", "inputs": []},
    {"op": "FullyConnected", "name": "fc", "inputs": [[2, 0, 0], [3, 0, 0], [4, 0, 0]],
     "attrs": {"num_hidden": "10"}},
    {"op": "null", "name": "softmax_label", "inputs": []},
    {"op": "SoftmaxOutput", "name": "softmax", "inputs": [[5, 0, 0], [6, 0, 0]]}],
    "arg_nodes": [0, 3, 4, 6], "node_row_ptr": list(range(9)), "heads": [[7, 0, 0]]}


def png(side, noise):
    """A grey picture, whose bytes take as long to unpack as they can."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I",
                                                                        zlib.crc32(kind + data))
    # The filter Paeth: each pixel is computed from three others.
    rows = b"".join(b"\4" + bytes(byte & 15 for byte in noise.randbytes(side))
                    for _ in range(side))
    size = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", zlib.compress(rows, 9)) +
            chunk(b"IEND", b""))


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed")
class AlertsTest(ClusterCase):
    def begin(self, *settings, job=None, limits=""):
        """A healthy job on two machines, and a Prometheus that has seen it; nothing fires."""
        name = self.id().rsplit(".", 1)[1]
        self.made = self.cluster({"a": 2, "b": 2}, limits=limits)
        watching = self.made.folder / "watching"
        troupe("gen", "prometheus", "--metrics", self.made.http, "-o",
               watching).check_returncode()
        shutil.copy(RULES, watching / "alerts.yml")  # `watching` tests that gen writes this one
        text = (watching / "prometheus.yml").read_text()
        self.assertEqual(text.count(": 15s\n"), 3)
        self.prometheus = prometheus_test.Prometheus(watching, text)
        self.addCleanup(self.prometheus.end)
        self.wait_for('count(up{train_job=""} == 1) == 3')
        self.job = self.made.submit(job or write_job(self.folder, name, EPOCHS), *settings,
                                    name="watched")
        self.addCleanup(self.job.kill)

    def wait_for(self, query):
        """Until the query has a result."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.prometheus.query(query):
            self.assertLess(time.monotonic(), deadline, f"{query}\n{self.made.text()[-5_000:]}"
                            f"\n{self.prometheus.log.read_text()}")
            time.sleep(0.2)

    def begin_healthy(self, *settings, **how):
        self.begin(*settings, **how)
        self.wait_for(f"{HOSTS} == 2 and on () sum(rate(troupe_worker_steps_total[1m])) > 0")
        self.assertEqual(self.fired(), set())

    def fired(self):
        return {labels["alertname"] for labels, _ in self.prometheus.query(FIRED)}

    def expect(self, *wanted, begun, consequences=()):
        """Within the promise all of `wanted` fire, and nothing but these and `consequences`."""
        took = {}
        while time.monotonic() < begun + PROMISE_S:
            for name in self.fired() - set(took):
                took[name] = time.monotonic() - begun
            time.sleep(0.5)
        print(f"{self.id().rsplit('.', 1)[1]}: seconds from the fault to the alert: {took}",
              flush=True)
        self.assertLessEqual(set(wanted), set(took), self.made.text()[-5_000:])
        self.assertLessEqual(set(took), {*wanted, *consequences})

    def host_of(self, agent):
        """The process of an agent's workers."""
        children = children_of(self.made.processes[agent].pid)
        hosts = [pid for pid, words in children.items() if "host" in words]
        self.assertEqual(len(hosts), 1, children)
        return hosts[0]

    def test_a_killed_agent(self):
        self.begin_healthy()
        self.made.processes["b"].kill()
        # Its ranks are gone with it: the job has failed, and its owner has to know.
        self.expect("TroupeMachineGone", "TroupeJobFailed", begun=time.monotonic())

    def test_a_starved_input(self):
        noise = random.Random(5)
        for number in range(20):
            path = self.folder / f"pictures/{number % 10}/{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(SIDE, noise))
        pictures = self.folder / "pictures"
        packed = self.folder / "packed"
        troupe("data", "pack", "images", "--train", pictures, "--out", packed,
               "--keep-encoded").check_returncode()
        symbol = self.folder / "mean.json"
        symbol.write_text(json.dumps(MEAN))
        job = self.folder / "starved.toml"
        job.write_text(cluster.JOB.format(data=packed, out=self.folder / "starved", epochs=EPOCHS)
                       .replace('network = "tiny-bn"', f'symbol = "{symbol}"')
                       .replace(f'test = "{packed}/test.rec"\n', "")
                       .replace('every = "10 steps"\nkeep = 0', 'every = "10000 steps"'))
        self.begin("data.prefetch_threads=1", "data.batch=4", job=job)
        self.made.wait_status("watched", r"steps? +[1-9]|step +[1-9]")
        self.expect("TroupeInputBound", begun=time.monotonic())

    def test_a_loss_that_is_no_number(self):
        """The job goes on: `non_finite` says so."""
        self.begin('train.non_finite="ignore"', "train.optimizer.lr=1e30")
        self.made.wait_status("watched", r"nan|inf")
        self.expect("TroupeLossNotFinite", begun=time.monotonic())

    def test_a_loss_that_ends_its_job(self):
        """The default: no report of the loss comes any more, but the job has failed."""
        self.begin("train.optimizer.lr=1e30")
        begun = time.monotonic()
        out, err = self.job.communicate(timeout=DEADLINE_S)
        self.assertIn("NaN or infinite", out + err)
        self.expect("TroupeJobFailed", begun=begun, consequences=["TroupeLossNotFinite"])

    def test_a_full_disk(self):
        place = self.folder / "small"
        place.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", place],
                                 capture_output=True, text=True)
        if mounted.returncode != 0:
            self.skipTest(f"no small disk can be mounted: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", "--lazy", place])
        self.begin_healthy(f"checkpoint.dir={place}", 'checkpoint.every="200 steps"',
                           "checkpoint.keep=1", "limits.checkpoint_failures_max=1000000")
        self.assertEqual([line for line in self.made.text().splitlines() if "No space" in line], [])
        with open(place / "other", "wb", buffering=0) as other:  # somebody else fills it
            try:
                while other.write(bytes(4096)):
                    pass
            except OSError:
                pass
        self.expect("TroupeCheckpointFailing", begun=time.monotonic())

    def test_a_stalled_rank(self):
        """Its agent and its peers wait for as long as their limits let them. A stopped process
        serves no page either: that it does not answer is right, too."""
        patient = {"silence_dead_ms": "1h", "progress_ms": "1h"}
        self.begin_healthy(*(f'limits.{name}="{long}"' for name, long in patient.items()),
                           limits="".join(f'{name} = "{long}"\n'
                                          for name, long in patient.items()))
        self.stop(self.host_of("b"))
        self.expect("TroupeMissingRank", "TroupeProcessDown", begun=time.monotonic())

    def test_a_stopped_process(self):
        """With the default limits its agent kills it after 15 seconds, and the job fails."""
        self.begin_healthy()
        self.stop(self.host_of("b"))
        self.expect("TroupeJobFailed", begun=time.monotonic())
        self.assertNotEqual(self.job.wait(timeout=DEADLINE_S), 0)

    def stop(self, pid):
        """Until the test's end, or its own. The handle means this process alone."""
        handle = os.pidfd_open(pid)
        self.addCleanup(os.close, handle)
        signal.pidfd_send_signal(handle, signal.SIGSTOP)

        def go_on():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        self.addCleanup(go_on)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eventual consistency learns what sequential consistency learns.

Usage: eventual_accuracy_test.py TROUPE [unittest arguments]. Trains examples/fashion-lenet.toml
with 2 machines of 2 workers in all four combinations of modes, over SEEDS; each eventual
combination's median test accuracy must reach 0.96 of the sequential one's. With max_staleness = s
the staleness metric, scraped at the end, holds nothing above s.
"""
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

import cluster

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/fashion-lenet.toml"
SEEDS = (7, 8, 9)
SHARE = 0.96
DEADLINE_S = 1800  # of one training, ten times what it takes
BOUND = 2


class EventualAccuracyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cluster.troupe("data", "pack", "fashion-mnist", "--out",
                       cls.folder / "data").check_returncode()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def command(self, name, settings):
        settings = {"data.train": f'"{self.folder}/data/train.rec"',
                    "data.test": f'"{self.folder}/data/test.rec"', "workers.devices": 2,
                    "checkpoint.dir": f'"{self.folder / name}"', **settings}
        words = [cluster.TROUPE, "run", EXAMPLE]
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    def accuracy(self, device, cluster, seed):
        name = f"{device}-{cluster}-{seed}"
        out = subprocess.run(
            self.command(name, {"consistency.device": f'"{device}"',
                                "consistency.cluster": f'"{cluster}"', "seed": seed}),
            check=True, timeout=DEADLINE_S, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True).stdout
        return float(re.findall(r"^test accuracy ([0-9.]+)", out, re.M)[-1])

    def median(self, device, cluster):
        accuracies = [self.accuracy(device, cluster, seed) for seed in SEEDS]
        print(f"device {device}, cluster {cluster}: {accuracies}", file=sys.stderr, flush=True)
        return statistics.median(accuracies)

    def test_every_combination_learns(self):
        sequential = self.median("sequential", "sequential")
        self.assertGreater(sequential, 0.85)
        for device, cluster in (("sequential", "eventual"), ("eventual", "sequential"),
                                ("eventual", "eventual")):
            with self.subTest(device=device, cluster=cluster):
                self.assertGreaterEqual(self.median(device, cluster), SHARE * sequential)

    def test_staleness_stays_within_its_bound(self):
        tier = f'{{ mode = "eventual", max_staleness = {BOUND} }}'
        with open(self.folder / "bounded.log", "w+") as log:
            process = subprocess.Popen(
                self.command("bounded", {"consistency.device": tier, "consistency.cluster": tier,
                                         "train.max_steps": 400, "train.hold": '"until-scraped"'}),
                stdout=log, stderr=log)
            self.addCleanup(process.kill)
            deadline = time.monotonic() + DEADLINE_S
            text = ""
            while time.monotonic() < deadline and process.poll() is None:
                found = re.search(r"http://\S+/metrics", pathlib.Path(log.name).read_text())
                if found:
                    try:
                        with urllib.request.urlopen(found.group().strip('"'), timeout=10) as reply:
                            text = reply.read().decode()
                    except OSError:
                        pass  # has just ended
                time.sleep(0.2)
            self.assertEqual(process.wait(timeout=DEADLINE_S), 0,
                             pathlib.Path(log.name).read_text())
        for level in (1, 2):
            observed = {le: float(value) for le, value in re.findall(
                rf'troupe_kv_staleness_steps_bucket{{level="{level}",le="([^"]+)"}} (\S+)', text)}
            self.assertGreater(observed["+Inf"], 0)
            self.assertEqual(observed[str(BOUND)], observed["+Inf"], observed)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples give one checkpoint hash, however 2 machines x 2 devices are run.

Usage: same_bits_test.py TROUPE [unittest arguments]. Two files of examples/ on Fashion-MNIST, the
first STEPS steps of small batches: one process, the local store, any number of shards and prefetch
threads, real processes on 2 + 2, 4 and 3 + 1 slots, stopped in the middle and resumed; one of them
also with 16 bits on links. Then networks of many parameters in place of the second one's, a few
steps: one process, the local store, 2 + 2 slots, stopped and resumed.
"""
import pathlib
import tempfile
import unittest

import cluster
from cluster import DEADLINE_S, Cluster, checkpoint_hash, troupe

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
STEPS = 100
NETWORK_STEPS = 8


class SameBitsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        troupe("data", "pack", "fashion-mnist", "--out", cls.folder / "data").check_returncode()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def settings(self, example, name):
        return [f'data.train="{self.folder}/data/train.rec"',
                f'data.test="{self.folder}/data/test.rec"', "data.batch=16", "workers.devices=2",
                f"train.max_steps={STEPS}", 'checkpoint.every="10 steps"', "checkpoint.keep=0",
                f'checkpoint.dir="{self.folder}/{example}-{name}"']

    def run_here(self, example, name, *settings, flags=()):
        words = ["run", EXAMPLES / f"{example}.toml", *flags]
        for setting in (*self.settings(example, name), *settings):
            words += ["--set", setting]
        done = troupe(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return checkpoint_hash(self.folder / f"{example}-{name}")

    def company(self, example, name, agents):
        folder = self.folder / f"company-{example}-{name}"
        folder.mkdir()
        company = Cluster(folder, agents)
        self.addCleanup(company.end)
        return company

    def submit(self, company, example, name, *settings):
        process = company.submit(EXAMPLES / f"{example}.toml", *self.settings(example, name),
                                 *settings)
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0, out + err + company.text())
        return checkpoint_hash(self.folder / f"{example}-{name}")

    def stop_in_the_middle(self, company, example, name, *settings):
        words = ["job", "submit", EXAMPLES / f"{example}.toml", "--id", name]
        for setting in (*self.settings(example, name), *settings):
            words += ["--set", setting]
        company.troupe(*words).communicate(timeout=DEADLINE_S)
        company.wait_status(name, r"checkpoint ")
        out, err = company.troupe("job", "stop", name).communicate(timeout=DEADLINE_S)
        self.assertRegex(out, r"stopped: .*resumes from .*step-", err + company.text())

    def runs(self, example, prefix="", settings=()):
        """The hash of one process, and of other runs by their names."""
        expected = self.run_here(example, f"{prefix}run", *settings)
        same = {"local store": self.run_here(example, f"{prefix}local", *settings,
                                             flags=["--local-store"])}
        pair = self.company(example, f"{prefix}pair", {"a": 2, "b": 2})
        same["2 + 2 slots"] = self.submit(pair, example, f"{prefix}pair", *settings)
        self.stop_in_the_middle(pair, example, f"{prefix}stopped", *settings)
        same["stopped and resumed"] = self.submit(pair, example, f"{prefix}stopped", *settings)
        return expected, same

    def check(self, example):
        expected, same = self.runs(example)
        for shards in (1, 3):
            same[f"{shards} shards"] = self.run_here(example, f"s{shards}",
                                                     f"servers.shards={shards}")
        for threads in (1, 4):
            same[f"{threads} prefetch threads"] = self.run_here(
                example, f"p{threads}", f"data.prefetch_threads={threads}")
        same["4 slots"] = self.submit(self.company(example, "one", {"a": 4}), example, "one")
        same["3 + 1 slots"] = self.submit(self.company(example, "uneven", {"a": 3, "b": 1}),
                                          example, "uneven")
        self.assertEqual(same, dict.fromkeys(same, expected))

    def check_network(self, network):
        expected, same = self.runs("tiny-bn", f"{network}-", (
            f'model.network="{network}"', "data.batch=4", f"train.max_steps={NETWORK_STEPS}",
            'checkpoint.every="2 steps"', "checkpoint.keep=1"))
        self.assertEqual(same, dict.fromkeys(same, expected))

    def test_fashion_lenet(self):
        self.check("fashion-lenet")

    def test_tiny_bn(self):
        self.check("tiny-bn")

    def test_16_bits_on_links(self):
        wires = ('numerics.gradient_wire="bf16"', 'numerics.weight_wire="bf16"')
        expected, same = self.runs("tiny-bn", "wires-", wires)
        uneven = self.company("tiny-bn", "wires-uneven", {"a": 3, "b": 1})
        same["3 + 1 slots"] = self.submit(uneven, "tiny-bn", "wires-uneven", *wires)
        self.assertEqual(same, dict.fromkeys(same, expected))
        self.assertNotEqual(expected, self.run_here("tiny-bn", "plain"))

    def test_resnet18(self):
        self.check_network("resnet18")

    def test_inception_bn(self):
        self.check_network("inception-bn")


if __name__ == "__main__":
    cluster.main()

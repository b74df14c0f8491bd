#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example jobs train a few steps on the first images of Fashion-MNIST, and end in the same bits
when they are stopped on the way.

Usage: jobs_test.py TROUPE FOLDER_OF_EXAMPLES [unittest arguments]
"""
import json
import pathlib
import re
import sys
import tempfile
import unittest

from fashion_files import pack, run

TROUPE, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
JOBS = ("fashion-lenet", "fashion-resnet", "tiny-bn")
STEPS = 5
BATCH = 16  # the files say more


class JobsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        pack(TROUPE, self.folder, 700, 100)

    def train(self, job, out, *more):
        self.run_job(job, out, "--quiet", *more)
        return run(TROUPE, "checkpoint", "hash", self.folder / out).stdout

    def run_job(self, job, out, *more):
        """What it logs."""
        words = [TROUPE, "run", EXAMPLES / f"{job}.toml"]
        for setting in (f"data.train={self.folder}/train.rec", f"data.test={self.folder}/test.rec",
                        f"checkpoint.dir={self.folder}/{out}", "checkpoint.every=2 steps",
                        f"train.max_steps={STEPS}", "train.epochs=3", f"data.batch={BATCH}"):
            words += ["--set", setting]
        done = run(*words, *more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_each_goes_on_where_it_was_stopped(self):
        for job in JOBS:
            with self.subTest(job):
                whole = self.train(job, f"{job}-whole")
                self.assertRegex(whole, "^[0-9a-f]{64}\n$")
                part = self.train(job, f"{job}-parts", "--set", "train.max_steps=3")
                self.assertNotEqual(part, whole)
                self.assertEqual(self.train(job, f"{job}-parts"), whole)

    def test_augmentation_is_part_of_the_job(self):
        whole = self.train("fashion-resnet", "whole")
        plain = self.train("fashion-resnet", "plain", "--set", "data.augment={}")
        self.assertNotEqual(plain, whole)
        wide = run(TROUPE, "run", EXAMPLES / "fashion-resnet.toml", "--set", "checkpoint={}",
                   "--set", f"data.train={self.folder}/train.rec", "--set", "data.test=",
                   "--set", "data.augment.crop_padding=28")
        self.assertEqual(wide.returncode, 3)
        self.assertIn("data.augment.crop_padding is 28", wide.stderr)

    def test_resnet50_trains_on_generated_images(self):
        made = run(TROUPE, "data", "pack", "generated", "--out", self.folder, "--force",
                   "--image", "3,64,64", "--classes", "4", "--train", "24", "--test", "8")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertIn("24 records of 3 x 64 x 64", made.stdout)
        done = run(TROUPE, "run", EXAMPLES / "resnet50.toml", "--json",
                   "--set", f"data.train={self.folder}/train.rec",
                   "--set", f"data.test={self.folder}/test.rec", "--set", "data.batch=4",
                   "--set", "data.test_batch=4",
                   "--set", f"checkpoint.dir={self.folder}/resnet50")
        self.assertEqual(done.returncode, 0, done.stderr)
        shown = json.loads(done.stdout)
        self.assertTrue(shown["trained"])
        self.assertEqual(shown["test"]["images"], 8)
        # The images that the job expects are those that are made where nothing is said.
        made = run(TROUPE, "data", "pack", "generated", "--out", self.folder / "whole",
                   "--train", "1000", "--test", "0")
        self.assertIn("1000 records of 3 x 224 x 224", made.stdout)
        self.assertIn("1000 classes", made.stdout)
        self.assertIn("classes = 1000", (EXAMPLES / "resnet50.toml").read_text())

    def test_a_budget_says_what_it_costs_before_the_first_step(self):
        log = self.run_job("fashion-resnet", "budget", "--set", "memory.budget=1g")
        told = re.search(r"a step's values and scratch take \S+ MiB of a budget of 1.0 GiB; "
                         r"computed once more: 0 nodes, 0.0 % of a step", log)
        self.assertTrue(told, log)
        self.assertLess(told.start(), log.index(f"step {STEPS}/{STEPS} "))
        log = self.run_job("fashion-resnet", "sqrt", "--set", "memory.recompute=sqrt")
        self.assertRegex(log, r"take \S+ MiB; computed once more: [1-9]\d* nodes, [1-9]\S* % of a")
        self.assertNotIn("once more", self.run_job("fashion-resnet", "cheap"))

    def traced(self, out, *settings):
        """Layers and kernels that ran."""
        trace = self.folder / f"{out}.json"
        self.train("fashion-resnet", out, "--trace", trace, *settings)
        shown = run(TROUPE, "trace", trace, "--by", "name", "--top", "0", "--json")
        groups = json.loads(shown.stdout)["groups"]
        return {group["label"] for group in groups}, {group["kernel"] for group in groups}

    def test_switches_of_memory_and_numerics_reach_the_steps(self):
        names, kernels = self.traced("plain", "--set", "memory.recompute=none")
        self.assertFalse([name for name in names if name.endswith("_recomputed")])
        again, _ = self.traced("sqrt", "--set", "memory.recompute=sqrt")
        self.assertTrue([name for name in again if name.endswith("_recomputed")])
        _, direct = self.traced("direct", "--set", "numerics.winograd=false")
        shown = run(TROUPE, "model", "inspect", "wide-resnet10-2", "--classes", "10",
                    "--batch", str(BATCH), "--input", "1,28,28", "--json")
        layers = json.loads(shown.stdout)["layers"]
        wins = "simd:winograd" in {layer["kernel"] for layer in layers}  # on this processor
        self.assertEqual("simd:winograd" in kernels, wins)
        self.assertNotIn("simd:winograd", direct)
        _, reference = self.traced("reference", "--set", "numerics.reference_only=true")
        self.assertEqual(reference - {None}, {"reference"})
        # No bit depends on memory; Winograd's form has bits of its own.
        hashes = [run(TROUPE, "checkpoint", "hash", self.folder / out).stdout
                  for out in ("plain", "sqrt", "direct", "reference")]
        self.assertEqual(hashes[0], hashes[1])
        self.assertEqual(len(set(hashes)), 3 if wins else 2)

    def test_a_trace_names_layers_kernels_and_shapes(self):
        trace = self.folder / "trace.json"
        self.train("fashion-resnet", "traced", "--trace", trace)
        shown = run(TROUPE, "trace", trace, "--by", "name", "--top", "0", "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        groups = {group["label"]: group for group in json.loads(shown.stdout)["groups"]}
        first = groups["conv1"]
        self.assertEqual(first["operator"], "convolution")
        self.assertEqual(first["count"], STEPS)
        self.assertRegex(first["inputs"], rf"^f32\({BATCH},1,28,28\)")
        self.assertTrue(first["kernel"])
        text = run(TROUPE, "trace", trace, "--by", "kernel").stdout
        self.assertIn("KERNEL", text)
        self.assertIn("rank0/cpu", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of the library learns, predicts and saves weights, and says what is wrong.

Usage: train_lenet_test.py TROUPE TRAIN_LENET [unittest arguments]. On the first images of
Fashion-MNIST, so that it takes seconds.
"""
import gzip
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path("/usr/share/datasets/fashion-mnist")
TROUPE, EXAMPLE = sys.argv[1:3]
DEADLINE_S = 600  # only what hangs takes so long, however busy the machine is


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=DEADLINE_S)


def first_items(name, count, target):
    """The first `count` items of an IDX file, as an IDX file of their own."""
    with gzip.open(SOURCE / f"{name}.gz") as file:
        rank = file.read(4)[3]
        _, *item = struct.unpack(f">{rank}I", file.read(4 * rank))
        size = 1
        for extent in item:
            size *= extent
        values = file.read(count * size)
    target.write_bytes(struct.pack(f">BBBB{rank}I", 0, 0, 8, rank, count, *item) + values)
    return target


class TrainLenetTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def pack(self, train, test):
        words = ["data", "pack", "idx", "--out", self.folder]
        for flag, name, count in (("--images", "train-images-idx3-ubyte", train),
                                  ("--labels", "train-labels-idx1-ubyte", train),
                                  ("--test-images", "t10k-images-idx3-ubyte", test),
                                  ("--test-labels", "t10k-labels-idx1-ubyte", test)):
            words += [flag, first_items(name, count, self.folder / f"{flag[2:]}.idx")]
        run(TROUPE, *words).check_returncode()

    def test_it_learns_predicts_and_saves(self):
        self.pack(3000, 500)
        done = run(EXAMPLE, self.folder, 2)
        self.assertEqual(done.returncode, 0, done.stderr)
        accuracies = re.findall(r"epoch \d: accuracy (\d\.\d{4})", done.stdout)
        self.assertEqual(len(accuracies), 2, done.stdout)
        self.assertGreater(float(accuracies[-1]), 0.6, done.stdout)
        predicted = re.findall(r"image \d: class \d with probability \S+, label \d", done.stdout)
        self.assertEqual(len(predicted), 5, done.stdout)
        # A job takes the weights as its first ones.
        again = run(TROUPE, "run", "-", "--set", 'name="again"', "--set", 'model.network="lenet"',
                    "--set", f'data.train="{self.folder}/train.rec"', "--set", "train.max_steps=1",
                    "--set", f'train.weights="{self.folder}/lenet.safetensors"')
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_it_names_the_file_that_is_missing(self):
        done = run(EXAMPLE, self.folder, 1)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.folder}/train.rec", done.stderr)
        self.assertEqual(run(EXAMPLE).returncode, 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The example of the library learns, predicts and saves weights, and says what is wrong.

Usage: train_lenet_test.py TROUPE TRAIN_LENET [unittest arguments]. On the first images of
Fashion-MNIST, so that it takes seconds.
"""
import pathlib
import re
import sys
import tempfile
import unittest

from fashion_files import pack, run

TROUPE, EXAMPLE = sys.argv[1:3]


class TrainLenetTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def test_it_learns_predicts_and_saves(self):
        pack(TROUPE, self.folder, 3000, 500)
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

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The residual network of the examples learns Fashion-MNIST, whole, as well as its file says.

Usage: accuracy_test.py TROUPE FOLDER_OF_EXAMPLES [unittest arguments]
"""
import pathlib
import re
import sys
import tempfile
import unittest

from fashion_files import run

TROUPE, EXAMPLES = sys.argv[1], pathlib.Path(sys.argv[2])
REACHED = 0.93
DEADLINE_S = 18000  # ten times what it takes


class AccuracyTest(unittest.TestCase):
    def test_fashion_resnet(self):
        with tempfile.TemporaryDirectory() as folder:
            made = run(TROUPE, "data", "pack", "fashion-mnist", "--out", f"{folder}/data")
            self.assertEqual(made.returncode, 0, made.stderr)
            done = run(TROUPE, "run", EXAMPLES / "fashion-resnet.toml",
                       "--set", f"data.train={folder}/data/train.rec",
                       "--set", f"data.test={folder}/data/test.rec",
                       "--set", f"checkpoint.dir={folder}/out", deadline_s=DEADLINE_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        accuracy = float(re.findall(r"^test accuracy ([0-9.]+)", done.stdout, re.M)[-1])
        print(f"test accuracy {accuracy}")
        self.assertGreaterEqual(accuracy, REACHED)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])

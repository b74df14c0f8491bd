#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every process of a cluster is stopped and goes on later, as under a paused virtual machine:
nobody has died, and the job ends in the same bits.

Usage: pause_test.py TROUPE PauseTest.NAME
"""
import os
import pathlib
import signal
import tempfile
import time
import unittest

import cluster
from cluster import (DEADLINE_S, Cluster, checkpoint_hash, children_of, make_data, run_local,
                     write_job)

EPOCHS = 20  # of 20 steps: long enough to be stopped
SILENCE_S = 6  # in the quick test: long enough for a loaded machine


class PauseTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_data(self.folder)
        self.undisturbed = run_local(self.folder, "undisturbed", EPOCHS)

    def stop_all(self, limits, seconds):
        text = "".join(f"{name} = {value}\n" for name, value in limits.items())
        company = Cluster(self.folder, {"a": 2, "b": 2}, text)
        self.addCleanup(company.end)
        settings = [f"limits.{name}={value}" for name, value in limits.items()]
        words = [word for setting in settings for word in ("--set", setting)]
        submitted = company.troupe("job", "submit", write_job(self.folder, "stopped", EPOCHS),
                                   "--id", "stopped", *words)
        errors = submitted.communicate(timeout=DEADLINE_S)[1]
        self.assertEqual(submitted.returncode, 0, errors)
        company.wait_status("stopped", "checkpoint ")
        pids = [process.pid for process in company.processes.values()]
        pids += [child for pid in list(pids) for child in children_of(pid)]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        status = company.wait_status("stopped", "state +(failed|succeeded)")
        self.assertRegex(status, "state +succeeded", company.text())
        self.assertEqual(checkpoint_hash(self.folder / "stopped"), self.undisturbed)
        self.assertRegex(company.text(), r"this process stood still for \d+ ms")

    def test_longer_than_the_silence_of_the_dead(self):
        self.stop_all({"silence_dead_ms": 1000 * SILENCE_S}, SILENCE_S + 3)

    def test_a_minute(self):
        """With the default limits; slow."""
        self.stop_all({}, 60)


if __name__ == "__main__":
    cluster.main()

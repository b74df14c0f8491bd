#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""120 agents with a rank and a shard each start one job: 240 processes greet each other at once.

Usage: many_ranks_test.py TROUPE [unittest arguments]. Takes minutes and some 10 GiB.
"""
import pathlib
import tempfile
import unittest

import cluster
from cluster import Cluster, make_data, write_job

AGENTS = 120
DEADLINE_S = 1200


class ManyRanksTest(unittest.TestCase):
    def test_they_start_within_start_ms(self):
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            make_data(folder)
            made = Cluster(folder, {})
            self.addCleanup(made.end)
            names = [f"a{number}" for number in range(AGENTS)]
            for name in names:
                made.start_agent(name, 1)
            for name in names:
                made.wait_for(name, "joined the coordinator")
            settings = [f"workers.machines={AGENTS}", "workers.devices=1",
                        f"servers.shards={AGENTS}", "data.batch=2", "train.max_steps=3",
                        'checkpoint.every="0 steps"', 'data.test=""']
            submitted = made.submit(write_job(folder, "many", 1), *settings)
            out, err = submitted.communicate(timeout=DEADLINE_S)
            self.assertEqual(submitted.returncode, 0, err + made.text()[-20_000:])
            self.assertIn("checkpoint ", out)


if __name__ == "__main__":
    cluster.main()

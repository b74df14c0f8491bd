#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints out of turn with real processes: of a job that goes on, of one that is stopped, of
one whose machine leaves, and of `troupe run` at Ctrl-C.

Usage: cut_test.py TROUPE [unittest arguments]. The jobs have no checkpoint of their own before
their end, so what a job goes on from was cut out of turn.
"""
import json
import pathlib
import re
import signal
import subprocess
import time

import cluster
from cluster import DEADLINE_S, ClusterCase, checkpoint_hash, run_local, troupe, write_job

EPOCHS = 40  # some seconds on a fast machine: longer than a test looks on
NEVER = 'checkpoint.every="1000 epochs"'
EVENTUAL = ['consistency.device="eventual"', 'consistency.cluster="eventual"']


def step_of(path):
    """Of a checkpoint's path."""
    return int(re.search(r"step-(\d+)-g\d+$", str(path)).group(1))


class CutTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", epochs=EPOCHS)

    def finish(self, cluster, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err + "\n" + cluster.text()

    def training(self, cluster, name, *settings):
        """A job that trains."""
        job = write_job(self.folder, name, EPOCHS)
        submitted = cluster.submit(job, NEVER, *settings, name=name)
        cluster.wait_status(name, r"step [1-9]")
        return submitted

    def test_a_running_job_writes_a_checkpoint_and_goes_on(self):
        cluster = self.cluster({"a": 2, "b": 2})
        submitted = self.training(cluster, "saved")
        steps = []
        for words in ((), ("--json",)):
            code, out, log = self.finish(cluster, cluster.troupe("job", "checkpoint", "saved",
                                                                 *words))
            self.assertEqual(code, 0, log)
            path = json.loads(out)["checkpoint"] if words else out.strip()
            self.assertEqual(pathlib.Path(path).parent, self.folder / "saved")
            shown = json.loads(troupe("checkpoint", "show", path, "--json").stdout)
            self.assertEqual(shown["step"], step_of(path))
            steps.append(shown["step"])
        self.assertLess(steps[0], steps[1])
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / "saved"), self.undisturbed)
        self.assertEqual(self.finish(cluster, cluster.troupe("job", "checkpoint", "nobody"))[0], 5)
        code, _, log = self.finish(cluster, cluster.troupe("job", "checkpoint", "saved"))
        self.assertEqual(code, 10, log)
        self.assertIn("job saved has ended: succeeded; its newest checkpoint is", log)
        self.assertNotIn("job saved: job saved", log)

    def test_a_job_that_is_stopped_with_a_checkpoint_loses_no_step(self):
        cluster = self.cluster({"a": 2, "b": 2})
        submitted = self.training(cluster, "stopped")
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "stopped",
                                                             "--checkpoint", "--json"))
        self.assertEqual(code, 0, log)
        end = json.loads(out)
        self.assertEqual(end["state"], "stopped")
        self.assertLessEqual(end["step"], step_of(end["checkpoint"]))
        self.assertEqual(self.finish(cluster, submitted)[0], 9)
        again = cluster.submit(self.folder / "stopped.toml", NEVER, name="stopped")
        code, _, log = self.finish(cluster, again)
        self.assertEqual(code, 0, log)
        self.assertIn(f"goes on at step {step_of(end['checkpoint'])} from {end['checkpoint']}", log)
        self.assertEqual(checkpoint_hash(self.folder / "stopped"), self.undisturbed)

    def test_eventual_tiers_are_cut_at_a_barrier(self):
        cluster = self.cluster({"a": 2, "b": 2})
        submitted = self.training(cluster, "eventual", *EVENTUAL)
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "eventual",
                                                             "--checkpoint", "--json"))
        self.assertEqual(code, 0, log)
        self.assertEqual(self.finish(cluster, submitted)[0], 9)
        settings = [word for setting in (NEVER, *EVENTUAL) for word in ("--set", setting)]
        done = troupe("run", self.folder / "eventual.toml", *settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"goes on at step {step_of(json.loads(out)['checkpoint'])} ", done.stderr)

    def test_a_job_leaves_a_machine_whose_agent_is_asked_to_end(self):
        cluster = self.cluster({"a": 2, "b": 2, "c": 2})
        submitted = self.training(cluster, "moved")
        time.sleep(1.0)  # the waiting command looks a few times a second, and has seen it train
        leaving = cluster.processes["b"]
        leaving.send_signal(signal.SIGTERM)
        self.assertEqual(leaving.wait(timeout=DEADLINE_S), 0, cluster.text())
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 0, log)
        moved = cluster.wait_for("coordinator", r"job moved leaves machine 'b' and goes on from "
                                                r"(\S+/step-\d+-g1)")
        step = step_of(moved.group(1))
        self.assertIn(f"job moved goes on at step {step} from {moved.group(1)}", log)
        self.assertIn("job moved begins on a, c", log)
        self.assertIn("job moved has left a machine and goes on from", log)
        self.assertEqual(checkpoint_hash(self.folder / "moved"), self.undisturbed)

    def test_a_folder_that_cannot_be_written_is_said(self):
        cluster = self.cluster({"a": 2, "b": 2}, limits="stop_grace_ms = 4000\n")
        submitted = self.training(cluster, "full")
        folder = self.folder / "full"
        folder.rename(self.folder / "away")
        folder.write_text("no folder any more")
        code, _, log = self.finish(cluster, cluster.troupe("job", "checkpoint", "full"))
        self.assertEqual(code, 10, log)
        self.assertRegex(log, r"job full: the checkpoint of step \d+ could not be written: .*full")
        self.assertIn("state running", cluster.wait_status("full", "state"))
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "full", "--checkpoint"))
        self.assertEqual(code, 10, log)
        self.assertIn("full stopped: stopped by request; the checkpoint was not written", out)
        self.assertEqual(self.finish(cluster, submitted)[0], 9)

    def test_a_job_without_a_folder_is_stopped_all_the_same(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "nowhere", EPOCHS)
        job.write_text(job.read_text().split("[checkpoint]")[0])
        submitted = cluster.submit(job, name="nowhere")
        cluster.wait_status("nowhere", r"step [1-9]")
        code, _, log = self.finish(cluster, cluster.troupe("job", "stop", "nowhere",
                                                           "--checkpoint"))
        self.assertEqual(code, 10, log)
        self.assertIn("checkpoint.dir is not set", log)
        self.assertEqual(self.finish(cluster, submitted)[0], 9)

    def interrupt(self, name, number, *words):
        """`troupe run` is interrupted, and goes on where it was."""
        command = ["run", write_job(self.folder, name, EPOCHS), "--set", NEVER, *words]
        log = self.folder / f"{name}.log"
        with open(log, "w") as out:
            process = subprocess.Popen([cluster.TROUPE, *map(str, command)], stdout=out, stderr=out)
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(r"step \d+/", log.read_text()):
            self.assertLess(time.monotonic(), deadline, log.read_text())
            self.assertIsNone(process.poll(), log.read_text())
            time.sleep(0.01)
        process.send_signal(number)
        self.assertEqual(process.wait(timeout=DEADLINE_S), 128 + number, log.read_text())
        told = re.search(r"stopped; the same command goes on from (\S+)", log.read_text())
        self.assertIsNotNone(told, log.read_text())
        done = troupe(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"goes on at step {step_of(told.group(1))} from {told.group(1)}", done.stderr)
        self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)

    def test_ctrl_c_of_a_run_loses_nothing(self):
        self.interrupt("company", signal.SIGINT)

    def test_sigterm_of_a_run_over_the_local_store_loses_nothing(self):
        self.interrupt("local", signal.SIGTERM, "--local-store")


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The script of `troupe gen slurm` in a real Slurm of one node: jobs wait in its queue, train,
fail, are cancelled, reach their time limit and go on, in the bits of a run that nobody disturbed.

Usage: slurm_test.py TROUPE [unittest arguments]. Skipped, with the reason, where Slurm is missing.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))  # cluster
import cluster
import one_node_slurm
from cluster import checkpoint_hash, make_data, run_local, troupe

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 1_800
LONG = 600  # epochs of 40 steps: some minutes
SHAPE = ("workers.machines=1", "workers.devices=2")
EVERY = "checkpoint.every=1000 steps"


def run(*words, folder=None):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          cwd=folder, timeout=LIMIT_S)


@unittest.skipIf(one_node_slurm.missing(), one_node_slurm.missing())
class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        (cls.folder / "slurm").mkdir()
        cls.slurm = one_node_slurm.Slurm(cls.folder / "slurm")
        cls.addClassCleanup(cls.slurm.end)
        cls.slurm.environment["TROUPE"] = os.path.abspath(cluster.TROUPE)
        make_data(cls.folder)

    def setUp(self):
        self.work = self.folder / self.id().rsplit(".", 1)[1]
        self.work.mkdir()
        troupe("gen", "slurm", "-o", self.work, "--nodes", "1").check_returncode()

    def job(self, epochs, name="job"):
        return cluster.write_job(self.folder, f"{self.work.name}-{name}", epochs)

    def sbatch(self, *words):
        """The words behind `sbatch`; gives the id in Slurm."""
        done = self.slurm.run("sbatch", *words, folder=self.work)
        self.assertEqual(done.returncode, 0, done.stderr)
        return re.search(r"Submitted batch job (\d+)", done.stdout)[1]

    def submit(self, job, *options, settings=(EVERY,)):
        words = [word for each in (*SHAPE, *settings) for word in ("--set", each)]
        return self.sbatch(*options, "troupe.sbatch", job, *words)

    def log(self, number):
        path = self.work / f"troupe-{number}.log"
        return path.read_text() if path.exists() else ""

    def state(self, number):
        """(state, exit code) of a job in Slurm."""
        text = self.slurm.run("scontrol", "-o", "show", "job", number).stdout
        return (re.search(r"JobState=(\S+)", text)[1],
                int(re.search(r" ExitCode=(\d+):", text)[1]))

    def wait_until(self, true, number):
        deadline = time.monotonic() + LIMIT_S
        while not true():
            if time.monotonic() > deadline:
                raise AssertionError(f"{self.state(number)}\n{self.log(number)}")
            time.sleep(0.3)

    def end(self, number):
        """Waits for it; its keys are gone then. (state, exit code)."""
        self.wait_until(lambda: self.state(number)[0] not in
                        ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING"), number)
        self.assertFalse((self.work / f"troupe-{number}").exists(), self.log(number))
        return self.state(number)

    def wait_for(self, number, pattern):
        def found():
            self.assertIn(self.state(number)[0], ("PENDING", "RUNNING"), self.log(number))
            return re.search(pattern, self.log(number))
        self.wait_until(found, number)

    def undisturbed(self, epochs):
        words = ["--set", "checkpoint.dir=" + str(self.work / "alone"), "--set", EVERY]
        for each in SHAPE:
            words += ["--set", each]
        run(cluster.TROUPE, "run", self.job(epochs), *words).check_returncode()
        return checkpoint_hash(self.work / "alone")

    def test_jobs_wait_for_their_turn_and_train(self):
        first, second = self.job(5), self.job(5, "second")
        numbers = [self.submit(job, "--exclusive") for job in (first, second)]
        self.assertEqual(self.state(numbers[1])[0], "PENDING")
        # What a run leaves whose batch host dies: it is requeued under its number.
        (self.work / f"troupe-{numbers[1]}" / "ca").mkdir(parents=True)
        for number in numbers:
            self.assertEqual(self.end(number), ("COMPLETED", 0), self.log(number))
            self.assertIn("slurm-" + number, self.log(number))
        hashes = {checkpoint_hash(job.with_suffix("")) for job in (first, second)}
        self.assertEqual(hashes, {self.undisturbed(5)})

    def test_the_pages_commands(self):
        """Word for word, but for the number of nodes: there is one here."""
        page = (ROOT / "docs/deploy.md").read_text()
        commands = re.search(r"^```sh slurm\n(.*?)^```$", page, re.M | re.S)[1]
        text = self.job(5).read_text()
        (self.work / "job.toml").write_text(text.replace("\ndevices = 2", "\ndevices = 1"))
        (self.work / "troupe").symlink_to(os.path.abspath(cluster.TROUPE))
        environment = {**self.slurm.environment, "PATH": f"{self.work}:{os.environ['PATH']}"}
        environment.pop("TROUPE")
        (self.work / "troupe.sbatch").unlink()
        done = subprocess.run(["bash", "-euc", commands.replace("--nodes 2", "--nodes 1")],
                              capture_output=True, text=True, env=environment, cwd=self.work,
                              timeout=LIMIT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        number = re.search(r"Submitted batch job (\d+)", done.stdout)[1]
        self.assertEqual(self.end(number), ("COMPLETED", 0), self.log(number))

    def test_the_exit_code_is_the_jobs(self):
        self.assertEqual(self.end(self.sbatch("troupe.sbatch", "none.toml")), ("FAILED", 3))
        self.assertEqual(self.end(self.sbatch("troupe.sbatch")), ("FAILED", 2))
        bad = self.submit(self.job(1), settings=(f"data.train={self.work}/none.rec",))
        self.assertEqual(self.end(bad), ("FAILED", 1), self.log(bad))
        self.assertIn("none.rec", self.log(bad))

    def test_a_job_that_is_too_large_for_the_allocation_ends(self):
        large = self.submit(self.job(1), settings=("workers.machines=2",))
        self.assertEqual(self.end(large), ("FAILED", 7), self.log(large))
        self.assertIn("failed: no room: it needs 4 worker slots; all agents together have 2",
                      self.log(large))

    def goes_on(self, job, number, epochs):
        """`number` ended with a checkpoint: the next run begins where it ended, and no step is
        lost or done twice."""
        self.assertEqual(self.end(number), ("FAILED", 9), self.log(number))
        said = self.log(number).split("asked to end")[1]
        step = int(re.search(r"step-(\d+)-g\d+", said)[1])
        shown = re.findall(r"step (\d+)/", self.log(number))
        self.assertGreaterEqual(step, int(shown[-1]))
        again = self.submit(job)
        self.assertEqual(self.end(again), ("COMPLETED", 0), self.log(again))
        self.assertRegex(self.log(again), rf"goes on at step {step} from")
        self.assertEqual(checkpoint_hash(job.with_suffix("")), self.undisturbed(epochs))

    def test_a_script_that_is_asked_to_end_makes_a_checkpoint(self):
        job = self.job(LONG // 4)
        number = self.submit(job)
        self.wait_for(number, r"step [1-9]\d{3}/")
        self.slurm.run("scancel", "--batch", "--signal=TERM", number).check_returncode()
        self.goes_on(job, number, LONG // 4)

    def test_the_time_limit_makes_a_checkpoint(self):
        longer = 4 * LONG  # than a minute, on any machine
        job = self.job(longer)
        number = self.submit(job, "--time=2", "--signal=B:TERM@60")
        self.goes_on(job, number, longer)

    def test_a_cancelled_job_ends_at_once_and_goes_on_from_a_planned_checkpoint(self):
        job = self.job(LONG // 4)
        number = self.submit(job)
        self.wait_for(number, r"step [1-9]\d{3}/")
        self.slurm.run("scancel", number).check_returncode()
        self.assertEqual(self.end(number)[0], "CANCELLED", self.log(number))
        again = self.submit(job)
        self.assertEqual(self.end(again), ("COMPLETED", 0), self.log(again))
        self.assertRegex(self.log(again), r"goes on at step \d+000 from")
        self.assertEqual(checkpoint_hash(job.with_suffix("")), self.undisturbed(LONG // 4))


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Machines that do not share a folder of checkpoints, with real processes: the coordinator keeps a
copy of each checkpoint, and a job goes on from it on any machine.

Usage: copies_test.py TROUPE [unittest arguments]. Every program runs in a folder of its own, and
jobs write to /proc/self/cwd/out: one path, and another folder for each.
"""
import os
import shutil
import signal
import time

import cluster
from cluster import DEADLINE_S, ClusterCase, checkpoint_hash, run_local, write_job

EPOCHS = 20  # of 20 steps: long enough to be disturbed
NEVER = 'checkpoint.every="1000 epochs"'
OWN = 'checkpoint.dir="/proc/self/cwd/out"'
SHARDS = "servers.shards=2"


def files(folder, pattern="step-*"):
    return sorted(path.name for path in (folder / "out").glob(pattern))


class CopiesTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", epochs=EPOCHS)

    def cluster(self, agents, more=()):
        """Each program in a folder of its own; of agents called `more`, too."""
        self.places = {}
        for name in ("coordinator", *agents, *more):
            self.places[name] = self.folder / self._testMethodName / f"at-{name}"
            self.places[name].mkdir(parents=True)
        words = {name: (["env", "-C", str(place)], "127.0.0.1")
                 for name, place in self.places.items()}
        folder = self.folder / self._testMethodName
        made = cluster.Cluster(folder, agents, places=words)
        self.addCleanup(made.end)
        return made

    def finish(self, made, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err + "\n" + made.text()

    def test_the_coordinator_has_every_checkpoint_whole(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "whole", EPOCHS)
        settings = (OWN, SHARDS, 'checkpoint.every="40 steps"', "checkpoint.keep=3")
        code, out, log = self.finish(made, made.submit(job, *settings, name="whole"))
        self.assertEqual(code, 0, log)
        self.assertIn("do not see the coordinator's /proc/self/cwd/out", log)
        kept = self.places["coordinator"]
        self.assertEqual(len(files(kept, "*.manifest")), 3)
        self.assertEqual(checkpoint_hash(kept / "out"), self.undisturbed)
        # On the machines is what they wrote of the newest one, each its own part.
        parts = [files(self.places[name], "*.safetensors") for name in "ab"]
        self.assertEqual(sorted(len(part) for part in parts), [1, 1], log)
        self.assertNotEqual(parts[0], parts[1])
        # All of it is there: submitted again, the job is done.
        code, _, log = self.finish(made, made.submit(job, *settings, name="whole"))
        self.assertEqual(code, 0, log)

    def test_a_job_goes_on_where_its_files_have_never_been(self):
        made = self.cluster({"a": 2, "b": 2}, more=("c", "d"))
        job = write_job(self.folder, "elsewhere", EPOCHS)
        submitted = made.submit(job, OWN, SHARDS, NEVER, name="elsewhere")
        made.wait_status("elsewhere", r"step [1-9]")
        code, out, log = self.finish(made, made.troupe("job", "stop", "elsewhere", "--checkpoint",
                                                       "--json"))
        self.assertEqual(code, 0, log)
        self.finish(made, submitted)
        for name in "ab":
            made.processes[name].send_signal(signal.SIGTERM)
            made.processes[name].wait(timeout=DEADLINE_S)
        for name in "cd":
            made.start_agent(name, 2)
            made.wait_for(name, "joined the coordinator")
        again = made.submit(job, OWN, SHARDS, NEVER, name="elsewhere")
        code, _, log = self.finish(made, again)
        self.assertEqual(code, 0, log)
        self.assertRegex((made.logs / "coordinator").read_text(), r"goes on at step \d+")
        self.assertEqual(checkpoint_hash(self.places["coordinator"] / "out"), self.undisturbed)
        for name in "cd":  # each got the files of its own shard
            self.assertIn("job elsewhere: gets step-", (made.logs / name).read_text())
            self.assertEqual(len(files(self.places[name], "*.safetensors")), 1)

    def test_a_machine_that_leaves_loses_no_step(self):
        made = self.cluster({"a": 2, "b": 2}, more=("c",))
        job = write_job(self.folder, "moved", EPOCHS)
        submitted = made.submit(job, OWN, SHARDS, NEVER, name="moved")
        made.wait_status("moved", r"step [1-9]")
        made.start_agent("c", 2)
        made.wait_for("c", "joined the coordinator")
        made.processes["b"].send_signal(signal.SIGTERM)
        self.assertEqual(made.processes["b"].wait(timeout=DEADLINE_S), 0)
        code, _, log = self.finish(made, submitted)
        self.assertEqual(code, 0, log)
        self.assertIn("job moved: gets step-", (made.logs / "c").read_text())
        self.assertEqual(checkpoint_hash(self.places["coordinator"] / "out"), self.undisturbed)

    def test_a_copy_that_is_damaged_is_set_aside(self):
        made = self.cluster({"a": 2, "b": 2}, more=("c", "d"))
        job = write_job(self.folder, "damaged", EPOCHS)
        words = (OWN, SHARDS, 'checkpoint.every="40 steps"', "checkpoint.keep=2",
                 "train.max_steps=130")
        code, _, log = self.finish(made, made.submit(job, *words, name="damaged"))
        self.assertEqual(code, 0, log)
        for name in "ab":
            made.processes[name].terminate()
            made.processes[name].wait(timeout=DEADLINE_S)
            made.start_agent({"a": "c", "b": "d"}[name], 2)
            made.wait_for({"a": "c", "b": "d"}[name], "joined the coordinator")
        out = self.places["coordinator"] / "out"
        newest = sorted(out.glob("step-130-*.safetensors"))[0]
        with open(newest, "r+b") as file:
            file.seek(-3, os.SEEK_END)
            file.write(b"xyz")
        words = words[:-1]
        code, _, log = self.finish(made, made.submit(job, *words, name="damaged-2"))
        self.assertEqual(code, 0, log)
        self.assertIn("the checkpoint was set aside", log)
        self.assertRegex(log, r"goes on at step 120 from")
        self.assertEqual(checkpoint_hash(out), self.undisturbed)

    def test_outside_of_its_root_the_coordinator_keeps_nothing(self):
        folder = self.folder / self._testMethodName
        made = self.cluster({"a": 2, "b": 2})
        made.end()
        root = folder / "root"
        root.mkdir()
        made.options = ("--checkpoint-root", root)
        made.start_coordinator()
        made.options = ()
        for name in "ab":
            made.start_agent(name, 2)
            made.wait_for(name, "joined the coordinator")
        job = write_job(self.folder, "outside", EPOCHS)
        code, _, log = self.finish(made, made.submit(job, OWN, name="outside"))
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"checkpoint.dir /proc/self/cwd/out: the coordinator cannot write "
                              r"there: .*outside")

    def test_what_machines_hold_of_another_job_costs_a_job_nothing(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "mine", EPOCHS)
        words = (OWN, SHARDS, NEVER, "checkpoint.keep=1")
        code, _, log = self.finish(made, made.submit(job, *words, "seed=5", "train.max_steps=80",
                                                     name="theirs"))
        self.assertEqual(code, 0, log)
        for place in self.places.values():
            shutil.move(place / "out", place / "theirs")
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=40",
                                                     name="mine"))
        self.assertEqual(code, 0, log)
        for name in "ab":
            shutil.rmtree(self.places[name] / "out")
            shutil.move(self.places[name] / "theirs", self.places[name] / "out")
        code, _, log = self.finish(made, made.submit(job, *words, name="mine-2"))
        self.assertEqual(code, 0, log)
        self.assertRegex(log, r"step-80-g1 is not collected: step-80-g1 is of "
                              r"another job")
        self.assertIn("goes on at step 40 from", log)
        self.assertEqual(checkpoint_hash(self.places["coordinator"] / "out"), self.undisturbed)

    def test_what_is_damaged_at_the_coordinator_comes_from_the_machines(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "again", EPOCHS)
        words = (OWN, SHARDS, NEVER, "checkpoint.keep=1")
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=40",
                                                     name="again"))
        self.assertEqual(code, 0, log)
        out = self.places["coordinator"] / "out"
        first, second = sorted(out.glob("*.safetensors"))
        os.truncate(first, 100)
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=60",
                                                     name="again-2"))
        self.assertEqual(code, 0, log)
        self.assertIn("goes on at step 40 from", log)
        # Of the right size, and found damaged when its header is read.
        first = sorted(out.glob("*.safetensors"))[0]
        with open(first, "r+b") as file:
            file.write(b"not a header")
        code, _, log = self.finish(made, made.submit(job, *words, name="again-3"))
        self.assertEqual(code, 0, log)
        self.assertIn("the checkpoint was set aside", log)
        self.assertIn("goes on at step 60 from", log)
        self.assertEqual(checkpoint_hash(out), self.undisturbed)

    def test_two_ways_to_one_folder_are_one_job_s(self):
        made = self.cluster({"a": 2, "b": 2, "c": 2, "d": 2})
        job = write_job(self.folder, "ways", EPOCHS)
        other = self.places["coordinator"] / "other"
        other.symlink_to(self.places["coordinator"] / "out")
        first = made.submit(job, OWN, SHARDS, "train.epochs=200", name="first")
        made.wait_status("first", r"step [1-9]")
        second = made.submit(job, 'checkpoint.dir="/proc/self/cwd/other"', SHARDS, name="second")
        code, _, log = self.finish(made, second)
        self.assertEqual(code, 1, log)
        self.assertIn("checkpoint.dir /proc/self/cwd/other: another job keeps its checkpoints "
                      "there, perhaps by another path", log)
        self.finish(made, made.troupe("job", "stop", "first"))
        self.finish(made, first)
        # It is free again.
        code, _, log = self.finish(made, made.submit(
            job, 'checkpoint.dir="/proc/self/cwd/other"', SHARDS, "train.epochs=200", name="third"))
        self.assertNotIn("job third failed: checkpoint.dir", log)

    def test_parts_of_what_was_given_up_go_where_a_machine_shares_the_folder(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "parts", EPOCHS)
        self.share("coordinator", "a")
        own = self.places["b"] / "out"
        own.mkdir()
        (own / "step-40-g1-shard-1-of-2.safetensors").mkdir()  # in the way
        words = (OWN, SHARDS, "checkpoint.keep=0", 'checkpoint.every="20 steps"')
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=60",
                                                     name="parts"))
        self.assertEqual(code, 0, log)
        kept = files(self.places["coordinator"])
        self.assertEqual([name for name in kept if name.startswith("step-40-")], [])
        self.assertEqual(len(kept), 3 * 2)

    def share(self, *names):
        """These have one folder: the first one's."""
        first = self.places[names[0]] / "out"
        first.mkdir()
        for name in names[1:]:
            (self.places[name] / "out").symlink_to(first)

    def test_what_machines_hold_is_not_lost_when_the_coordinator_changes_its_place(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "blind", EPOCHS)
        words = (OWN, SHARDS, 'checkpoint.every="40 steps"', "checkpoint.keep=0")
        self.share("a", "b", "coordinator")
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=130",
                                                     name="blind"))
        self.assertEqual(code, 0, log)
        self.assertNotIn("not see", log)
        held = files(self.places["a"])
        self.assertEqual(len(held), 4 * 3)
        (self.places["coordinator"] / "out").unlink()  # its mount is missing
        code, _, log = self.finish(made, made.submit(job, *words, name="blind"))
        self.assertEqual(code, 0, log)
        self.assertIn("collects step-130-g1, which its machines hold", log)
        self.assertRegex(log, r"goes on at step 130 from")
        self.assertEqual(checkpoint_hash(self.places["coordinator"] / "out"), self.undisturbed)
        copied = files(self.places["coordinator"])
        for name in held:  # of another run: nothing is removed that nobody else has
            self.assertTrue(name in files(self.places["a"]) or name in copied, name)
        self.assertIn("step-40-g1.manifest", files(self.places["a"]))

    def test_what_the_coordinator_shares_with_one_machine_is_its_own(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "half", EPOCHS)
        self.share("coordinator", "a")
        code, _, log = self.finish(made, made.submit(job, OWN, SHARDS, "checkpoint.keep=0",
                                                     'checkpoint.every="80 steps"', name="half"))
        self.assertEqual(code, 0, log)
        self.assertIn("machine 'b' does not see", log)
        self.assertEqual(len(files(self.places["coordinator"], "*.manifest")), 5)
        self.assertEqual(checkpoint_hash(self.places["coordinator"] / "out"), self.undisturbed)
        self.assertEqual(len(files(self.places["b"], "*.safetensors")), 1)

    def test_machines_that_share_what_the_coordinator_does_not_see(self):
        made = self.cluster({"a": 1, "b": 1, "c": 1, "d": 1})
        job = write_job(self.folder, "four", EPOCHS)
        self.share("a", "b", "c", "d")
        words = (OWN, NEVER, "workers.machines=4", "workers.devices=1", "train.max_steps=40")
        code, _, log = self.finish(made, made.submit(job, *words, name="four"))
        self.assertEqual(code, 0, log)
        self.assertEqual(len(files(self.places["coordinator"], "*.manifest")), 1)

    def test_a_copy_that_fails_leaves_what_is_whole(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "kept", EPOCHS)
        out = self.places["coordinator"] / "out"
        for shard in (0, 1):  # a folder in the way
            (out / f"step-40-g1-shard-{shard}-of-2.safetensors").mkdir(parents=True)
        words = (OWN, SHARDS, NEVER, "train.max_steps=40")
        code, _, log = self.finish(made, made.submit(job, *words, name="kept"))
        self.assertEqual(code, 1, log)
        self.assertIn("no copy at the coordinator", log)
        # A run that begins anew in the meantime takes nothing of it from any machine.
        code, _, log = self.finish(made, made.submit(
            job, OWN, SHARDS, "checkpoint.keep=1", 'checkpoint.every="10 steps"',
            "train.max_steps=30", name="anew"))
        self.assertEqual(code, 0, log)
        held = files(self.places["a"], "step-40-*") + files(self.places["b"], "step-40-*")
        self.assertEqual(len(held), 3, log)  # two parts and a manifest
        for path in out.iterdir():
            if path.is_dir():
                path.rmdir()
        code, _, log = self.finish(made, made.submit(job, *words, name="kept"))
        self.assertEqual(code, 0, log)
        self.assertIn("collects step-40-g1", log)
        self.assertRegex(log, r"kept goes on at step 40 from \S+step-40-g1")
        # The next checkpoint is the one that all keep, on the machine with the manifest, too.
        code, _, log = self.finish(made, made.submit(job, OWN, SHARDS, NEVER, "checkpoint.keep=1",
                                                     "train.max_steps=60", name="more"))
        self.assertEqual(code, 0, log)
        def left():  # machines remove in the background
            return [name for place in self.places.values() for name in files(place)
                    if not name.startswith("step-60-")]
        deadline = time.monotonic() + DEADLINE_S
        while left() and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left(), [], log)

    def test_a_copy_that_fails_does_not_count_where_a_machine_shares_the_folder(self):
        made = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "count", EPOCHS)
        self.share("coordinator", "b")
        out = self.places["coordinator"] / "out"
        (out / "step-40-g1-shard-0-of-2.safetensors").mkdir()  # in the way of the copy
        words = (OWN, SHARDS, "checkpoint.keep=2", 'checkpoint.every="20 steps"')
        code, _, log = self.finish(made, made.submit(job, *words, "train.max_steps=60",
                                                     name="count"))
        self.assertEqual(code, 0, log)
        self.assertEqual(files(self.places["coordinator"], "*.manifest"),
                         ["step-20-g1.manifest", "step-60-g1.manifest"])


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real processes on loopback: a coordinator, agents and jobs of the built `troupe`.

Usage: company_test.py TROUPE [unittest arguments]. Data is made here: noise with labels, enough to
see whether bits are equal.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.request

import cluster
from cluster import (DEADLINE_S, Cluster, ClusterCase, checkpoint_hash, children_of, run_local,
                     troupe, write_job)

LONG_EPOCHS = 20  # of 20 steps: long enough to be disturbed
LONGER_EPOCHS = 100  # and watched for a second before


class CompanyTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", epochs=1)
        cls.undisturbed_long = run_local(cls.folder, "long", epochs=LONG_EPOCHS)

    def finish(self, cluster, process):
        try:
            out, err = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.fail(f"no end in {DEADLINE_S} s:\n{cluster.text()}")
        return process.returncode, out, err + "\n" + cluster.text()

    def assert_no_children(self, cluster):
        for name, process in cluster.processes.items():
            if process.poll() is None:
                self.assertEqual(children_of(process.pid), {}, name)

    def test_two_agents_give_the_bits_of_one_process(self):
        cluster = self.cluster({"a": 2, "b": 2})
        for shards in (1, 3):
            name = f"shards{shards}"
            job = write_job(self.folder, name, 1)
            code, out, log = self.finish(cluster, cluster.submit(job, f"servers.shards={shards}"))
            self.assertEqual(code, 0, log)
            self.assertIn("test accuracy", out)
            self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)
        self.assert_no_children(cluster)

    def test_a_jobs_end_is_one_document(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "told", 1)
        # Nothing in a process of the job may ask what the processor has before the job caps that.
        submitted = cluster.troupe("job", "submit", job, "--id", "told", "--wait", "--json",
                                   "--set", "numerics.isa=avx2")
        code, out, log = self.finish(cluster, submitted)
        self.assertEqual(code, 0, log)
        end = json.loads(out)
        self.assertEqual((end["id"], end["state"], end["step"], end["steps_total"]),
                         ("told", "succeeded", 20, 20))
        text = cluster.wait_status("told", r"state succeeded")
        self.assertIn("step 20/20\n", text)
        self.assertIn(f"loss {end['loss']:.4f}\n", text)
        self.assertIn(f"test accuracy {end['test_accuracy']:.4f}\n", text)
        self.assertIn(f"checkpoint {end['checkpoint']}\n", text)
        for verb in ("wait", "status"):
            again = cluster.troupe("job", verb, "told", "--json")
            told = json.loads(again.communicate(timeout=DEADLINE_S)[0])
            self.assertGreaterEqual(told.pop("age_seconds"), end["age_seconds"])
            self.assertEqual(told, {key: end[key] for key in end if key != "age_seconds"})

    def test_uneven_agents_give_the_same_bits(self):
        cluster = self.cluster({"a": 3, "b": 1})
        code, _, log = self.finish(cluster, cluster.submit(write_job(self.folder, "uneven", 1)))
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / "uneven"), self.undisturbed)

    def assert_gone(self, pids):
        """Soon none of the processes is there any more."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            left = [pid for pid in pids if self.command_of(pid)]
            if not left:
                return
            time.sleep(0.05)
        self.fail(f"still there: {[self.command_of(pid) for pid in left]}")

    @staticmethod
    def command_of(pid):
        """Empty when it has ended."""
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""

    @staticmethod
    def waits_of(pid):
        """So often its threads have gone to sleep: as often on a busy machine as on an idle one."""
        return sum(int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", task.read_text()).group(1))
                   for task in pathlib.Path(f"/proc/{pid}/task").glob("*/status"))

    @staticmethod
    def job_processes(cluster):
        return [pid for process in cluster.processes.values() for pid in children_of(process.pid)]

    def kill_and_resume(self, name, choose, expected):
        """Kills what choose(cluster) names in a running job; the same job then ends as ever."""
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, name, LONG_EPOCHS)
        submitted = cluster.troupe("job", "submit", job, "--id", name, "--wait")
        cluster.wait_status(name, r"checkpoint ")
        processes = self.job_processes(cluster)
        self.assertEqual(len(processes), 4)
        os.kill(choose(cluster), signal.SIGKILL)
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 1, log)
        self.assertRegex(log, expected)
        self.assert_gone(processes)
        if cluster.processes["b"].poll() is not None:  # 'a' has two places: it needs two more
            cluster.start("b2", "agent", "--join", cluster.address, "--name", "b2", "--devices",
                          "cpu:2")
        code, _, log = self.finish(cluster, cluster.submit(job))
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed_long)

    @staticmethod
    def child(cluster, agent, role):
        for pid, words in children_of(cluster.processes[agent].pid).items():
            if role in words:
                return pid
        raise AssertionError(f"agent {agent} has no {role}")

    def test_killed_host_process(self):
        self.kill_and_resume("killed-a", lambda cluster: self.child(cluster, "b", "host"),
                             r"host process of machine 'b' \(ranks 2, 3\) was killed by signal 9")

    def test_killed_parameter_server(self):
        self.kill_and_resume("killed-b", lambda cluster: self.child(cluster, "b", "server"),
                             r"parameter server 1 on machine 'b' was killed by signal 9")

    def test_killed_agent(self):
        self.kill_and_resume("killed-c", lambda cluster: cluster.processes["b"].pid,
                             r"agent of machine 'b' is lost \((?!silent).*ranks 2, 3")

    def test_killed_coordinator(self):
        undisturbed = run_local(self.folder, "longer", LONGER_EPOCHS)
        cluster = self.cluster({"a": 2, "b": 2}, agent_options=("--join-wait", "9s"))
        job = write_job(self.folder, "orphan", LONGER_EPOCHS)
        submitted = cluster.troupe("job", "submit", job, "--id", "orphan", "--wait", "--grace",
                                   "3s")
        cluster.wait_status("orphan", r"checkpoint ")
        time.sleep(1)  # the waiting command looks, too
        processes = self.job_processes(cluster)
        self.assertEqual(len(processes), 4)
        cluster.coordinator.kill()
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 4, log)
        self.assertRegex(log, r"lost the coordinator.*tries again for [23] s")
        self.assertRegex(log, r"resumes from .*step-")
        for name in ("a", "b"):
            self.assertEqual(cluster.processes[name].wait(timeout=DEADLINE_S), 4, cluster.text())
            self.assertIn("its processes (2) stop in 5000 ms", (cluster.logs / name).read_text())
        self.assert_gone(processes)
        code, _, log = self.finish(*self.another_cluster(job))
        self.assertEqual(code, 0, log)
        self.assertRegex(log, r"job \S+ goes on at step [1-9]\d* from .*step-")
        self.assertEqual(checkpoint_hash(self.folder / "orphan"), undisturbed)

    def another_cluster(self, job):
        """The same job under a new coordinator: the cluster and the submitting command."""
        folder = self.folder / "another"
        folder.mkdir()
        cluster = Cluster(folder, {"a": 2, "b": 2})
        self.addCleanup(cluster.end)
        return cluster, cluster.submit(job)

    def test_stop_names_the_checkpoint_and_resumes(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "stopped", LONG_EPOCHS)
        cluster.troupe("job", "submit", job, "--id", "stopped").communicate(timeout=DEADLINE_S)
        cluster.wait_status("stopped", r"checkpoint ")
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "stopped"))
        self.assertEqual(code, 0, log)
        self.assertRegex(out, r"stopped: .*resumes from .*step-")
        code, _, log = self.finish(cluster, cluster.submit(job))
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / "stopped"), self.undisturbed_long)

    def test_a_job_that_left_no_checkpoint_begins_again(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "again", LONG_EPOCHS)
        submit = ["job", "submit", job, "--id", "again", "--set", 'checkpoint.every="0 steps"']
        for _ in range(2):
            self.assertEqual(self.finish(cluster, cluster.troupe(*submit))[0], 0)
            cluster.wait_status("again", r"step +[1-9]")
            code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "again"))
            self.assertEqual(code, 0, log)
            self.assertIn("no checkpoint was reported", out)
        code, _, log = self.finish(cluster, cluster.troupe(*submit, "--wait"))
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / "again"), self.undisturbed_long)

    def test_watching_may_end_before_the_job(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "watched", LONG_EPOCHS)
        submitted = cluster.troupe("job", "submit", job, "--id", "watched", "--wait")
        cluster.wait_status("watched", r"checkpoint ")
        submitted.send_signal(signal.SIGINT)
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 130, log)
        self.assertIn(f"`troupe --coordinator {cluster.address} job wait watched` watches", log)
        code, _, log = self.finish(cluster, cluster.troupe("job", "wait", "watched"))
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / "watched"), self.undisturbed_long)

    def test_a_held_job_sleeps_and_ends_when_it_is_stopped(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "held", 1)
        submitted = cluster.troupe("job", "submit", job, "--id", "held", "--wait", "--set",
                                   'train.hold="until-scraped"')
        cluster.wait_status("held", r"state stopping")
        time.sleep(1)  # what was on its way has arrived
        processes = self.job_processes(cluster)
        before = [self.waits_of(pid) for pid in processes]
        time.sleep(5)
        for pid, waits in zip(processes, before):
            self.assertLess(self.waits_of(pid) - waits, 100, self.command_of(pid))
        code, out, log = self.finish(cluster, cluster.troupe("job", "stop", "held"))
        self.assertEqual((code, out), (0, "held succeeded\n"), log)
        self.assertEqual(self.finish(cluster, submitted)[0], 0)
        self.assert_no_children(cluster)
        self.assertEqual(checkpoint_hash(self.folder / "held"), self.undisturbed)

    def test_targets_are_scraped(self):
        cluster = self.cluster({"a": 2, "b": 2})
        job = write_job(self.folder, "scraped", 1)
        submitted = cluster.submit(job, 'train.hold="until-scraped"')
        deadline = time.monotonic() + DEADLINE_S
        steps = {}
        while time.monotonic() < deadline and submitted.poll() is None:
            address = f"http://{cluster.http}/sd/targets"
            with urllib.request.urlopen(address, timeout=DEADLINE_S) as reply:
                targets = json.load(reply)
            for target in targets:
                try:
                    url = f"http://{target['targets'][0]}/metrics"
                    with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
                        text = reply.read().decode()
                except OSError:
                    continue  # has just ended
                for rank, value in re.findall(r'troupe_worker_steps_total{rank="(\d)"} (\S+)',
                                              text):
                    steps[rank] = float(value)
            time.sleep(0.2)
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 0, log)
        self.assertEqual(steps, {str(rank): 20.0 for rank in range(4)})

    def test_a_closed_cluster_has_no_room(self):
        """A job that is too large ends when all agents are there, and not before."""
        cluster = self.cluster({"a": 2}, coordinator_options=("--agents", 2))
        job = write_job(self.folder, "no-room", 1)
        submitted = cluster.submit(job, name="large")
        cluster.wait_status("large", r"waits for 4 worker slots; all agents together have 2; "
                                     r"1 of 2 agents is not there")
        cluster.start_agent("b", 1)
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 7, log)
        self.assertIn("error: job large failed: no room: it needs 4 worker slots; "
                      "all agents together have 3\n", log)
        # One that has room trains.
        code, _, log = self.finish(cluster, cluster.submit(job, "workers.machines=1"))
        self.assertEqual(code, 0, log)

    def test_a_closed_cluster_waits_no_longer_for_an_agent_than_it_may(self):
        cluster = self.cluster({"a": 2},
                               coordinator_options=("--agents", 2, "--join-wait", "2s"))
        submitted = cluster.submit(write_job(self.folder, "never", 1), name="large")
        code, _, log = self.finish(cluster, submitted)
        self.assertEqual(code, 7, log)
        self.assertIn("error: job large failed: no room: it needs 4 worker slots; all agents "
                      "together have 2; 1 of 2 agents is not there\n", log)
        done = troupe("coordinator", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
                      "--state", self.folder / "open", "--join-wait", "2s")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--join-wait requires --agents", done.stderr)

    def test_second_coordinator_is_refused(self):
        cluster = self.cluster({})
        second = troupe("coordinator", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0",
                        "--state", cluster.folder / "state")
        self.assertEqual(second.returncode, 6, second.stderr)
        self.assertIn("is in use by another process", second.stderr)

    def test_other_addresses_need_tls(self):
        for words in (["--listen", "0.0.0.0:0", "--metrics", "127.0.0.1:0"],
                      ["--listen", "node1:0", "--metrics", "127.0.0.1:0"]):
            done = troupe("coordinator", *words, "--state", self.folder / "tls")
            self.assertEqual(done.returncode, 8, done.stderr)

    def test_absent_coordinator(self):
        for words in (["--coordinator", "127.0.0.1:1", "job", "list"],
                      ["agent", "--join", "127.0.0.1:1", "--name", "a", "--join-wait", "300ms"]):
            done = troupe(*words)
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertIn("127.0.0.1:1", done.stderr)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coordinator, agents and children are restarted, frozen, cut off: who comes back is taken in.

Usage: rejoin_test.py TROUPE [unittest arguments].
"""
import os
import signal
import socket
import threading
import time

import cluster
from cluster import (DEADLINE_S, ClusterCase, checkpoint_hash, children_of, run_local, write_job)

EPOCHS = 40  # of 20 steps: long enough to be disturbed
IMPATIENT = "silence_dead_ms = 3000\nping_ms = 200\n"


class Proxy:
    """Carries connections to `target`, unless they are to be cut."""

    def __init__(self, target):
        host, port = target.rsplit(":", 1)
        self.target = (host, int(port))
        self.cutting = False
        self.pairs = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                near = self.listener.accept()[0]
            except OSError:
                return
            if self.cutting:
                near.close()
                continue
            far = socket.create_connection(self.target)
            self.pairs.append((near, far))
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=(one, other), daemon=True).start()

    @staticmethod
    def carry(one, other):
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        for end in (one, other):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def cut(self, seconds):
        self.cutting = True
        for pair in self.pairs:
            for end in pair:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        time.sleep(seconds)
        self.cutting = False

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class RejoinTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", epochs=EPOCHS)

    def begin(self, made, name, *words):
        """Submits a job that trains when this returns."""
        job = write_job(self.folder, name, EPOCHS)
        submitted = made.troupe("job", "submit", job, "--id", name, "--wait", *words)
        made.wait_status(name, r"checkpoint ")
        return job, submitted

    def finish(self, made, process):
        out, err = process.communicate(timeout=DEADLINE_S)
        return process.returncode, out, err + "\n" + made.text()

    def assert_done(self, made, process, name):
        code, _, log = self.finish(made, process)
        self.assertEqual(code, 0, log)
        self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)

    def test_agents_join_a_coordinator_that_was_started_anew(self):
        made = self.cluster({"a": 2, "b": 2})
        job, submitted = self.begin(made, "anew")
        made.coordinator.kill()
        made.coordinator.wait()
        time.sleep(0.5)
        made.start_coordinator()
        for name in ("a", "b"):
            made.wait_for(name, "joined the coordinator", times=2)
            made.wait_for(name, r"lost the coordinator: .*; tries again for 600 s")
            made.wait_for(name, r"does not know this agent's job anew any more")
        code, _, log = self.finish(made, submitted)
        self.assertEqual(code, 4, log)
        self.assertRegex(log, r"started anew and does not know job anew")
        for name in ("a", "b"):
            self.assertEqual(children_of(made.processes[name].pid), {})
        self.assert_done(made, made.submit(job), "anew")

    def test_a_frozen_agent_joins_again(self):
        made = self.cluster({"a": 2, "b": 2}, limits=IMPATIENT)
        job, submitted = self.begin(made, "frozen")
        made.processes["b"].send_signal(signal.SIGSTOP)
        made.wait_for("coordinator", "agent 'b' is gone: .*silent for")
        made.processes["b"].send_signal(signal.SIGCONT)
        made.wait_for("b", "joined the coordinator", times=2)
        code, _, log = self.finish(made, submitted)
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"agent of machine 'b' is lost")
        self.assert_done(made, made.submit(job), "frozen")
        self.assertNotIn("level=debug", made.text())

    def test_an_agent_waits_for_the_end_of_its_frozen_forerunner(self):
        made = self.cluster({"a": 2}, limits=IMPATIENT)
        made.processes["a"].send_signal(signal.SIGSTOP)
        try:
            made.start_agent("a", 2, log="a-again")
            made.wait_for("a-again", "an agent named 'a' has joined already; tries again for")
            made.wait_for("a-again", "joined the coordinator")
        finally:
            made.processes["a"].send_signal(signal.SIGCONT)
        made.wait_for("a", "an agent named 'a' has joined already; tries again for")

    def test_an_agent_that_was_killed_is_replaced_when_its_link_is_given_up(self):
        made = self.cluster({"a": 2}, limits=IMPATIENT)
        made.processes["a"].kill()
        made.wait_for("coordinator", "the link to agent 'a' is cut")
        made.start_agent("a", 2, log="a-again")
        made.wait_for("a-again", "joined the coordinator")
        made.wait_for("coordinator", "agent 'a' is gone: ")
        self.assertNotIn("it has joined anew", made.text())

    def test_a_cut_of_seconds_disturbs_no_job(self):
        made = self.cluster({"a": 2})
        proxy = Proxy(made.address)
        self.addCleanup(proxy.close)
        made.start_agent("b", 2, address=proxy.address)
        made.wait_for("b", "joined the coordinator")
        _, submitted = self.begin(made, "cut")
        proxy.cut(3.5)
        made.wait_for("b", "the link to the coordinator is whole again")
        self.assert_done(made, submitted, "cut")

    def test_a_hung_process_is_killed_by_its_agent(self):
        made = self.cluster({"a": 2, "b": 2}, limits=IMPATIENT, options=("-v",))
        _, submitted = self.begin(made, "hung")
        host = next(pid for pid, words in children_of(made.processes["b"].pid).items()
                    if "host" in words)
        self.assertIn("--verbose", children_of(made.processes["b"].pid)[host])
        os.kill(host, signal.SIGSTOP)
        code, _, log = self.finish(made, submitted)
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"host process of machine 'b' \(ranks 2, 3\) hung and was killed: "
                              r".*silent for")
        made.wait_for("b", rf"host process \(ranks 2, 3\) is process {host}")
        made.wait_for("b", rf"host process \(ranks 2, 3\), process {host}, has ended: signal 9")
        made.wait_for("coordinator", rf'level=debug msg="[^"]*is ready: process {host}, http://')
        made.wait_for("coordinator", r'level=info msg="[^"]*job hung submitted: 4 rank')


if __name__ == "__main__":
    cluster.main()

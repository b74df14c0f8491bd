#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""troupe run --hosts over an ssh that stands in: each host is a home folder on this machine.

Usage: hosts_test.py TROUPE [unittest arguments].
"""
import http.client
import json
import os
import pathlib
import re
import signal
import ssl
import stat
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import cluster
from cluster import DEADLINE_S, checkpoint_hash, run_local, troupe, write_job

# What ssh is told, `ssh -x DESTINATION COMMAND`, is done here, as that host's user. $HOSTS: our
# folder. A host whose home has a file `refuses` says what is in it; one with `hangs` says nothing;
# one with `small` offers a slot less than it is asked for.
SSH = """#!/bin/sh
[ "$#" = 3 ] && [ "$1" = -x ] || exit 64
home=$HOSTS/${2#*@}
echo $$ >"$home/ssh.pid"
if [ -f "$home/refuses" ]; then cat "$home/refuses" >&2; exit 255; fi
if [ -f "$home/hangs" ]; then exec sleep 600; fi
cd "$home" || exit 255
HOME=$home TMPDIR=$home/tmp SSH_CONNECTION="127.0.0.1 50000 127.0.0.1 22"
export HOME TMPDIR SSH_CONNECTION
if [ -f "$home/small" ]; then exec sh -c "$(printf %s "$3" | sed 's/cpu:2/cpu:1/')"; fi
exec sh -c "$3"
"""
LONG = 600  # epochs of 20 steps: some minutes


def processes():
    """{pid: (command line, environment)} of all processes that we may look at."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = ((entry / "cmdline").read_bytes(),
                                          (entry / "environ").read_bytes())
            except OSError:
                continue
    return found


class HostsTest(cluster.ClusterCase):
    def setUp(self):
        self.work = self.folder / self.id().rsplit(".", 1)[1]
        self.work.mkdir()
        self.ssh = self.work / "ssh"
        self.ssh.write_text(SSH)
        self.ssh.chmod(0o755)
        self.hosts = self.work / "hosts"
        for name in ("a", "b"):
            (self.hosts / name / "tmp").mkdir(parents=True)
        self.own = self.work / "tmp"
        self.own.mkdir()
        self.log = self.work / "log"

    def start(self, *words, hosts="a:2,ann@b:2"):
        """`troupe run --hosts`; its messages go to self.log."""
        words = [cluster.TROUPE, "run", "--hosts", hosts, "--ssh", f"{self.ssh} -x",
                 "--advertise", "127.0.0.1", *map(str, words)]
        with open(self.log, "w") as log:
            process = subprocess.Popen(
                words, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
                env={**os.environ, "HOSTS": str(self.hosts), "TMPDIR": str(self.own)})
        self.addCleanup(self.end, process)
        return process

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=DEADLINE_S)

    def finish(self, process):
        """(exit code, standard output, messages) of the program at its own end."""
        out = process.communicate(timeout=DEADLINE_S)[0]
        return process.returncode, out, self.log.read_text()

    def wait_until(self, done, why):
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            self.assertLess(time.monotonic(), deadline, f"{why}\n{self.log.read_text()}")
            time.sleep(0.05)

    def wait_for_step(self, process):
        def trains():
            self.assertIsNone(process.poll(), self.log.read_text())
            return "msg=\"step " in self.log.read_text()
        self.wait_until(trains, "it never trained")

    def ours(self):
        """Processes of the hosts, by what they were started with."""
        mark = f"HOSTS={self.hosts}".encode()
        return {pid: words for pid, (words, environment) in processes().items()
                if mark in environment.split(b"\0")}

    def agent_of(self, host):
        """The process of a host's agent."""
        agents = [pid for pid, words in self.ours().items()
                  if b"\0agent\0" in words and b"\0%s\0" % host.encode() in words and
                  b"--identity" in words]
        self.assertEqual(len(agents), 1)
        return agents[0]

    def check_nothing_is_left(self):
        """No process, no folder; a process may take a moment to end."""
        self.wait_until(lambda: not self.ours(), "processes are left")
        for name in ("a", "b"):
            self.wait_until(lambda: not list((self.hosts / name / "tmp").iterdir()),
                            f"host {name} has files left")

    def check_own_folder(self):
        self.assertEqual(list(self.own.iterdir()), [])

    def test_two_hosts_train_to_the_same_bits(self):
        alone = run_local(self.folder, "alone", 2)
        code, out, log = self.finish(self.start(write_job(self.folder, "over-ssh", 2)))
        self.assertEqual(code, 0, log)
        self.assertRegex(out, r"^test accuracy 0\.\d+\ncheckpoint \S+over-ssh/step-40-g1\n$")
        self.assertRegex(log, r"step 40/40 100%")
        self.assertEqual(checkpoint_hash(self.folder / "over-ssh"), alone)
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_json(self):
        code, out, log = self.finish(
            self.start(write_job(self.folder, "json", 1), "--json", "--quiet"))
        self.assertEqual((code, log), (0, ""))
        job = json.loads(out)
        self.assertEqual((job["state"], job["step"], job["steps_total"]), ("succeeded", 20, 20))

    def test_a_failed_job(self):
        """Its program on the hosts is another path, where it is a link."""
        link = self.work / "other troupe"
        link.symlink_to(os.path.abspath(cluster.TROUPE))
        code, _, log = self.finish(self.start(
            write_job(self.folder, "failed", 1), "--set", "data.train=/no/such/file.rec",
            "--remote-troupe", link))
        self.assertEqual(code, 1, log)
        self.assertRegex(log, r"error: job \S+ failed: .*/no/such/file\.rec")
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_a_host_that_refuses(self):
        (self.hosts / "b/refuses").write_text("ann@b: Permission denied (publickey).\n")
        code, _, log = self.finish(self.start(write_job(self.folder, "refused", 1)))
        self.assertEqual(code, 4, log)
        self.assertIn("error: host 'b': ssh ended (exit 255) and no agent joined: "
                      "ann@b: Permission denied (publickey).", log)
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_a_host_that_never_joins(self):
        (self.hosts / "b/hangs").touch()
        code, _, log = self.finish(
            self.start(write_job(self.folder, "late", 1), "--join-wait", "20s"))
        self.assertEqual(code, 4, log)
        self.assertIn("error: not joined within 20000 ms: host 'b'", log)
        self.assertNotIn("host 'a'", log)
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_a_host_without_the_program(self):
        code, _, log = self.finish(self.start(write_job(self.folder, "bare", 1),
                                              "--remote-troupe", "/no/such/troupe"))
        self.assertEqual(code, 4, log)
        self.assertIn("no program /no/such/troupe here; --remote-troupe PATH", log)
        self.check_nothing_is_left()

    def test_the_pages_of_hosts_are_guarded_like_those_here(self):
        ca, pem, token = (self.work / name for name in ("ca", "pages.pem", "pages.token"))
        troupe("ca", "init", ca, "--cluster", "pages").check_returncode()
        troupe("ca", "issue", ca, "coordinator", "pages", "--out", pem).check_returncode()
        token.write_text("0123456789abcdef0123\n")
        token.chmod(0o600)
        process = self.start(write_job(self.folder, "guarded", LONG), "--metrics", "127.0.0.1:0",
                             "--metrics-tls", pem, "--metrics-token", token)
        self.wait_for_step(process)
        believing = ssl.create_default_context()
        believing.check_hostname = False
        believing.verify_mode = ssl.CERT_NONE

        def read(address, path, scheme="https", word=token.read_text().strip()):
            request = urllib.request.Request(f"{scheme}://{address}{path}",
                                             headers={"Authorization": f"Bearer {word}"})
            with urllib.request.urlopen(request, timeout=DEADLINE_S, context=believing) as answer:
                return answer.read().decode()

        first = re.search(r"https://([0-9.:]+)/metrics and /sd/targets", self.log.read_text())
        targets = set(re.findall(r"127\.0\.0\.1:\d+", read(first[1], "/sd/targets")))
        # The coordinator, two agents, two host processes, two parameter servers.
        self.assertEqual(len(targets), 7)
        for address in targets:
            self.assertIn("troupe_build_info", read(address, "/metrics"))
            with self.assertRaises(urllib.error.HTTPError) as refused:
                read(address, "/metrics", word="another")
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()
            with self.assertRaises((OSError, http.client.HTTPException)):
                read(address, "/metrics", scheme="http")
        for file in self.hosts.glob("*/tmp/*/pages.*"):
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        process.terminate()
        self.finish(process)
        self.check_nothing_is_left()

    def test_more_workers_than_places(self):
        code, _, log = self.finish(self.start(write_job(self.folder, "large", 1), hosts="a:2,b"))
        self.assertEqual(code, 7, log)
        self.assertIn("error: --hosts has 3 slots; the job has 4 workers "
                      "(workers.machines 2, workers.devices 2)", log)
        self.assertFalse((self.hosts / "a/ssh.pid").exists())

    def test_hosts_that_have_less_than_the_job_needs(self):
        """Known when all have joined: nobody waits for more."""
        (self.hosts / "b/small").touch()
        code, _, log = self.finish(self.start(write_job(self.folder, "less", 1)))
        self.assertEqual(code, 7, log)
        self.assertRegex(log, r"error: job \S+ failed: no room: it needs 4 worker slots; "
                              r"all agents together have 3\n")
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_a_job_that_leaves_a_host_and_has_no_room_ends(self):
        process = self.start(write_job(self.folder, "left", LONG), "--set",
                             "checkpoint.every=10000 steps")
        self.wait_for_step(process)
        os.kill(self.agent_of("b"), signal.SIGTERM)
        code, _, log = self.finish(process)
        self.assertEqual(code, 7, log)
        self.assertRegex(log, r"error: job \S+ failed: no room: it needs 4 worker slots; "
                              r"all agents together have 2; it would go on from \S+/step-\d+-g1\n"
                              r"|the hosts that are left have no room for it; it waits for 4")
        self.check_nothing_is_left()

    def test_words_that_are_wrong(self):
        job = write_job(self.folder, "words", 1)
        for words, text in (
                (("--hosts", "a:0"), "--hosts: host 'a:0': '0' is not from 1 to 4096"),
                (("--hosts", "-oProxyCommand=x"), "is no host"),
                (("--hosts", "a", "--ssh", "ssh 'x"), "--ssh: 'ssh 'x': a quote has no end"),
                (("--hosts", "a", "--join-wait", "soon"), "--join-wait"),
                (("--hosts", "a", "--local-store"), "--hosts excludes --local-store"),
                (("--hosts", "a", "--trace", "t.json"), "--hosts excludes --trace"),
                (("--advertise", "node1"), "--advertise requires --hosts")):
            done = troupe("run", job, *words)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        done = troupe("run", job, "--hosts", "no-such-host.invalid:4")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, r"--advertise HOST says it.*no-such-host\.invalid")
        done = troupe("run", job, "--hosts", "a:4", "--advertise", "127.0.0.1", "--ssh", "/no/ssh")
        self.assertEqual(done.returncode, 5, done.stderr)
        self.assertIn("--ssh: /no/ssh cannot be started", done.stderr)

    def test_ctrl_c_ends_with_a_checkpoint_and_the_same_command_goes_on(self):
        job = write_job(self.folder, "cut", LONG)
        every = ("--set", "checkpoint.every=10000 steps")
        process = self.start(job, *every)
        self.wait_for_step(process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of the group
        code, _, log = self.finish(process)
        self.assertEqual(code, 130, log)
        self.assertIn("stopping with a checkpoint; once more to end at once", log)
        path = re.search(r"stopped; the same command goes on from (\S+/step-(\d+)-g1)", log)
        self.assertTrue(path, log)
        self.assertRegex(checkpoint_hash(path[1]), "^[0-9a-f]{64}$")
        self.check_nothing_is_left()
        self.check_own_folder()
        # Again, and it ends by SIGTERM, after where it was.
        process = self.start(job, *every)
        self.wait_for_step(process)
        process.terminate()
        code, _, log = self.finish(process)
        self.assertEqual(code, 143, log)
        self.assertIn(f"goes on at step {path[2]} from {path[1]}", log)

    def test_a_second_signal_ends_at_once(self):
        (self.hosts / "b/hangs").touch()
        process = self.start(write_job(self.folder, "twice", LONG))
        agent = self.hosts / "a/tmp"
        self.wait_until(lambda: list(agent.glob("*/identity.pem")), "no agent came")
        self.wait_until(lambda: (self.hosts / "b/ssh.pid").exists(), "no ssh to b")
        os.kill(process.pid, signal.SIGSTOP)  # so that both come at once
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        os.kill(process.pid, signal.SIGCONT)
        code, _, log = self.finish(process)
        self.assertIn(code, (130, 143), log)
        try:  # it does not look at its input; the first signal may have ended it
            os.kill(int((self.hosts / "b/ssh.pid").read_text()), signal.SIGTERM)
        except ProcessLookupError:
            pass
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_nothing_is_left_when_the_program_is_killed(self):
        process = self.start(write_job(self.folder, "killed", LONG))
        self.wait_for_step(process)
        process.kill()
        self.finish(process)
        self.check_nothing_is_left()

    def test_a_killed_agent_of_a_host_leaves_nothing(self):
        """The job has no room any more and ends; nobody waits for a host that does not come."""
        process = self.start(write_job(self.folder, "lost", LONG))
        self.wait_for_step(process)
        os.kill(self.agent_of("b"), signal.SIGKILL)
        code, _, log = self.finish(process)
        self.assertEqual(code, 1, log)
        self.assertIn("host 'b' has ended (exit 137)", log)
        self.check_nothing_is_left()
        self.check_own_folder()

    def test_no_secret_is_in_a_word_or_a_variable(self):
        process = self.start(write_job(self.folder, "secrets", LONG))
        self.wait_for_step(process)
        identities = list(self.hosts.glob("*/tmp/*/identity.pem"))
        self.assertEqual(len(identities), 2)
        secrets = set()
        for file in identities:
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
            self.assertEqual(stat.S_IMODE(file.parent.stat().st_mode), 0o700)
            text = file.read_text()
            key = re.search(r"-----BEGIN [A-Z ]*PRIVATE KEY-----\n(.*?)\n-----END", text, re.S)
            secrets |= set(key[1].encode().split(b"\n"))
        # The first line of every key of this kind is much the same, so it is none of the secrets
        # that tell them apart; yet it must not be there either.
        self.assertGreaterEqual(len(secrets), 4)
        secrets.add(b"PRIVATE KEY")
        for pid in self.ours():
            words, environment = processes().get(pid, (b"", b""))
            for secret in secrets:
                self.assertNotIn(secret, words)
                self.assertNotIn(secret, environment)
        # Here the authority's key is gone, and nobody else may look at what is left.
        (own,) = self.own.iterdir()
        self.assertEqual(stat.S_IMODE(own.stat().st_mode), 0o700)
        self.assertFalse((own / "ca").exists())
        self.assertEqual(list(own.rglob("authority.pem")), [])
        process.terminate()
        self.finish(process)


if __name__ == "__main__":
    cluster.main()

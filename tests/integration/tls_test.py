#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster whose links speak TLS: the same bits, certificates renewed and revoked while a job
trains, and who is refused. Two hosts are two network namespaces with addresses of their own.

Usage: tls_test.py TROUPE [unittest arguments].
"""
import os
import pathlib
import re
import shutil
import subprocess
import time
import unittest
import urllib.request

import cluster
from cluster import DEADLINE_S, ClusterCase, checkpoint_hash, run_local, troupe, write_job

EPOCHS = 20  # of 20 steps
FORBIDDEN = 8


def issue(ca, role, name, file, *more):
    troupe("ca", "issue", ca, role, name, "--out", file, *more).check_returncode()
    return file


class TlsTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", EPOCHS)

    def identities(self):
        """A new authority's files, and its folder."""
        folder = self.folder / f"ca-{self.id().rsplit('.', 1)[1]}"
        folder.mkdir()
        ca = folder / "ca"
        troupe("ca", "init", ca, "--cluster", "lab").check_returncode()
        people = {"coordinator": ("coordinator", "main"), "a": ("agent", "a"),
                  "b": ("agent", "b"), "person": ("person", "ann")}
        return {each: issue(ca, role, name, folder / f"{each}.pem")
                for each, (role, name) in people.items()}, ca

    def train(self, made, name, *settings):
        job = write_job(self.folder, name, EPOCHS)
        process = made.submit(job, *settings)
        out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual(process.returncode, 0, out + err + made.text())
        self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)

    def test_a_job_over_tls_ends_in_the_same_bits(self):
        identities, _ = self.identities()
        made = self.cluster({"a": 2, "b": 2}, identities=identities)
        self.train(made, "same")

    def test_certificates_are_renewed_and_revoked_while_a_job_trains(self):
        identities, ca = self.identities()
        made = self.cluster({"a": 2, "b": 2}, identities=identities)
        job = write_job(self.folder, "renewed", EPOCHS)
        process = made.submit(job, "workers.machines=1", "workers.devices=2",
                              "train.epochs=100000", name="long")
        made.wait_status("long", r"steps? +[1-9]|step +[1-9]")
        for name in ("coordinator", "a", "b"):
            troupe("ca", "renew", ca, identities[name]).check_returncode()
        for name in ("coordinator", "a", "b"):
            made.wait_for(name, r"read anew, certificate [0-9a-f]{32}")
        for name in ("a", "b"):  # it is shown, and the link heals
            made.wait_for(name, "the link to the coordinator is whole again")
        idle = "b" if "machine b" not in made.wait_status("long", "long") else "a"
        used = "a" if idle == "b" else "b"
        troupe("ca", "revoke", ca, "agent", idle).check_returncode()
        troupe("ca", "renew", ca, identities["coordinator"]).check_returncode()
        made.wait_for("coordinator", rf"{idle}.*it was revoked")
        made.wait_for(idle, r"certificate revoked")
        self.assertIsNone(process.poll(), made.text())
        self.assertIsNone(made.processes[used].poll())
        out, err = made.troupe("job", "stop", "long").communicate(timeout=DEADLINE_S)
        self.assertIn("stopped", out + err)
        process.communicate(timeout=DEADLINE_S)

    def refused(self, command, *texts):
        """The command ends, and says all of `texts`; words before the program may stand first."""
        words = [] if cluster.TROUPE in command else [cluster.TROUPE]
        done = subprocess.run([*words, *map(str, command)], capture_output=True, text=True,
                              timeout=DEADLINE_S)
        self.assertNotEqual(done.returncode, 0)
        for text in texts:
            self.assertIn(text, done.stdout + done.stderr)
        return done

    def test_who_is_refused_and_why(self):
        identities, _ = self.identities()
        made = self.cluster({"a": 1}, identities=identities)
        other = self.folder / "other-ca"
        troupe("ca", "init", other, "--cluster", "lab").check_returncode()
        stranger = issue(other, "agent", "b", self.folder / "stranger.pem")
        expired = issue(pathlib.Path(identities["a"]).parent / "ca", "agent", "late",
                        self.folder / "late.pem", "--for", "1s")
        join = ["agent", "--join", made.address, "--devices", "cpu:1", "--join-wait", "1s",
                "--name"]
        ask = ["--coordinator", made.address, "job", "list"]
        self.refused([*join, "b"], "that port speaks TLS; --identity FILE is missing")
        self.refused(["--identity", stranger, *join, "b"], "not believed")
        self.refused(["--identity", identities["b"], *join, "c"],
                     "--name c: --identity is of agent 'b' of cluster 'lab'")
        self.refused(["--identity", identities["person"], *join, "b"], "not of the role agent")
        self.refused(["--identity", self.folder / "none.pem", *join, "b"], "none.pem")
        old = issue(pathlib.Path(identities["a"]).parent / "ca", "person", "old",
                    self.folder / "old.pem", "--for", "1s")
        time.sleep(1.5)
        done = self.refused(["--identity", old, *ask], "--identity: ",
                            "certificate was valid until", "troupe ca renew")
        self.assertEqual(done.returncode, FORBIDDEN)
        self.refused(["--identity", expired, *join, "late"], "certificate expired")
        made.wait_for("coordinator", "certificate has expired")
        with urllib.request.urlopen(f"http://{made.http}/metrics", timeout=DEADLINE_S) as page:
            ends = re.search(r"^troupe_certificate_expiry_timestamp_seconds (\S+)$",
                             page.read().decode(), re.M)
        self.assertGreater(float(ends[1]), time.time() + 80 * 86400)
        # One whose certificate ends while its link is up gets no job any more, says why, and gets
        # jobs again when its file is renewed.
        made.identities["brief"] = issue(pathlib.Path(identities["a"]).parent / "ca", "agent",
                                         "brief", self.folder / "brief.pem", "--for", "4s")
        made.start_agent("brief", 1)
        made.wait_for("brief", "joined the coordinator")
        ended = "its certificate was valid until"
        made.wait_for("brief", ended)
        job = made.submit(write_job(self.folder, "brief", 1), "workers.machines=1",
                          "workers.devices=2", name="brief")
        made.wait_for("brief", f"offers no slots any more: .*brief.pem: {ended}")
        made.wait_status("brief", f"1 agent offers none, 'brief': .*{ended}")
        troupe("ca", "renew", pathlib.Path(identities["a"]).parent / "ca",
               made.identities["brief"]).check_returncode()
        made.wait_for("brief", "offers its slots again")
        _, err = job.communicate(timeout=DEADLINE_S)
        self.assertEqual(job.returncode, 0, err + made.text())
        made.wait_for("coordinator", "turned away .*: .tls. no greeting of TLS 1.3 came: "
                                     "the peer speaks without TLS: it has no --identity")
        made.wait_for("coordinator", "its certificate is not believed|the peer refused")
        self.refused(ask)
        self.refused(["--identity", identities["a"], *ask], "not of the role person")
        os.chmod(identities["person"], 0o644)
        done = self.refused(["--identity", identities["person"], *ask], "mode 644")
        self.assertEqual(done.returncode, FORBIDDEN)
        os.chmod(identities["person"], 0o600)
        out, err = made.troupe("job", "list").communicate(timeout=DEADLINE_S)
        self.assertEqual(err, "")
        self.refused(["coordinator", "--listen", "10.77.0.1:1", "--metrics", "127.0.0.1:0",
                      "--state", self.folder / "state"],
                     "troupe ca init", "troupe ca issue", "--identity")


NO_NAMESPACES = "network namespaces need root, iproute2 and a root folder that is a mount point"


def namespaces():
    """Whether this user may make them, and enter them with mounts of their own: not where the root
    folder is no mount point, as in a chroot."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"troupe-probe-{os.getpid()}"
    needed = (["ip", "netns", "add", name],
              ["ip", "-n", name, "link", "add", "v0", "type", "veth", "peer", "name", "v1"],
              ["ip", "netns", "exec", name, "unshare", "--mount", "true"])
    able = all(subprocess.run(each, capture_output=True).returncode == 0 for each in needed)
    subprocess.run(["ip", "netns", "delete", name], capture_output=True)
    return able


@unittest.skipUnless(namespaces(), NO_NAMESPACES)
class TwoHostsTest(TlsTest):
    """Everything again would only repeat: one job on two hosts."""

    test_a_job_over_tls_ends_in_the_same_bits = None
    test_certificates_are_renewed_and_revoked_while_a_job_trains = None
    test_who_is_refused_and_why = None

    def hosts(self):
        """Two namespaces with a cable between them."""
        names = [f"troupe-{os.getpid()}-{each}" for each in "ab"]
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", name])
        subprocess.run(["ip", "-n", names[0], "link", "add", "cable", "type", "veth", "peer",
                        "name", "cable", "netns", names[1]], check=True)
        for number, name in enumerate(names, 1):
            for words in (["addr", "add", f"10.77.0.{number}/24", "dev", "cable"],
                          ["addr", "add", f"fd77::{number}/64", "dev", "cable", "nodad"],
                          ["link", "set", "cable", "up"], ["link", "set", "lo", "up"]):
                subprocess.run(["ip", "-n", name, *words], check=True)
        return [["ip", "netns", "exec", name] for name in names]

    def with_names(self, host):
        """The host with an /etc/hosts of its own: both machines have names, each two addresses."""
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" + "".join(
            f"{number} node{which}\n" for which in (1, 2)
            for number in (f"fd77::{which}", f"10.77.0.{which}")))
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"',
                str(hosts), *host]

    def test_two_hosts_over_ipv4_ipv6_and_names(self):
        first, second = map(self.with_names, self.hosts())
        for kind, near, far in (("v4", "10.77.0.1", "10.77.0.2"), ("v6", "fd77::1", "fd77::2"),
                                ("names", "node1", "node2")):
            with self.subTest(kind):
                identities, _ = self.identities()
                folder = self.folder / f"hosts-{kind}"
                folder.mkdir()
                places = {"coordinator": (first, near), "a": (first, near), "b": (second, far),
                          "person": (second, far)}
                address = f"[{near}]:0" if ":" in near else f"{near}:0"
                made = cluster.Cluster(folder, {"a": 2, "b": 2}, identities=identities,
                                       address=address, places=places)
                self.addCleanup(made.end)
                self.train(made, f"two-{kind}",
                           f"limits.data_connections={4 if kind == 'v6' else 1}")
                if kind == "names":
                    self.assertRegex(made.address, r"^node1:\d+$")
                    self.refused([*second, cluster.TROUPE, "--identity", identities["person"],
                                  "--coordinator", "node3:7700", "job", "list"],
                                 "node3:7700: looking up 'node3': ")
                shutil.rmtree(next(iter(identities.values())).parent)
                made.end()


    def test_pages_are_read_from_another_host(self):
        """All programs are on one host and link over its loopback; Prometheus is on the other."""
        first, second = self.hosts()
        folder = self.folder / "pages"
        folder.mkdir()
        made = cluster.Cluster(folder, {}, metrics="10.77.0.1:0", places={
            each: (first, "127.0.0.1") for each in ("coordinator", "a", "person")})
        self.addCleanup(made.end)
        made.start_agent("a", 2, metrics="10.77.0.1:0")
        made.wait_for("a", "joined the coordinator")
        made.wait_for("coordinator", "--metrics 10.77.0.1:0: without --metrics-tls and")
        job = made.submit(write_job(self.folder, "read", 100000), "workers.machines=1",
                          name="read")
        made.wait_status("read", r"steps? +[1-9]|step +[1-9]")

        def read(address, path):
            code = ("import sys, urllib.request as r; "
                    "print(r.urlopen(f'http://{sys.argv[1]}{sys.argv[2]}', timeout=10).read())")
            done = subprocess.run([*second, "python3", "-c", code, address, path],
                                  capture_output=True, text=True, timeout=DEADLINE_S)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout

        targets = set(re.findall(r"10\.77\.0\.1:\d+", read(made.http, "/sd/targets")))
        self.assertEqual(len(targets), 4)  # coordinator, agent, host, server
        for address in targets:
            self.assertIn("troupe_build_info", read(address, "/metrics"))
        made.troupe("job", "stop", "read").communicate(timeout=DEADLINE_S)
        job.communicate(timeout=DEADLINE_S)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of a cluster under TLS and with a token, and a range of ports for jobs' processes.

Usage: metrics_test.py TROUPE [unittest arguments].
"""
import json
import os
import pathlib
import socket
import ssl
import unittest
import urllib.error
import urllib.request

import cluster
from cluster import DEADLINE_S, ClusterCase, troupe, write_job

TOKEN = "0123456789abcdef0123456789abcdef"
FAILED = 5


def free_range(count):
    """The first of so many ports in a row that nobody listens on."""
    for first in range(21000, 31000, count):
        probes = []
        try:
            for port in range(first, first + count):
                probes.append(socket.socket())
                probes[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()
    raise AssertionError(f"no {count} free ports in a row")


class MetricsTest(ClusterCase):
    def secret(self, name, text):
        path = self.folder / f"{self.id().rsplit('.', 1)[1]}-{name}"
        path.write_text(text)
        os.chmod(path, 0o600)
        return path

    def guarded(self):
        """Options for all programs; who may believe them."""
        ca = self.folder / "ca"
        troupe("ca", "init", ca, "--cluster", "lab").check_returncode()
        pages = self.folder / "pages.pem"
        troupe("ca", "issue", ca, "coordinator", "pages", "--out", pages).check_returncode()
        believes = ssl.create_default_context(cafile=ca / "authority.pem")
        believes.check_hostname = False  # its name is no host's
        return ["--metrics-tls", pages, "--metrics-token", self.secret("token", TOKEN)], believes

    def read(self, address, path, believes, token=None):
        request = urllib.request.Request(f"https://{address}{path}")
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S, context=believes) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, ""

    def test_every_page_is_under_tls_and_wants_the_token(self):
        options, believes = self.guarded()
        first = free_range(20)
        ports = range(first, first + 20)
        made = self.cluster({"a": 2, "b": 2}, options=options,
                            agent_options=["--ports", f"{ports[0]}-{ports[-1]}"])
        job = made.submit(write_job(self.folder, "watched", 100000), name="watched")
        made.wait_status("watched", r"steps? +[1-9]|step +[1-9]")
        status, text = self.read(made.http, "/sd/targets", believes, TOKEN)
        self.assertEqual(status, 200)
        targets = {target["targets"][0]: target["labels"]["role"] for target in json.loads(text)}
        self.assertEqual(sorted(targets.values()),
                         ["agent"] * 2 + ["coordinator"] + ["host"] * 2 + ["parameter_server"] * 2)
        for address, role in targets.items():
            with self.subTest(role=role, address=address):
                self.assertEqual(self.read(address, "/healthz", believes), (200, "ok\n"))
                self.assertEqual(self.read(address, "/metrics", believes)[0], 401)
                self.assertEqual(self.read(address, "/metrics", believes, "x" * 32)[0], 401)
                status, text = self.read(address, "/metrics", believes, TOKEN)
                self.assertEqual(status, 200)
                self.assertIn("troupe_build_info", text)
                if role != "coordinator":
                    self.assertIn(int(address.rsplit(":", 1)[1]), ports)
        self.assertEqual(self.read(made.http, "/sd/targets", believes)[0], 401)
        # Two pages of agents, two of hosts, two of servers, and the servers' own ports.
        tables = [line.split() for line in
                  pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        listening = {int(fields[1].rsplit(":", 1)[1], 16) for fields in tables
                     if fields[3] == "0A"}
        self.assertEqual(len(listening & set(ports)), 8)
        made.troupe("job", "stop", "watched").communicate(timeout=DEADLINE_S)
        job.communicate(timeout=DEADLINE_S)

    def test_a_range_without_a_free_port_is_named(self):
        first = free_range(3)
        made = self.cluster({"a": 2}, agent_options=["--ports", f"{first}-{first + 2}"])
        job = made.submit(write_job(self.folder, "crowded", 1), "workers.machines=1",
                          "servers.shards=2")
        out, err = job.communicate(timeout=DEADLINE_S)
        self.assertNotEqual(job.returncode, 0)
        self.assertIn(f"all ports {first}-{first + 2} of 127.0.0.1 are in use", out + err)

    def test_files_that_others_may_read_are_refused(self):
        token = self.secret("token", TOKEN)
        os.chmod(token, 0o644)
        for words in (["coordinator", "--listen", "127.0.0.1:0", "--state", self.folder / "s",
                       "--metrics", "127.0.0.1:0"],
                      ["agent", "--join", "127.0.0.1:1", "--name", "a"],
                      ["run", write_job(self.folder, "never", 1)]):
            done = troupe(*words, "--metrics-token", token)
            self.assertEqual(done.returncode, 8, done.stderr)
            self.assertIn(f"{token}: others than its owner may use it (mode 644)", done.stderr)


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus finds all processes through /sd/targets and scrapes them while a job trains.

Usage: prometheus_test.py TROUPE [unittest arguments]. Needs `prometheus` and `promtool`.
"""
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import cluster
from cluster import DEADLINE_S, Cluster, make_data, troupe, write_job

CONFIG = """
global:
  scrape_interval: 5s
  scrape_timeout: 5s
scrape_configs:
  - job_name: troupe
    http_sd_configs:
      - url: http://{http}/sd/targets
        refresh_interval: 500ms
"""
STEPS = 20.0  # of the job's one epoch
RANKS = 4
PORTS_TRIED = 5


def read(url):
    with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
        return reply.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Prometheus:
    """A server of its own, ended by end()."""

    def __init__(self, folder, text):
        """`text`: the configuration."""
        self.config = folder / "prometheus.yml"
        self.config.write_text(text)
        self.log = folder / "prometheus.log"
        self.data = folder / "tsdb"
        for _ in range(PORTS_TRIED):  # another process may take a free port before the server does
            self.start(free_port())
            if self.is_ready():
                return
        raise RuntimeError(f"prometheus does not start: {self.log.read_text()}")

    def start(self, port):
        self.url = f"http://127.0.0.1:{port}"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.config}", f"--storage.tsdb.path={self.data}",
                 f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def is_ready(self):
        """Waits until the server answers; False when it has ended before."""
        deadline = time.monotonic() + DEADLINE_S
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=1):
                    pass
            except OSError:
                time.sleep(0.1)
                continue
            return self.process.poll() is None
        if self.process.poll() is None:
            self.end()
        return False

    def ask(self, path, **words):
        """The data of an answer of its API; an error of the query raises."""
        address = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(words, doseq=True)}"
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as reply:
            return json.load(reply)["data"]

    def query(self, text):
        """[(labels, value)] of an instant query."""
        result = self.ask("query", query=text)["result"]
        return [(one["metric"], float(one["value"][1])) for one in result]

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=20)


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"),
                     "prometheus is not installed")
class PrometheusTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_data(self.folder)
        self.cluster = Cluster(self.folder, {"a": 2, "b": 2})
        self.addCleanup(self.cluster.end)
        self.prometheus = Prometheus(self.folder, CONFIG.format(http=self.cluster.http))
        self.addCleanup(self.prometheus.end)

    def wait_for_value(self, query, wanted):
        deadline = time.monotonic() + DEADLINE_S
        found = []
        while time.monotonic() < deadline:
            found = self.prometheus.query(query)
            if found and found[0][1] == wanted:
                return
            time.sleep(0.1)
        self.fail(f"{query} is {found}, not {wanted}: {self.prometheus.log.read_text()}")

    def check_pages(self):
        """The processes' own pages, and what promtool says of them."""
        address = f"http://{self.cluster.http}/sd/targets"
        with urllib.request.urlopen(address, timeout=DEADLINE_S) as reply:
            targets = json.load(reply)
        for target in targets:
            url = f"http://{target['targets'][0]}/metrics"
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as reply:
                self.assertEqual(reply.headers["Content-Type"],
                                 "text/plain; version=0.0.4; charset=utf-8")
                page = reply.read()
            done = subprocess.run(["promtool", "check", "metrics"], input=page,
                                  capture_output=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, done.stderr), (0, b""), target)
        return targets

    def test_every_process_is_found_and_the_ranks_steps_are_exact(self):
        self.wait_for_value('count(up{train_job=""} == 1)', 3.0)  # the coordinator and its agents
        job = write_job(self.folder, "out", 1)
        submitted = self.cluster.submit(job, 'train.hold="until-scraped"')
        out, err = submitted.communicate(timeout=DEADLINE_S)
        self.assertEqual(submitted.returncode, 0, err + self.cluster.text())

        seen = self.prometheus.query("sum by (role) (max_over_time(up[10m]))")
        self.assertEqual({labels["role"]: value for labels, value in seen},
                         {"coordinator": 1.0, "agent": 2.0, "host": 2.0, "parameter_server": 2.0})
        steps = self.prometheus.query(
            "max by (rank) (max_over_time(troupe_worker_steps_total[10m]))")
        self.assertEqual({labels["rank"]: value for labels, value in steps},
                         {str(rank): STEPS for rank in range(RANKS)})
        pushed = self.prometheus.query(
            'sum by (level) (max_over_time(troupe_kv_bytes_total{op="push"}[10m]))')
        levels = {labels["level"]: value for labels, value in pushed}
        self.assertGreater(levels["2"], 0)
        self.assertEqual(levels["1"], 2 * levels["2"])  # two ranks a machine
        stale = self.prometheus.query(
            'sum(max_over_time(troupe_kv_staleness_steps_count[10m])) - '
            'sum(max_over_time(troupe_kv_staleness_steps_bucket{le="0"}[10m]))')
        self.assertEqual(stale[0][1], 0.0)  # sequential: nobody is ever behind
        self.assertEqual(len(self.check_pages()), 3, out)


# What a run without a fault never shows, and what depends on the system: a limit of memory.
# All ranks are there; there is no TLS: integration_tls looks at that one; and no GPU is offered:
# tests/cluster/device_watch_test.cc looks at those.
DEVICE = {f"troupe_device_{what}" for what in (
    "in_service", "utilization_ratio", "memory_utilization_ratio", "memory_used_bytes",
    "memory_total_bytes", "power_watts", "temperature_celsius", "sm_clock_hertz",
    "uncorrectable_errors_total", "correctable_errors_total", "row_remap_failed",
    "row_remap_pending", "throttled", "power_violation_seconds_total",
    "thermal_violation_seconds_total", "xid_errors_total")}
NEVER = {"troupe_job_missing_ranks", "troupe_certificate_expiry_timestamp_seconds",
         "troupe_worker_device_info"} | DEVICE
LIMITED = {"troupe_cgroup_memory_limit_bytes", "troupe_cgroup_memory_used_bytes"}
JUDGED = {"troupe_kv_gradient_norm", "troupe_kv_loss_scale", "troupe_kv_dropped_steps_total"}


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
class FamiliesTest(unittest.TestCase):
    """The processes' own pages while their job trains and at its held end: the test is the only
    one that reads them, so the last page of each process of the job is one of its held end."""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_data(self.folder)
        self.cluster = Cluster(self.folder, {"a": 2, "b": 2})
        self.addCleanup(self.cluster.end)

    def read_pages(self, pages):
        """The newest page of every process that can be found now."""
        for target in json.loads(read(f"http://{self.cluster.http}/sd/targets")):
            address = target["targets"][0]
            try:
                pages[target["labels"]["role"], address] = read(f"http://{address}/metrics")
            except OSError:
                continue  # it has ended since

    def pages_of_job(self, epochs, *settings):
        """The last page of every process, once a job has ended well; what it has printed."""
        job = write_job(self.folder, "out", epochs)
        submitted = self.cluster.submit(job, 'train.hold="until-scraped"', *settings)
        pages = {}
        deadline = time.monotonic() + DEADLINE_S
        while submitted.poll() is None and time.monotonic() < deadline:
            self.read_pages(pages)
            time.sleep(0.05)
        out, err = submitted.communicate(timeout=DEADLINE_S)
        self.assertEqual(submitted.returncode, 0, err + self.cluster.text())
        self.read_pages(pages)
        return pages, out

    def test_every_listed_family_is_exported_and_the_pages_are_clean(self):
        # Longer than a tick of the coordinator's clock, so that there is time to speak of.
        pages, out = self.pages_of_job(40, 'consistency.cluster={mode="eventual",max_staleness=4}')

        roles = sorted(role for role, _ in pages)
        self.assertEqual(roles, ["agent", "agent", "coordinator", "host", "host",
                                 "parameter_server", "parameter_server"], out)
        for process, page in pages.items():
            done = subprocess.run(["promtool", "check", "metrics"], input=page,
                                  capture_output=True, timeout=DEADLINE_S)
            self.assertEqual((done.returncode, done.stderr), (0, b""), process)
            if process[0] == "host":
                self.assertEqual(re.findall(rb"troupe_worker_global_step{[^}]*} (\S+)", page),
                                 [b"800", b"800"], page)
        shown = {name.decode() for page in pages.values()
                 for name in re.findall(rb"^# TYPE (\S+) ", page, re.MULTILINE)}
        listed = troupe("metrics")
        listed.check_returncode()
        names = {re.match(r"\w+", line).group() for line in listed.stdout.splitlines()}
        self.assertGreater(len(names), 60)
        self.assertEqual(names - shown - LIMITED, NEVER | JUDGED)
        self.assertEqual(shown - names, set())

    def test_a_job_in_f16_shows_its_norms_its_scale_and_its_dropped_steps(self):
        pages, out = self.pages_of_job(10, 'numerics.dtype="f16"', "numerics.loss_scale=512")
        # One server judges; the other has nothing to say of it.
        judges = [page.decode() for page in pages.values() if b"troupe_kv_loss_scale" in page]
        self.assertEqual(len(judges), 1, out)
        for name in JUDGED:
            self.assertEqual(len(re.findall(rf"^{name} \S+$", judges[0], re.MULTILINE)), 1, name)
        self.assertIn("troupe_kv_loss_scale 512\n", judges[0])
        self.assertIn("troupe_kv_dropped_steps_total 0\n", judges[0])
        norm = float(re.search(r"^troupe_kv_gradient_norm (\S+)$", judges[0], re.MULTILINE)[1])
        self.assertGreater(norm, 0.0)


if __name__ == "__main__":
    cluster.main()

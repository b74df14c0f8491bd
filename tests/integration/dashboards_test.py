#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `troupe gen` writes, on a real Prometheus and a real job: every rule evaluates, every panel
of every dashboard shows numbers, nothing alerts; and a finished job's series go away.

Usage: dashboards_test.py TROUPE [unittest arguments]. Needs `prometheus` and `promtool`.
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from xml.etree import ElementTree

import cluster
import prometheus_test
from cluster import DEADLINE_S, Cluster, make_data, troupe, write_job

PICTURES = pathlib.Path(__file__).resolve().parents[2] / "tools/watching_pictures.py"
SVG = "{http://www.w3.org/2000/svg}"
# Panels that a healthy job leaves empty, and why. Those of GPUs are, too: none is offered.
EMPTY = {
    ("job.json", "Ranks waited for"): "nobody is missing",
    ("memory.json", "Used, of the limit of the control group"): "the system may set no limit",
    ("servers.json", "Norm of all gradients"): "steps of an eventual tier are not judged",
    ("servers.json", "Loss scale"): "the same",
    ("servers.json", "Dropped steps a second"): "the same",
}
# Both kinds of tiers, and steps until the job is stopped.
SETTINGS = ('consistency.cluster={mode="eventual",max_staleness=4}', 'checkpoint.every="40 steps"',
            "checkpoint.keep=2")
EPOCHS = 100_000
FAST = "1s"  # between scrapes and between evaluations
FINISHED_MS = 1_000


def finite(series):
    return any(math.isfinite(float(value)) for one in series for _, value in one["values"])


@unittest.skipUnless(shutil.which("prometheus") and shutil.which("promtool"),
                     "prometheus is not installed")
class DashboardsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        make_data(self.folder)
        self.cluster = Cluster(self.folder, {"a": 2, "b": 2},
                               limits=f"finished_job_ms = {FINISHED_MS}\n")
        self.addCleanup(self.cluster.end)
        written = self.folder / "watching"
        for words in (["prometheus", "--metrics", self.cluster.http], ["alerts"], ["grafana"]):
            troupe("gen", *words, "-o", written).check_returncode()
        text = (written / "prometheus.yml").read_text()
        self.assertEqual(text.count(": 15s\n"), 3)
        self.begun = int(time.time())
        text = text.replace(": 15s\n", f": {FAST}\n")
        self.prometheus = prometheus_test.Prometheus(written, text)
        self.addCleanup(self.prometheus.end)
        self.panels = [(path.name, panel["title"], target["expr"])
                       for path in sorted((written / "dashboards").glob("*.json"))
                       for panel in json.loads(path.read_text())["panels"]
                       for target in panel.get("targets", [])]

    def wait_until(self, done, what):
        """`done` gives what is left to wait for."""
        deadline = time.monotonic() + DEADLINE_S
        left = what
        while time.monotonic() < deadline:
            try:
                left = done()
            except OSError:  # the server is not up yet
                pass
            if not left:
                return
            time.sleep(0.3)
        self.fail(f"{what}: {left}\n{self.cluster.text()}\n{self.prometheus.log.read_text()}")

    def fill(self, query):
        """As Grafana does for "All"."""
        for name in ("train_job", "node", "rank"):
            query = query.replace(f"${name}", ".*")
        return query.replace("$__rate_interval", "1m")

    def empty_panels(self):
        """Panels that have had no number yet; what has had one is not asked for again."""
        empty = []
        for file, title, query in self.panels:
            found = self.prometheus.ask("query_range", query=self.fill(query), start=self.begun,
                                        end=time.time(), step="1s")
            expected = (file, title) in EMPTY or "troupe_device_" in query
            if not expected and not finite(found["result"]):
                empty.append((file, title, query))
        self.panels = empty
        return empty

    def rules(self):
        groups = self.prometheus.ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def check_rules(self):
        self.wait_until(lambda: [rule["name"] for rule in self.rules()
                                 if rule["health"] == "unknown"] or not self.rules(),
                        "rules that were not evaluated")
        rules = self.rules()
        self.assertEqual(len(rules), 22)
        for rule in rules:
            self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""), rule["name"])
            if rule["type"] == "alerting":
                firing = [alert for alert in rule["alerts"] if alert["state"] == "firing"]
                self.assertEqual(firing, [], rule["name"])
                continue
            self.wait_until(lambda name=rule["name"]: not self.prometheus.query(name),
                            f"{rule['name']} has no value")

    def check_choices(self):
        """The variables' values."""
        for label, metric, wanted in (
                ("train_job", "troupe_job_samples_total", ["watched"]),
                ("node", "troupe_machine_processors", ["a", "b"]),
                ("rank", 'troupe_worker_steps_total{train_job=~"watched",node=~".*"}',
                 ["0", "1", "2", "3"])):
            values = self.prometheus.ask(f"label/{label}/values", **{"match[]": metric})
            self.assertEqual(values, wanted)

    def check_pictures(self):
        """tools/watching_pictures.py draws what is there, and says so when there is nothing."""
        server = self.prometheus.url[len("http://"):]

        def draw(job):
            return subprocess.run([sys.executable, PICTURES, server, job, self.folder / job],
                                  capture_output=True, text=True, timeout=DEADLINE_S)

        def missing():
            done = draw("watched")
            self.assertEqual(done.returncode, 0, done.stderr)
            lines = ElementTree.parse(self.folder / "watched/job.svg").getroot()
            found = len(lines.findall(f"{SVG}polyline"))
            return "" if found == 5 else f"{found} lines"  # the loss, and four ranks

        unknown = draw("unknown")
        self.assertEqual(unknown.returncode, 1, unknown.stderr)
        self.assertIn("no series of a job 'unknown'", unknown.stderr)
        self.assertFalse((self.folder / "unknown").exists())
        self.wait_until(missing, "lines that a picture lacks")
        areas = ElementTree.parse(self.folder / "watched/phases.svg").getroot()
        self.assertEqual(len(areas.findall(f"{SVG}polygon")), 6)  # phases

    def check_end(self):
        """A finished job's series and processes go away."""
        def left():
            page = prometheus_test.read(f"http://{self.cluster.http}/metrics").decode()
            targets = json.loads(prometheus_test.read(f"http://{self.cluster.http}/sd/targets"))
            series = [line for line in page.splitlines() if 'train_job="watched"' in line]
            return series or (targets if len(targets) != 3 else [])

        self.wait_until(left, "series of a job that has ended")
        self.wait_until(lambda: self.prometheus.query("troupe_job_samples_total"),
                        "series in Prometheus of a job that has ended")

    def test_every_rule_and_every_panel_has_values_while_a_job_trains(self):
        # What grows before the first scrape has not grown for Prometheus.
        self.wait_until(lambda: not self.prometheus.query("troupe_coordinator_jobs"), "a scrape")
        submitted = self.cluster.submit(write_job(self.folder, "out", EPOCHS), *SETTINGS,
                                        name="watched")
        self.wait_until(self.empty_panels, "panels without a number")
        self.check_rules()
        self.check_choices()
        page = prometheus_test.read(f"http://{self.cluster.http}/metrics").decode()
        # 1 where the start took less than a tick of the coordinator's clock.
        self.assertRegex(page, r'troupe_job_goodput_ratio{train_job="watched"} (0\.\d+|1)\n')
        self.assertIn('troupe_job_resumes_total{train_job="watched"} 0\n', page)
        self.check_pictures()
        self.cluster.troupe("job", "stop", "watched").communicate(timeout=DEADLINE_S)
        submitted.communicate(timeout=DEADLINE_S)
        self.check_end()


if __name__ == "__main__":
    cluster.main()

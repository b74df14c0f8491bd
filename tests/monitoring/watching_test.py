#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Program, pages, dashboards and rules name the same metrics and labels; the committed dashboards
are what their script makes; promtool accepts what `troupe gen` writes, and every alert fires and
is silent as alerts_test.yml says.

Usage: watching_test.py TROUPE [unittest arguments].
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "monitoring"
TROUPE = ""  # the program; see the end
LIMIT_S = 600
# Labels that Prometheus gives to every series.
EVERY = {"job", "instance"}
# Of PromQL, beside functions, which a parenthesis follows.
WORDS = {"and", "or", "unless", "on", "ignoring", "group_left", "group_right", "by", "without",
         "bool", "offset", "inf", "nan"}
LISTS = r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)"


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S)


def families():
    """{name: (labels, type)} as the program lists them."""
    listed = run(TROUPE, "metrics")
    listed.check_returncode()
    found = {}
    for line in listed.stdout.splitlines():
        name, labels, kind = re.match(r"(\w+)(?:{([\w,]*)})? (\w+) ", line).groups()
        found[name] = (set((labels or "").split(",")) - {""}, kind)
    return found


def target_labels():
    """Of /sd/targets, as the coordinator writes them."""
    source = (ROOT / "cluster/coordinator_node.cc").read_text()
    return set(re.findall(r'\{"(\w+)", target\.\w+\}', source))


def read_rules():
    """[{record or alert, expr, text}] of alerts.yml, whose fields are one line or a block."""
    rules = []
    text = (MONITORING / "alerts.yml").read_text()
    for part in re.split(r"\n      - (?=record:|alert:)", text)[1:]:
        kind, name = re.match(r"(\w+): (\S+)", part).groups()
        expression = re.search(r"\n        expr: (?:\|\n((?:          .*\n?)+)|(.*))", part)
        rules.append({kind: name, "text": part,
                      "expr": (expression[1] or expression[2]).strip()})
    return rules


def read_panels():
    """[(dashboard, title, expression, legend)]."""
    return [(path.name, panel["title"], target["expr"], target["legendFormat"])
            for path in sorted((MONITORING / "dashboards").glob("*.json"))
            for panel in json.loads(path.read_text())["panels"]
            for target in panel.get("targets", [])]  # a row has none


def read_expression(text):
    """(metrics with the labels that their selectors name, labels of lists as `by (...)`)."""
    lists = [label.strip() for found in re.findall(LISTS, text) for label in found.split(",")]
    rest = re.sub(LISTS, " ", text)
    metrics = []

    def take(match):
        bare = re.sub(r'"[^"]*"', "", match[2])
        metrics.append((match[1], set(re.findall(r"\w+", bare))))
        return " "

    rest = re.sub(r"([A-Za-z_:][\w:]*)\s*\{([^}]*)\}", take, rest)
    rest = re.sub(r"\[[^\]]*\]", " ", rest)
    for word in re.findall(r"(?<![\w:$.])[A-Za-z_:][\w:]*(?!\s*\(|[\w:])", rest):
        if word.lower() not in WORDS:
            metrics.append((word, set()))
    return metrics, set(lists) - {""}


class NamesTest(unittest.TestCase):
    def setUp(self):
        self.families = families()
        self.targets = target_labels()
        self.rules = read_rules()
        self.recorded = {rule["record"]: read_expression(rule["expr"])[1]
                         for rule in self.rules if "record" in rule}

    def labels_of(self, name):
        """Those of a series in Prometheus, or None when there is no such series."""
        if name == "up":
            return self.targets | EVERY
        if name in self.recorded:
            return self.recorded[name]
        labels, kind = self.families.get(name, (None, None))
        if labels is not None and kind != "histogram":
            return labels | self.targets | EVERY
        match = re.fullmatch(r"(\w+)_(bucket|sum|count)", name)
        labels, kind = self.families.get(match[1], (None, None)) if match else (None, None)
        if kind != "histogram":
            return None
        return labels | self.targets | EVERY | ({"le"} if match[2] == "bucket" else set())

    def check_expression(self, where, text, shown=()):
        """`shown`: labels that a legend or an annotation takes from the result."""
        metrics, lists = read_expression(text)
        self.assertTrue(metrics, f"{where}: no metric in {text}")
        known = set()
        for name, labels in metrics:
            allowed = self.labels_of(name)
            self.assertIsNotNone(allowed, f"{where}: there is no metric {name}")
            self.assertLessEqual(labels, allowed, f"{where}: labels of {name}")
            known |= allowed
        self.assertLessEqual(lists, known, f"{where}: labels in lists of {text}")
        results = lists | set.union(*[self.recorded.get(name, set()) for name, _ in metrics])
        single = {label for name, _ in metrics for label in self.labels_of(name)}
        left = results if re.search(r"\bby\b", text) else single
        self.assertLessEqual(set(shown), left, f"{where}: labels that the result does not have")

    def test_the_targets_labels_are_found_in_the_source(self):
        self.assertEqual(self.targets, {"role", "node", "ranks", "train_job"})

    def test_no_query_uses_a_label_that_prometheus_renames(self):
        # The coordinator's target has no train_job, and a server's is the one that it names itself.
        renamed = {name: labels & self.targets - {"train_job"}
                   for name, (labels, _) in self.families.items()}
        self.assertEqual(renamed["troupe_coordinator_nodes"], {"role"})
        for where, text in self.all_queries():
            metrics, lists = read_expression(text)
            for name, selected in metrics:
                clash = renamed.get(name, set()) & (selected | lists)
                self.assertFalse(clash, f"{where}: {name} has {clash} as exported_...")

    def all_queries(self):
        for rule in self.rules:
            yield rule.get("alert") or rule["record"], rule["expr"]
        for file, title, expression, _ in read_panels():
            yield f"{file}, {title}", expression

    def test_panels_name_what_the_program_exports(self):
        panels = read_panels()
        self.assertGreater(len(panels), 60)
        for file, title, expression, legend in panels:
            self.check_expression(f"{file}, {title}", expression, re.findall(r"{{(\w+)}}", legend))

    def test_choices_name_what_the_program_exports(self):
        seen = set()
        for path in (MONITORING / "dashboards").glob("*.json"):
            for choice in json.loads(path.read_text())["templating"]["list"]:
                if choice["type"] != "query":
                    continue
                query = choice["query"]["query"]
                expression, label = re.fullmatch(r"label_values\((.*), (\w+)\)", query).groups()
                self.check_expression(f"{path.name}, {choice['name']}", expression, [label])
                seen.add(choice["name"])
        self.assertEqual(seen, {"train_job", "node", "rank"})

    def test_rules_name_what_the_program_exports(self):
        names = [rule.get("alert") or rule["record"] for rule in self.rules]
        self.assertEqual(len(names), len(set(names)))
        for rule in self.rules:
            where = rule.get("alert") or rule["record"]
            self.check_expression(where, rule["expr"],
                                  re.findall(r"\$labels\.(\w+)", rule["text"]))

    def test_every_alert_says_who_has_it_and_has_cases(self):
        cases = (ROOT / "tests/monitoring/alerts_test.yml").read_text()
        page = (ROOT / "docs/watching.md").read_text()
        alerts = [rule for rule in self.rules if "alert" in rule]
        self.assertEqual(len(alerts), 19)
        for rule in alerts:
            name = rule["alert"]
            self.assertRegex(name, r"^Troupe([A-Z][a-z]+)+$")
            for field in ("severity", "summary", "description"):
                self.assertIn(f" {field}:", rule["text"], name)
            self.assertTrue(re.search(r"\$labels\.(train_job|node)", rule["text"]), name)
            quiet = re.findall(rf"alertname: {name}, eval_time: \w+, exp_alerts: \[\]", cases)
            loud = re.findall(rf"alertname: {name}\n +eval_time: \w+\n +exp_alerts:\n", cases)
            self.assertTrue(quiet and loud, f"{name} is not shown firing and silent")
            self.assertIn(f"### {name}\n", page)
        headings = set(re.findall(r"^### (Troupe\w+)$", page, re.MULTILINE))
        self.assertEqual(headings, {rule["alert"] for rule in alerts})

    def test_every_metric_in_the_pages_exists(self):
        named = 0
        pages = [*(ROOT / "docs").glob("*.md"), *ROOT.glob("*.md"), *ROOT.glob("*/README.md")]
        for page in pages:
            for name in re.findall(r"`((?:[\w:]+:)?(?:troupe|process)_\w*[a-z])(?:{[^}`]*})?`",
                                   page.read_text()):
                self.assertIsNotNone(self.labels_of(name) or
                                     (name in self.families or None), f"{page.name}: {name}")
                named += 1
        self.assertGreater(named, 6)

    def test_every_dashboard_is_on_the_page(self):
        page = (ROOT / "docs/watching.md").read_text()
        uids = set()
        for path in (MONITORING / "dashboards").glob("*.json"):
            made = json.loads(path.read_text())
            self.assertEqual(made["uid"], f"troupe-{path.stem}")
            self.assertIn(f"| {path.stem} |", page)
            uids.add(made["uid"])
        self.assertEqual(len(uids), 7)


class ScriptTest(unittest.TestCase):
    def test_the_dashboards_are_what_their_script_makes(self):
        with tempfile.TemporaryDirectory() as folder:
            run(sys.executable, MONITORING / "make_dashboards.py", folder).check_returncode()
            made = {path.name: path.read_text() for path in pathlib.Path(folder).iterdir()}
        there = {path.name: path.read_text() for path in (MONITORING / "dashboards").iterdir()}
        self.assertEqual(sorted(made), sorted(there))
        for name, text in made.items():
            self.assertTrue(text == there[name], f"{name}: run monitoring/make_dashboards.py")


@unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
class PromtoolTest(unittest.TestCase):
    def test_what_troupe_gen_writes_is_accepted(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "token").write_text("0123456789abcdef")
            run(TROUPE, "ca", "init", f"{folder}/ca", "--cluster", "lab").check_returncode()
            guarded = ["--metrics-ca", f"{folder}/ca/authority.pem",
                       "--metrics-token", f"{folder}/token"]
            run(TROUPE, "gen", "alerts", "-o", f"{folder}/guarded").check_returncode()
            run(TROUPE, "gen", "prometheus", *guarded, "-o",
                f"{folder}/guarded").check_returncode()
            config = run("promtool", "check", "config", f"{folder}/guarded/prometheus.yml")
            self.assertEqual(config.returncode, 0, config.stdout + config.stderr)
            for words in (["prometheus", "--metrics", "127.0.0.1:7777"], ["alerts"]):
                run(TROUPE, "gen", *words, "-o", folder).check_returncode()
            config = run("promtool", "check", "config", f"{folder}/prometheus.yml")
            self.assertEqual(config.returncode, 0, config.stdout + config.stderr)
            self.assertIn("22 rules found", config.stdout)
            rules = run("promtool", "check", "rules", "--lint-fatal", f"{folder}/alerts.yml")
            self.assertEqual(rules.returncode, 0, rules.stdout + rules.stderr)

    def test_every_alert_fires_and_is_silent(self):
        with tempfile.TemporaryDirectory() as folder:
            cases = pathlib.Path(folder) / "cases.yml"
            text = (ROOT / "tests/monitoring/alerts_test.yml").read_text()
            cases.write_text(text.replace("[ALERTS]", f"['{MONITORING / 'alerts.yml'}']"))
            done = run("promtool", "test", "rules", cases)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    TROUPE = sys.argv.pop(1)
    unittest.main(verbosity=2)

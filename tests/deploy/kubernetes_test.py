#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The manifests of `troupe gen kubernetes` against Kubernetes' own schemas and against the program:
options, names, secrets, probes. The commands of docs/deploy.md run with a kubectl that only looks.

Usage: kubernetes_test.py TROUPE [unittest arguments], in the environment that kubernetes.sh makes.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import kubernetes_validate
import yaml

TROUPE = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSIONS = ("1.25", "1.37")  # the oldest with all that we use, the newest
LIMIT_S = 600
# Notes each call; what is handed over must be there.
KUBECTL = """#!/bin/sh
echo "$@" >>"$CALLS"
for word; do
  case $word in
    --from-file=*) file=${word##*=}; [ -s "$file" ] || { echo "no $file"; exit 1; } ;;
    *.yaml) [ -s "$word" ] || { echo "no $word"; exit 1; } ;;
  esac
done
"""


def run(*words):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S)
    done.check_returncode()
    return done.stdout


class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = pathlib.Path(temporary.name)
        run(TROUPE, "gen", "kubernetes", "-o", cls.folder, "--replicas", "3", "--devices", "cpu:4",
            "--image", "registry.lab/troupe:1")
        cls.documents = [document for path in sorted(cls.folder.glob("*.yaml"))
                         for document in yaml.safe_load_all(path.read_text())]

    def sets(self):
        """{name: pod's spec} of the StatefulSets."""
        return {document["metadata"]["name"]: document for document in self.documents
                if document["kind"] == "StatefulSet"}

    def containers(self):
        """(pod's spec, container) of all."""
        for document in self.sets().values():
            pod = document["spec"]["template"]["spec"]
            for container in pod["initContainers"] + pod["containers"]:
                yield pod, container

    def test_the_schemas_of_kubernetes_take_them(self):
        kinds = [document["kind"] for document in self.documents]
        self.assertEqual(sorted(kinds), ["PersistentVolumeClaim", "PodMonitor", "Service",
                                         "Service", "StatefulSet", "StatefulSet"])
        for document in self.documents:
            if document["kind"] == "PodMonitor":  # of an operator, in no schema of Kubernetes
                self.assertEqual(document["apiVersion"], "monitoring.coreos.com/v1")
                continue
            for version in VERSIONS:
                kubernetes_validate.validate(document, version, strict=True)

    def test_a_fault_would_be_seen(self):
        agent = self.sets()["troupe-agent"]
        agent = yaml.safe_load(yaml.safe_dump(agent).replace("runAsNonRoot", "runAsNobody"))
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(agent, VERSIONS[-1], strict=True)

    def test_options_arrive(self):
        agent = self.sets()["troupe-agent"]["spec"]
        self.assertEqual(agent["replicas"], 3)
        container = agent["template"]["spec"]["containers"][0]
        self.assertIn("--devices=cpu:4", container["args"])
        self.assertEqual(container["resources"]["requests"]["cpu"], "4")
        self.assertEqual({container["image"] for _, container in self.containers()},
                         {"registry.lab/troupe:1"})

    def test_the_program_knows_the_options(self):
        for document in self.sets().values():
            args = document["spec"]["template"]["spec"]["containers"][0]["args"]
            shown = run(TROUPE, "help", args[0])
            for option in args[1:]:
                self.assertIn(f"  {option.split('=')[0]} ", shown)

    def test_names_fit(self):
        for pod, container in self.containers():
            volumes = {volume["name"] for volume in pod["volumes"]} | {"state"}
            for mount in container["volumeMounts"]:
                self.assertIn(mount["name"], volumes)
            variables = {variable["name"] for variable in container.get("env", ())}
            words = " ".join(container.get("args", []) + container.get("command", []))
            self.assertLessEqual(set(re.findall(r"\$\((\w+)\)", words)), variables)
        for name, document in self.sets().items():
            spec = document["spec"]
            labels = spec["template"]["metadata"]["labels"]
            self.assertEqual(spec["selector"]["matchLabels"], labels)
            service = [each for each in self.documents if each["kind"] == "Service"
                       and each["metadata"]["name"] == spec["serviceName"] == name]
            self.assertEqual(service[0]["spec"]["selector"], labels)
            self.assertEqual(service[0]["spec"]["clusterIP"], "None")
            container = spec["template"]["spec"]["containers"][0]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            self.assertEqual({port["name"]: port["port"] for port in service[0]["spec"]["ports"]},
                             ports)
            for option, port in (("--listen", "cluster"), ("--metrics", "http")):
                at = [word for word in container["args"] if word.startswith(option + "=")]
                self.assertTrue(all(word.endswith(f":{ports[port]}") for word in at), at)
            self.assertIn(f"--metrics=$(POD_IP):{ports['http']}", container["args"])
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.assertEqual(container[probe]["httpGet"], {"path": "/healthz", "port": "http"})
            notes = spec["template"]["metadata"]["annotations"]
            self.assertEqual(notes["prometheus.io/port"], str(ports["http"]))
        monitor = [each for each in self.documents if each["kind"] == "PodMonitor"][0]["spec"]
        endpoint = monitor["podMetricsEndpoints"][0]
        self.assertEqual(endpoint["port"], "http")
        self.assertEqual([rule["targetLabel"] for rule in endpoint["relabelings"]],
                         ["role", "node"])  # as the alerts read them
        self.assertLessEqual(monitor["selector"]["matchLabels"].items(), labels.items())

    def test_pods_are_locked(self):
        for pod, container in self.containers():
            self.assertFalse(pod["automountServiceAccountToken"])
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertEqual(container["securityContext"],
                             {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                              "capabilities": {"drop": ["ALL"]}})
            self.assertIn("requests", container["resources"])
            self.assertIn("memory", container["resources"]["limits"])
            mounts = {mount["name"] for mount in container["volumeMounts"]}
            self.assertEqual("secret" in mounts, container["name"] == "identity")

    def test_the_pages_commands_make_what_pods_ask_for(self):
        page = (ROOT / "docs/deploy.md").read_text()
        commands = re.search(r"^```sh kubernetes\n(.*?)^```$", page, re.M | re.S)[1]
        work = self.folder / "page"
        (work / "bin").mkdir(parents=True)
        (work / "bin/troupe").symlink_to(TROUPE)
        (work / "bin/kubectl").write_text(KUBECTL)
        (work / "bin/kubectl").chmod(0o755)
        calls = work / "calls"
        environment = {**os.environ, "PATH": f"{work}/bin:{os.environ['PATH']}",
                       "CALLS": str(calls)}
        subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=work, env=environment,
                       check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
        made = {match[1]: match[2] for match in
                re.finditer(r"create secret generic (\S+) (.*)", calls.read_text())}
        for name, document in self.sets().items():
            pod = document["spec"]["template"]["spec"]
            secret = [volume["secret"]["secretName"] for volume in pod["volumes"]
                      if volume["name"] == "secret"][0]
            wanted = pod["initContainers"][0]["command"][-2].replace("$(POD_NAME)", f"{name}-1")
            self.assertIn(f"--from-file={wanted.split('/')[-1]}", made[secret])


if __name__ == "__main__":
    unittest.main(verbosity=2)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a job's step costs beside its forward and backward pass: one worker and a parameter server,
each a process, under a coordinator and an agent on loopback. Prints milliseconds of a step, where
the worker's thread spent them, and the pass alone (bench_networks) on the same machine.

job_step.py [--network resnet50] [--batch 256] [--dtype bf16] [--cpu] [--steps 300] [--build DIR]
            [--set KEY=VALUE ...]
    --cpu   without a GPU
"""
import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from peers import ROOT, json_rows, run

DEADLINE_S = 300
WARMUP = 0.25  # of the steps, which are not counted
SERIES = re.compile(r'^(troupe_worker_\w+)\{([^}]*)\} (\S+)$', re.MULTILINE)

JOB = """
name = "step"
seed = 7
[model]
network = "{network}"
classes = {classes}
[data]
train = "{data}/train.rec"
batch = {batch}
prefetch_threads = {prefetch}
[train]
epochs = 1000
max_steps = {steps}
optimizer = {{ name = "sgd", lr = 1e-4, momentum = 0.9 }}
[workers]
devices = "{device}:1"
[numerics]
dtype = "{dtype}"
"""


class Cluster:
    """A coordinator and an agent."""

    def __init__(self, troupe, folder, device):
        self.troupe, self.folder, self.processes = troupe, folder, []
        self.start("coordinator", "coordinator", "--listen", "127.0.0.1:0", "--metrics",
                   "127.0.0.1:0", "--state", folder / "state")
        said = self.wait_for("coordinator", r"coordinator on (\S+), http://(\S+)/metrics")
        self.address, self.pages = said.groups()
        self.start("agent", "agent", "--join", self.address, "--name", "a", "--devices",
                   "gpu:all" if device == "gpu" else "cpu:1")
        self.wait_for("agent", "joined the coordinator")

    def start(self, name, *words):
        with open(self.folder / name, "w") as log:
            self.processes.append(subprocess.Popen([self.troupe, *map(str, words)], stdout=log,
                                                   stderr=log))

    def wait_for(self, name, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline and self.processes[-1].poll() is None:
            found = re.search(pattern, (self.folder / name).read_text())
            if found:
                return found
            time.sleep(0.05)
        sys.exit(f"{name}: {(self.folder / name).read_text()}")

    def submit(self, job, settings):
        words = [word for each in settings for word in ("--set", each)]
        return subprocess.Popen([self.troupe, "--coordinator", self.address, "job", "submit", job,
                                 "--wait", *words], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def read(self, url):
        with urllib.request.urlopen(f"http://{url}", timeout=5) as page:
            return page.read().decode()

    def worker(self):
        """{series: value} of the rank, with its time; None while there is none."""
        for group in json.loads(self.read(f"{self.pages}/sd/targets")):
            if group["labels"].get("role") != "host":
                continue
            page = self.read(f"{group['targets'][0]}/metrics")
            seen = {name + "".join(re.findall(r'phase="(\w+)"', labels)): float(value)
                    for name, labels, value in SERIES.findall(page)}
            if "troupe_worker_steps_total" in seen:
                return seen | {"time": time.monotonic()}
        return None

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait(timeout=30)


def watch(cluster, submitted, steps):
    """The first sample behind the warm-up and the last one."""
    first = last = None
    while submitted.poll() is None:
        time.sleep(0.1)
        try:
            seen = cluster.worker()
        except OSError:
            continue
        if seen and seen["troupe_worker_steps_total"] >= WARMUP * steps:
            first, last = first or seen, seen
    if submitted.returncode != 0:
        sys.exit(submitted.communicate()[0])
    if not first or last["troupe_worker_steps_total"] == first["troupe_worker_steps_total"]:
        sys.exit("the job was over too soon: more --steps")
    return first, last


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--dtype", default="bf16", choices=("f32", "bf16", "f16"))
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--prefetch", type=int, default=8)
    parser.add_argument("--image", default="3,224,224")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--build", default=ROOT / "build/release")
    options = parser.parse_args()
    build = Path(options.build).resolve()
    troupe, device = build / "bin/troupe", "cpu" if options.cpu else "gpu"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([troupe, "data", "pack", "generated", "--image", options.image, "--classes",
             options.classes, "--train", 4 * options.batch, "--test", 1, "--out", folder])
        job = folder / "job.toml"
        job.write_text(JOB.format(network=options.network, classes=options.classes, data=folder,
                                  batch=options.batch, steps=options.steps, device=device,
                                  dtype=options.dtype, prefetch=options.prefetch))
        cluster = Cluster(troupe, folder, device)
        try:
            first, last = watch(cluster, cluster.submit(job, options.set), options.steps)
        finally:
            cluster.end()
        steps = last["troupe_worker_steps_total"] - first["troupe_worker_steps_total"]
        flags = ([] if options.dtype == "f32" else [f"--products={options.dtype}"]) + (
            [] if options.cpu else ["--gpu"])
        alone = json_rows(run([build / "bin/bench_networks", "train", options.network,
                               folder / "outputs", f"--batch={options.batch}", "--steps=5",
                               *([] if options.cpu else ["--recompute=none"]), *flags]))
        alone = alone[f"{options.network} train"][0] * options.batch * 1e3
    step = (last["time"] - first["time"]) / steps * 1e3
    print(f"{options.network}, batch {options.batch}, {options.dtype}: a step {step:.2f} ms, the "
          f"pass alone {alone:.2f} ms ({step / alone:.3f})")
    for phase in ("data", "issue", "compute", "pull", "idle"):
        series = f"troupe_worker_phase_seconds_total{phase}"
        print(f"  {phase:8} {(last[series] - first[series]) / steps * 1e3:8.3f} ms")


if __name__ == "__main__":
    main()

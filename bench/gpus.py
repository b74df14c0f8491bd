#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the networks on the first GPU beside PyTorch and prints the table of docs/benchmarks.md.

gpus.py [--networks NAME,...] [--numbers bf16,tf32,f32] [--ways WAY,...] [--rounds N]
        [--recompute none|cheap|sqrt] [--no-graphs] [--build DIR]
    --ways    of peers/torch_gpu.py; without --ways: channels_last+graphs, compile+channels_last;
              for the small networks eager and graphs
TORCH_PYTHON names a Python that has torch for CUDA. Programs take turns; figures are medians of the
rounds. A way that does not work, or takes too long, is left out with a line that says so.
"""
import argparse
import functools
import statistics
import sys
import tempfile
from pathlib import Path

from networks import check, take_turns
from peers import ROOT, TROUPE, Missing, json_rows, run, torch

# (samples of a batch, steps of a repetition)
NETWORKS = {"resnet50": (256, 3), "vgg16": (128, 3), "inception-bn": (256, 3), "alexnet": (512, 10),
            "lenet": (64, 300), "deep-mlp": (64, 300)}
SMALL = ("lenet", "deep-mlp")  # in f32, dense
WAYS, SMALL_WAYS = ("channels_last+graphs", "compile+channels_last"), ("eager", "graphs")
FLAGS = {"bf16": ["--products=bf16"], "tf32": ["--tf32"], "f32": []}
FAR = 0.1  # by the Euclidean norm: more is another computation, not another rounding


class Contest:
    """Times one network in one kind of numbers."""

    def __init__(self, options, folder, network, numbers):
        self.options, self.folder = options, Path(folder)
        self.network, self.numbers = network, numbers
        self.batch, self.steps = NETWORKS[network]
        self.notes = []

    def ours(self, number):
        del number
        rows = json_rows(run([Path(self.options.build).resolve() / "bin/bench_networks", "train",
                              self.network, self.folder / TROUPE, f"--batch={self.batch}", "--gpu",
                              f"--steps={self.steps}", f"--recompute={self.options.recompute}",
                              *(["--no-graphs"] if self.options.no_graphs else []),
                              *FLAGS[self.numbers]]))
        return rows[f"{self.network} train"][0], rows[f"{self.network} planned MiB"][2]

    def torch(self, way, number):
        path = self.folder / way if number == 0 else ""
        rows = json_rows(torch(self.network, self.batch, self.numbers, path, way,
                               program="torch_gpu.py"))
        if not rows:
            raise Missing("it does not work (run bench/peers/torch_gpu.py to see why)")
        (seconds, _, peak), = rows.values()
        if number == 0:
            check(self.folder / TROUPE, path, self.batch, FAR)
        return seconds, peak

    def measure(self):
        """{name: (seconds an image, MiB) of each round}."""
        small = self.network in SMALL
        ways = self.options.ways.split(",") if self.options.ways else SMALL_WAYS if small else WAYS
        programs = {TROUPE: self.ours}
        programs |= {way: functools.partial(self.torch, way) for way in ways}
        return take_turns(f"{self.network} {self.numbers}", self.options.rounds, self.notes,
                          programs)

    def row(self):
        rounds = self.measure()
        if TROUPE not in rounds:
            return None
        ms = {name: statistics.median(seconds for seconds, _ in each) * self.batch * 1e3
              for name, each in rounds.items()}
        mib = {name: each[-1][1] for name, each in rounds.items()}
        cells = [f"{name} {ms[name]:.3g} ms, {mib[name]:,.0f} MiB ({ms[name] / ms[TROUPE]:.2f})"
                 for name in rounds if name != TROUPE]
        return (f"| {self.network}, batch {self.batch} | {self.numbers} | {ms[TROUPE]:.3g} "
                f"| {mib[TROUPE]:,.0f} | {'; '.join(cells)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--numbers", default="bf16,tf32")
    parser.add_argument("--ways")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--recompute", default="none", choices=("none", "cheap", "sqrt"))
    parser.add_argument("--no-graphs", action="store_true")
    parser.add_argument("--build", default=ROOT / "build/release")
    options = parser.parse_args()
    version = run([Path(options.build).resolve() / "bin/troupe", "version"])
    print("\n".join(line for line in version.splitlines() if line.startswith(("gpu", "cu", "dri"))))
    print("\n| network | numbers | Troupe, ms | planned MiB, with weights, gradients and the batch "
          "| PyTorch: ms, peak MiB (how many times as fast Troupe is) |\n|---|---|---|---|---|",
          flush=True)
    notes = []
    with tempfile.TemporaryDirectory() as folder:
        for network in options.networks.split(","):
            for numbers in ("f32",) if network in SMALL else options.numbers.split(","):
                contest = Contest(options, folder, network, numbers)
                row = contest.row()
                notes += contest.notes
                if row:
                    print(row, flush=True)
    print("\n".join(f"- {note}" for note in notes))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the built-in networks beside the same networks in PyTorch, MXNet, ONNX Runtime and OpenVINO,
in turns, and prints tables: images a second, and how many times as fast as each peer Troupe is.

networks.py [--networks NAME,...] [--what train,bf16,predict,memory,modes,recompute]
            [--batches 1,32]
            [--rounds 3] [--repetitions 5] [--threads 2] [--build DIR]
TORCH_PYTHON names a Python with torch and, for predictions, onnx, onnxruntime and openvino;
MXNET_PYTHON one with mxnet 1.9.1. A peer that is missing or fails is left out with a line. All
start from the same weights and batch (peers/convnets.py). A peer whose outputs or gradients differ
is left out before any of its times counts, with a line. Training is measured at the largest batch
only, and a second time with direct convolutions alone; `bf16` is training with products in bf16,
beside our own in f32 and PyTorch's autocast.
"""
import argparse
import array
import functools
import math
import statistics
import sys
import tempfile
from pathlib import Path

from peers import MXNET, ROOT, TROUPE, Missing, json_rows, machine, mxnet, run, torch

TRAINED = ("eager", "channels_last", "compile")
NARROW = tuple(f"bf16-{how}" for how in TRAINED)
PREDICTED = ("frozen", "compiled", "onnxruntime", "openvino")
DIRECT = "without Winograd"  # Troupe, with direct convolutions alone
WIDE = "Troupe in f32"  # beside bf16
NETWORKS = "alexnet,overfeat,vgg-a,googlenet,inception-bn,resnet50"
MEMORY_BATCH = 64
SHARE = "share of the FMA peak"  # of Troupe, operations counted in direct form; f32's peak
NOTED = 5e-3  # difference of outputs or of a gradient, by the Euclidean norm
# More than that is another computation. The gradients of deep networks with batch_norm differ by
# some per cent between any two programs, which is 10^5 times the rounding of f32. With that of bf16
# nothing is left to compare in them (gradients that have nothing in common differ by 1.4).
AGREE = {"predict": NOTED, "train": 0.1, "bf16": 1.5}


class Contest:
    def __init__(self, options):
        self.options = options
        self.bin = Path(options.build).resolve() / "bin"
        self.folder = tempfile.TemporaryDirectory()
        self.notes = []

    def path(self, contestant):
        return Path(self.folder.name) / contestant

    def ours(self, what, network, batch, contestant=TROUPE):
        narrow = what == "bf16"
        return run([self.bin / "bench_networks", "train" if narrow else what, network,
                    self.path(contestant),
                    f"--batch={batch}", f"--threads={self.options.threads}",
                    f"--repetitions={self.options.repetitions}",
                    *(["--no-winograd"] if contestant == DIRECT else []),
                    *(["--products=bf16"] if narrow and contestant == TROUPE else [])])

    def peak(self):
        """Operations a second that the processors' vectors do at most."""
        rows = json_rows(run([self.bin / "bench_fma", f"--threads={self.options.threads}"]))
        return 1e9 / rows["fma peak"][0]

    def reading(self):
        """Bytes a second and processor that memory gives, all threads reading at once."""
        rows = json_rows(run([self.bin / "bench_fully_connected",
                              f"--threads={self.options.threads}", "--repetitions=3"]))
        return 1e9 / rows["read"][0] / self.options.threads

    def torch(self, how, network, batch):
        return torch(how, network, batch, self.options.threads, self.options.repetitions,
                     self.path(how), program="torch_convnets.py")

    def mxnet(self, what, network, batch):
        return mxnet(what, network, batch, self.options.repetitions, self.path(MXNET),
                     program="mxnet_convnets.py", threads=self.options.threads)

    def contestants(self, what):
        if what == "bf16":
            return {TROUPE: self.ours, WIDE: lambda *call: self.ours(*call, contestant=WIDE),
                    **{how: lambda _, *call, how=how: self.torch(how, *call) for how in NARROW}}
        peers = {how: lambda _, *call, how=how: self.torch(how, *call)
                 for how in (TRAINED if what == "train" else PREDICTED)}
        direct = {DIRECT: lambda *call: self.ours(*call, contestant=DIRECT)}
        twice = direct if what == "train" else {}
        return {TROUPE: self.ours, **twice, MXNET: self.mxnet, **peers}

    def measure(self, what, network, batch):
        """{contestant: seconds an image, of each round}."""
        shares = []

        def timed(contestant, program, number):
            narrow = what == "bf16"
            title = "train" if narrow else what
            row = json_rows(program(what, network, batch))[f"{network} {title}"]
            if contestant == TROUPE:
                shares.append(row[2] / row[0] / self.peak())
            elif number == 0:
                far = check(self.path(TROUPE), self.path(contestant), batch, AGREE[what])
                if far > NOTED:
                    self.notes.append(f"{network} {what} b{batch}: {contestant} differs from "
                                      f"{TROUPE} by {far:.2g}")
            return row[0]

        programs = {name: functools.partial(timed, name, program)
                    for name, program in self.contestants(what).items()}
        title = f"{network} {what} b{batch}"
        results = take_turns(title, self.options.rounds, self.notes, programs)
        return results | ({SHARE: shares} if shares else {})


def take_turns(title, rounds, notes, programs):
    """{name: what its program gave for each round's number}; a peer that is Missing is left out,
    with its reason among `notes`, and without Troupe's own side all ends."""
    results = {}
    for number in range(rounds):
        for name, program in list(programs.items()):
            print(f"{title}: round {number + 1}, {name}", file=sys.stderr)
            try:
                results.setdefault(name, []).append(program(number))
            except Missing as reason:
                if name == TROUPE:
                    raise SystemExit(f"{title}: there is nothing to compare: {reason}") from reason
                notes.append(f"{title}: {name} is left out: {reason}")
                del programs[name], results[name]
    return results


def check(ours, theirs, images, agree):
    """How far the files, probabilities and then gradients, are apart; Missing beyond `agree`."""
    values = []
    for path in (ours, theirs):
        values.append(array.array("f"))
        values[-1].frombytes(path.read_bytes() if path.exists() else b"")
    if len(values[0]) != len(values[1]):
        raise Missing(f"it gives {len(values[1])} numbers, Troupe {len(values[0])}")
    far = max(difference(*part) for part in split(*values, images))
    if not far <= agree:
        raise Missing(f"it DIFFERS from Troupe by {far:.2g}")
    return far


def split(a, b, images):
    """Pairs of arrays to compare: the outputs' logarithms, and what follows them. (The outputs are
    where each image's numbers add up to 1.)"""
    classes = next((few for few in (10, 64) if abs(sum(a[:few]) - 1) < 1e-3), 1000)
    count = images * classes
    outputs = []
    for values in (a, b):
        rows = []
        for begin in range(0, count, classes):
            logarithms = [math.log(max(p, 1e-30)) for p in values[begin:begin + classes]]
            mean = sum(logarithms) / classes
            rows += [x - mean for x in logarithms]
        outputs.append(rows)
    pairs = [tuple(outputs)]
    if len(a) > count:
        pairs.append((a[count:], b[count:]))
    return pairs


def difference(a, b):
    size = math.sqrt(sum(x * x for x in a))
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b))) / max(size, 1e-30)


def ratios(seconds, row, peers):
    """{peer: how many times as long it takes, median of the rounds}."""
    return {peer: statistics.median(b / a for a, b in zip(seconds, row[peer]))
            for peer in peers if seconds and len(row.get(peer, [])) == len(seconds)}


def best(beside):
    return f"{min(beside.values()):.2f}" if beside else ""


def speed_table(contest, what, batch):
    names = contest.options.networks.split(",")
    rows = {name: contest.measure(what, name, batch) for name in names}
    contestants = contest.contestants(what)
    peers = [name for name in contestants if name not in (TROUPE, DIRECT, WIDE)]
    last = [f"{DIRECT}, beside the best"] if DIRECT in contestants else []
    last += [f"beside {WIDE}"] if WIDE in contestants else []
    title = {"train": "Forward and backward", "bf16": "The same with products in bf16"}
    print(f"\n## {title.get(what, 'Prediction')}, batch {batch}, "
          f"{contest.options.threads} threads\n")
    print(f"| network | Troupe, images/s | {SHARE} | beside the best "
          f"| {' | '.join(peers + last)} |")
    print("|" + "---|" * (4 + len(peers) + len(last)))
    for name, row in rows.items():
        if TROUPE not in row:
            continue
        beside = ratios(row[TROUPE], row, peers)
        cells = [f"{beside[peer]:.2f}" if peer in beside else "" for peer in peers]
        if DIRECT in contestants:
            cells.append(best(ratios(row.get(DIRECT, []), row, peers)))
        if WIDE in contestants:
            cells.append(best(ratios(row[TROUPE], row, [WIDE])))
        print(f"| {name} | {1 / statistics.median(row[TROUPE]):.4g} "
              f"| {statistics.median(row[SHARE]):.0%} | {best(beside)} | {' | '.join(cells)} |")
    sys.stdout.flush()


def memory_table(contest):
    print(f"\n## Planned memory, batch {MEMORY_BATCH}, MiB\n")
    print("| network | training | beside MXNet | prediction | beside MXNet | samples of its parts "
          "| prediction at once | beside MXNet | its weights in kernels' layouts |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in contest.options.networks.split(","):
        ours = json_rows(contest.ours("memory", name, MEMORY_BATCH))
        try:
            theirs = json_rows(mxnet("memory", name, MEMORY_BATCH, program="mxnet_convnets.py"))
        except Missing as reason:
            contest.notes.append(f"{name} memory: {MXNET} is left out: {reason}")
            theirs = {}
        cells = []
        for what, how in (("train", ""), ("predict", ""), ("predict", " at once")):
            row = ours[f"{name} {what} memory{how}"]
            peer = theirs.get(f"{name} {what} memory")
            cells += [f"{row[0] / 2 ** 20:,.0f}", f"{row[0] / peer[0]:.2f}" if peer else ""]
            if what == "predict" and not how:
                cells.append(f"{row[2]:.0f}" if row[2] else "all")
        cells.append(f"{ours[f'{name} predict weights'][0] / 2 ** 20:,.0f}")
        print(f"| {name} | {' | '.join(cells)} |")
    sys.stdout.flush()


def modes_table(contest):
    modes = ("apart", "none", "in-place", "co-share", "both")
    print(f"\n## Ways to share memory, batch {MEMORY_BATCH}, MiB\n")
    print(f"| network | | {' | '.join(modes)} | live set | both / apart | both / none "
          "| both / live set |")
    print("|---" * (len(modes) + 6) + "|")
    for name in contest.options.networks.split(","):
        rows = json_rows(contest.ours("modes", name, MEMORY_BATCH))
        for what, title in (("train", "training"), ("predict", "prediction")):
            mebibytes = [rows[f"{name} {what} {mode}"][0] / 2 ** 20 for mode in modes]
            live_set = rows[f"{name} {what} both"][2] / 2 ** 20
            cells = " | ".join(f"{value:,.0f}" for value in [*mebibytes, live_set])
            both = mebibytes[-1]
            print(f"| {name} | {title} | {cells} | {both / mebibytes[0]:.2f} "
                  f"| {both / mebibytes[1]:.2f} | {both / live_set:.3f} |")
    sys.stdout.flush()


def recompute_table(contest):
    print(f"\n## Recomputation in training, batch {MEMORY_BATCH}\n")
    print("| network | | MiB | of what is kept without | longer by rule |\n|---|---|---|---|---|")
    for name in contest.options.networks.split(","):
        rows = json_rows(contest.ours("recompute", name, MEMORY_BATCH))
        kept = rows[f"{name} train none"][0]
        for title, (size, step, extra) in rows.items():
            cells = f"{size / 2 ** 20:,.0f} | {size / kept:.2f} | {extra / step:.1%}"
            print(f"| {name} | {title.removeprefix(name + ' train ')} | {cells} |")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--networks", default=NETWORKS)
    parser.add_argument("--what", default="train,predict,memory")
    parser.add_argument("--batches", default="1,32")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--build", default=ROOT / "build/release")
    options = parser.parse_args()
    contest = Contest(options)
    batches = sorted(int(batch) for batch in options.batches.split(","))
    try:
        reading = contest.reading() * 1e-9
    except Missing as reason:
        raise SystemExit(f"not all of bench/ is built in {options.build}: {reason}") from reason
    print(f"Machine: {machine(options.build)}; memory gives each of {options.threads} processors "
          f"{reading:.0f} GB/s.")
    for what in options.what.split(","):
        if what == "memory":
            memory_table(contest)
        elif what == "modes":
            modes_table(contest)
        elif what == "recompute":
            recompute_table(contest)
        elif what in ("train", "bf16"):
            speed_table(contest, what, batches[-1])
        else:
            for batch in batches:
                speed_table(contest, what, batch)
    print()
    for note in contest.notes:
        print(f"- {note}")


if __name__ == "__main__":
    main()

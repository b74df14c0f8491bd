#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Troupe's benchmark programs and its peers' in turns and prints the tables of
docs/benchmarks.md: medians of the rounds and how many times as fast as each peer Troupe is.

peers.py [--rounds N] [--suites NAME,...] [--build DIR] [--data DIR]
    --build   where bin/bench_* and bin/troupe are (build/release)
    --data    folder with Fashion-MNIST's train.rec (data/fashion; demo.sh makes it)
TORCH_PYTHON and MXNET_PYTHON name Pythons that have torch and mxnet 1.9.1. What is missing is left
out with a line that says so. Peers run the scripts in bench/peers with the same threads.
"""
import argparse
import datetime
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / "bench/peers"
TROUPE, TORCH, MXNET, MALLOC = "Troupe", "PyTorch", "MXNet", "malloc"
LIMIT_SECONDS = 300  # of one program
AGREE = 1e-3  # relative difference of checks (losses) that peers may have
GOOGLE = ["--benchmark_format=json", "--benchmark_min_time=0.1"]
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
LENET_STEPS = 40  # of each of 5 repetitions
STEPS_LOGGED = (50, 200)  # of a job: its rate is taken between these


class Missing(Exception):
    """A program, peer or file is not there."""


def run(command, **environment):
    """Its standard output; Missing when it fails."""
    try:
        done = subprocess.run([str(part) for part in command], cwd=ROOT, timeout=LIMIT_SECONDS,
                              env={**os.environ, **environment}, text=True, capture_output=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(str(error)) from error
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no reason given"]
        raise Missing(f"{Path(command[0]).name} {' '.join(map(str, command[1:3]))}: {words[0]}")
    return done.stdout + done.stderr if environment.get("LOGS") else done.stdout


def torch(*arguments, program="torch_peer.py"):
    """Runs a program of peers/ with TORCH_PYTHON."""
    if "TORCH_PYTHON" not in os.environ:
        raise Missing("TORCH_PYTHON is not set")
    return run([os.environ["TORCH_PYTHON"], PEERS / program, *arguments])


def mxnet(*arguments, program="mxnet_peer.py", threads=1):
    """Runs a program of peers/ with MXNET_PYTHON."""
    if "MXNET_PYTHON" not in os.environ:
        raise Missing("MXNET_PYTHON is not set")
    return run([os.environ["MXNET_PYTHON"], PEERS / program, *arguments],
               OMP_NUM_THREADS=str(threads))


def json_rows(text):
    """Rows of report.h and timing.py: {what: (wall seconds, CPU seconds, check)}."""
    rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    return {row["what"]: (row["seconds"], row["cpu_seconds"], row["check"]) for row in rows}


def google_rows(text, rename):
    """Rows of Google Benchmark by `rename`, which gives None for those that are left out. Programs
    with several threads measure the CPU time of the process."""
    rows = {}
    for row in json.loads(text)["benchmarks"]:
        what = rename(row["name"], row.get("label", ""))
        if what is None or what in rows or "error_occurred" in row:
            continue
        seconds = row.get("per_op", row["real_time"] * UNITS[row["time_unit"]])
        rows[what] = (seconds, seconds * row["cpu_time"] / row["real_time"], 0.0)
    return rows


class Programs:
    """How each contestant of each suite is run; every method gives rows."""

    def __init__(self, options):
        self.bin = Path(options.build).resolve() / "bin"
        self.data = Path(options.data).resolve()
        self.folder = tempfile.TemporaryDirectory()

    def google(self, name, rename):
        return google_rows(run([self.bin / f"bench_{name}", *GOOGLE]), rename)

    def mxnet_engine(self):
        program = Path(self.folder.name) / "mxnet_engine"
        if not program.exists():
            home = Path(mxnet("files").strip())
            run([os.environ.get("CXX", "c++"), "-O2", "-std=c++20", "-I", ROOT, "-I",
                 home / "include", PEERS / "mxnet_engine.cc", home / "libmxnet.so",
                 f"-Wl,-rpath,{home}", "-o", program])
        return json_rows(run([program]))

    def company(self, machines, threads):
        """Seconds a sample of a whole job: records read, decoded, both tiers, actors."""
        if not (self.data / "train.rec").exists():
            raise Missing(f"{self.data}/train.rec is not there; demo.sh packs it")
        begin, end = STEPS_LOGGED
        options = {"data.train": f'"{self.data}/train.rec"', "data.test": f'"{self.data}/test.rec"',
                   "data.batch": 64,
                   "workers.machines": machines, "workers.threads": threads, "servers.shards": 1,
                   "train.max_steps": end, "train.log_every": f'"{begin} steps"',
                   "checkpoint.dir": f'"{tempfile.mkdtemp(dir=self.folder.name)}"'}
        sets = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
        text = run([self.bin / "troupe", "run", "examples/fashion-lenet.toml", *sets], LOGS="1")
        times = {int(step): float(h) * 3600 + float(m) * 60 + float(s) for h, m, s, step in
                 re.findall(r'ts=\S*T(\d+):(\d+):([\d.]+)\S* .*msg="step (\d+)/', text)}
        if begin not in times or end not in times:
            raise Missing(f"troupe run did not log steps {begin} and {end}")
        return (times[end] - times[begin]) / ((end - begin) * 64 * machines), 0.0, 0.0


def named(rows, **names):
    """The rows under other names; those without one are left out."""
    return {names[what]: row for what, row in rows.items() if what in names}


def engine_suite(programs):
    no_ops = {"independent": "no-op, independent", "chain": "no-op, chain",
              "fan_out_in": "no-op, fan-out 8 and in", "random_graph": "no-op, random graph"}
    small = {"small op": "a + b, 4 elements, chain"}

    def ours(name, label):
        return no_ops.get(name.split("/")[0]) if label == "threaded" else None

    return {
        TROUPE: [lambda: programs.google("engine", ours),
                 lambda: programs.google("ndarray", lambda *_: small["small op"])],
        TORCH: [lambda: named(json_rows(torch("small-op")), **small)],
        MXNET: [lambda: named(programs.mxnet_engine(), **no_ops),
                lambda: named(json_rows(mxnet("small-op")), **small)],
    }


def allocator_suite(programs):
    def rows_of(program):
        def rename(name, _):
            found = re.fullmatch(rf"{program}(_written)?/(\d+)", name)
            return found and f"{found[2]} B{', written once a page' if found[1] else ''}"

        return lambda: programs.google("storage", rename)

    return {TROUPE: [rows_of("cached_pool_at_hand")], MALLOC: [rows_of("plain_malloc")]}


def ops_suite(programs):
    keys = []

    def theirs():
        rows = json_rows(torch("ops", 1))
        keys[:] = rows
        return rows

    def rename(name, _):  # a sample's first kernel is the one that runs
        return next((key for key in keys if name.startswith(key + "/")), None)

    return {TORCH: [theirs], TROUPE: [lambda: programs.google("ops", rename)]}


def kvstore_suite(programs):
    def local(name, _):
        return f"in process, 2 ranks, {name.split('/')[1]} B"

    def over(text):
        rows = {}
        for what, row in json_rows(text).items():
            found = re.match(r"loopback 2 workers (?:(\d) servers )?(\d+) B", what)
            for servers in [found[1]] if found[1] else ["1", "2"]:
                rows[f"loopback, 2 workers, {servers} server(s), {found[2]} B"] = row
        return rows

    def loopback(servers):
        return over(run([programs.bin / "bench_loopback", f"--servers={servers}"]))

    def mxnet_local():
        rows = json_rows(mxnet("local", 2))
        return {f"in process, 2 ranks, {what.split()[3]} B": row for what, row in rows.items()}

    return {
        TROUPE: [lambda: programs.google("kvstore", local), lambda: loopback(1),
                 lambda: loopback(2)],
        TORCH: [lambda: over(torch("allreduce", 2))],
        MXNET: [mxnet_local, lambda: over(mxnet("servers", 2, 1)),
                lambda: over(mxnet("servers", 2, 2))],
    }


LENET_ROWS = {"lenet train": "train", "lenet predict": "predict"}


def lenet_suite(programs):
    """One compute thread a worker."""
    company = "train, company of 2 workers"

    def ours():
        return named(json_rows(run([programs.bin / "bench_lenet", f"--steps={LENET_STEPS}"])),
                     **LENET_ROWS)

    def ranks():
        rows = json_rows(torch("lenet-ranks", 64, 2, LENET_STEPS))
        return named(rows, **{"lenet ranks": company})

    return {
        TROUPE: [ours, lambda: {company: programs.company(machines=2, threads=1)}],
        TORCH: [lambda: named(json_rows(torch("lenet", 64, 1, LENET_STEPS)),
                              **LENET_ROWS), ranks],
        MXNET: [lambda: named(json_rows(mxnet("lenet", 64, LENET_STEPS)), **LENET_ROWS)],
    }


def team_suite(programs):
    """Two threads in one worker."""
    company = "train, company of 1 worker"

    def ours():
        program = [programs.bin / "bench_lenet", f"--steps={LENET_STEPS}", "--threads=2"]
        return named(json_rows(run(program)), **LENET_ROWS)

    def torch_rows():
        rows = named(json_rows(torch("lenet", 64, 2, LENET_STEPS)), **LENET_ROWS)
        return {**rows, company: rows["train"]}

    def mxnet_rows():
        text = mxnet("lenet", 64, LENET_STEPS, threads=2)
        return named(json_rows(text), **LENET_ROWS)

    return {TROUPE: [ours, lambda: {company: programs.company(machines=1, threads=2)}],
            TORCH: [torch_rows], MXNET: [mxnet_rows]}


SUITES = {
    "engine": ("Engine and small operations", engine_suite),
    "allocator": ("Allocate and release, beside malloc in the same process", allocator_suite),
    "operators": ("Operators, f32, 1 thread, one call", ops_suite),
    "kvstore": ("KVStore: one push and pull of one key with sgd and momentum", kvstore_suite),
    "lenet": ("LeNet, batch 64 per worker, 1 thread", lenet_suite),
    "team": ("LeNet, batch 64, 2 threads", team_suite),
}


def measure(title, suite, rounds, notes):
    """{what: {contestant: [row of each round]}}. A part that fails is left out then."""
    results = {}
    for number in range(rounds):
        for contestant, parts in suite.items():
            print(f"{title}: round {number + 1} of {rounds}, {contestant}", file=sys.stderr)
            for part in list(parts):
                try:
                    rows = part()
                except Missing as reason:
                    notes.append(f"{title}: a part of {contestant} is left out: {reason}")
                    parts.remove(part)
                    continue
                for what, row in rows.items():
                    results.setdefault(what, {}).setdefault(contestant, []).append(row)
    return {what: row for what, row in results.items() if TROUPE in row}


def check(title, what, row, notes):
    """Losses must agree before times are compared."""
    checks = {name: rounds[0][2] for name, rounds in row.items() if rounds[0][2]}
    if checks and max(checks.values()) - min(checks.values()) > AGREE * max(checks.values()):
        notes.append(f"{title}, {what}: the losses DIFFER: {checks}")


def show(seconds, title):
    if title.startswith("LeNet"):
        return f"{1 / seconds:,.0f} samples/s"
    for unit in ("s", "ms", "us"):
        if seconds >= UNITS[unit]:
            return f"{seconds / UNITS[unit]:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def ratio(ours, theirs):
    """Median and range of the rounds' ratios of wall time; of CPU time where both have it."""
    pairs = list(zip(ours, theirs))
    wall = sorted(b[0] / a[0] for a, b in pairs)
    text = f"{statistics.median(wall):.2f} ({wall[0]:.2f}-{wall[-1]:.2f})"
    if all(a[1] and b[1] for a, b in pairs):
        text += f", CPU {statistics.median(b[1] / a[1] for a, b in pairs):.2f}"
    return text


def table(title, results, notes):
    present = {name for row in results.values() for name in row}
    columns = [name for name in (TORCH, MXNET, MALLOC) if name in present]
    print(f"\n## {title}\n")
    print("| what | Troupe | " + " | ".join(f"beside {name}" for name in columns) + " |")
    print("|" + "---|" * (len(columns) + 2))
    for what, row in results.items():
        check(title, what, row, notes)
        cells = [ratio(row[TROUPE], row[name]) if name in row else "" for name in columns]
        wall, cpu = (statistics.median(times[i] for times in row[TROUPE]) for i in (0, 1))
        ours = show(wall, title) + (f", CPU {show(cpu, title)}" if cpu else "")
        print(f"| {what} | {ours} | " + " | ".join(cells) + " |")


def first(pattern, text, otherwise="?"):
    found = re.search(pattern, text, re.M)
    return found[1].strip() if found else otherwise


def machine(build):
    cpu, memory = run(["lscpu"]), Path("/proc/meminfo").read_text()
    system = Path("/etc/os-release").read_text()
    widest = next((name for name in ("avx512f", "avx2", "avx") if name in cpu), "no AVX")
    cache = Path(build) / "CMakeCache.txt"
    compiler = first(r"CMAKE_CXX_COMPILER:\w+=(.*)", cache.read_text()) if cache.exists() else "c++"
    versions = []
    for peer in (torch, mxnet):
        try:
            versions.append(peer("version").strip())
        except Missing:
            pass
    kib = int(first(r"MemTotal:\s*(\d+)", memory, "0"))
    return (f"{first('^CPU.s.:(.*)', cpu)} processors, {first('^Model name:(.*)', cpu)} (family "
            f"{first('^CPU family:(.*)', cpu)}, model {first('^Model:(.*)', cpu)}, {widest}), "
            f"{first('^Hypervisor vendor:(.*)', cpu, 'no hypervisor')}, {kib / 2**20:.0f} GiB, "
            f"{first('PRETTY_NAME=.(.*).$', system)}, Linux {os.uname().release.split('-')[0]}, "
            f"{run([compiler, '--version']).splitlines()[0]}; "
            f"{', '.join(versions) or 'no peers'}")


def processor_seconds():
    """(busy seconds of all processors, seconds of this program and its ended children)."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    busy = sum(fields[:8]) - fields[3] - fields[4]
    own = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return busy / os.sysconf("SC_CLK_TCK"), sum(use.ru_utime + use.ru_stime for use in own)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--suites", default=",".join(SUITES))
    parser.add_argument("--build", default=ROOT / "build/release")
    parser.add_argument("--data", default=ROOT / "data/fashion")
    options = parser.parse_args()
    wanted = options.suites.split(",")
    if unknown := set(wanted) - set(SUITES):
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    programs, notes = Programs(options), []
    begin, load = datetime.datetime.now(), os.getloadavg()[0]
    busy, own = processor_seconds()
    print(f"Machine: {machine(options.build)}.")
    for name in wanted:
        title, suite = SUITES[name]
        table(title, measure(title, suite(programs), options.rounds, notes), notes)
        sys.stdout.flush()
    end_busy, end_own = processor_seconds()
    seconds = (datetime.datetime.now() - begin).total_seconds()
    others = max(0.0, (end_busy - busy) - (end_own - own)) / (seconds * (os.cpu_count() or 1))
    print(f"\n{options.rounds} rounds in turns, {seconds / 60:.0f} minutes; load average "
          f"{load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end (this run included); "
          f"other programs used {100 * others:.0f} % of the processors.")
    for note in notes:
        print(f"- {note}")


if __name__ == "__main__":
    main()

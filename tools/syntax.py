#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles without making code, with the flags of a build: tools/syntax.py CHECK BUILD_FOLDER
  locks    clang++ with -Werror=thread-safety: every source that has mutexes, or includes a header
           of the project that has, and such headers as no source begins with
  headers  the build's compiler: each header alone, but for the library's headers that the build has
           precompiled. A source begins with the header of its own stem, so the build compiles that
           one so; the others are compiled here. tools/tidy.py sees to that, and to what a header
           names of the library.
Exit 1 and the compiler's words where something does not compile."""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
MUTEXES = re.compile(
    r"\bTROUPE_(GUARDED_BY|REQUIRES|ACQUIRE|RELEASE|EXCLUDES)"
    r"|\b(Shared)?Mutex\b|\b(Mutex|Writer|Reader)Lock\b")
CUDA = re.compile(r"^\s*#\s*include\s+<cu(da|dnn|blas)", re.M)
LOCKS = ("-Wthread-safety", "-Werror=thread-safety")
LIBRARY = ("algorithm", "array", "atomic", "chrono", "condition_variable", "cstdint", "deque",
           "filesystem", "fstream", "functional", "map", "memory", "mutex", "optional", "set",
           "span", "sstream", "string", "string_view", "thread", "tuple", "utility", "variant",
           "vector", "fmt/format.h")


def folders():
    """Those that become libraries."""
    lines = (ROOT / "cmake/layers.txt").read_text().splitlines()
    return {line.split(":")[0] for line in lines if re.match(r"[a-z]+:", line)} | {"apps"}


class Build:
    """The commands that a build folder compiles with."""

    def __init__(self, folder):
        self.folder = folder
        self.compiler = ""
        self.commands = {}  # source, relative to ROOT -> flags
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            source = Path(entry["file"])
            ours = source.is_relative_to(ROOT) and not source.is_relative_to(folder)
            if ours and source.suffix == ".cc":  # nvcc compiles the others
                self.commands[str(source.relative_to(ROOT))] = self._flags(entry)

    def _flags(self, entry):
        """What stands behind the compiler (in front of which a launcher may stand), but input and
        output."""
        words = shlex.split(entry["command"])
        compiler = next(i for i, word in enumerate(words)
                        if re.fullmatch(r"(.*/)?(g|c|clang)\+\+(-\d+)?", word))
        self.compiler = words[compiler]
        output = words.index("-o")
        flags = words[compiler + 1:output] + words[output + 2:]
        return [word for word in flags if word not in ("-c", entry["file"])]

    def with_cuda(self):
        return any(source.startswith("gpu/cuda/") for source in self.commands)

    def flags_near(self, name):
        """Those of a source beside the header `name`, or of its folder; None where the build leaves
        the sources beside it out (gpu/cuda without CUDA)."""
        place = str(Path(name).parent)
        for source, flags in self.commands.items():
            if str(Path(source).parent) == place:
                return flags
        if any((ROOT / place).glob("*.cc")):
            return None
        folder = name.split("/")[0] + "/"
        return next(flags for source, flags in self.commands.items() if source.startswith(folder))


def without_precompiled(flags):
    """`flags` less the headers that the build's compiler has precompiled: no other reads them."""
    flags = [word for word in flags if word != "-fpch-preprocess"]
    for word in ("-include-pch", "-include"):
        if word in flags:  # clang's are words behind -Xclang, as their files are
            at = flags.index(word)
            first, last = (at - 1, at + 3) if flags[at - 1] == "-Xclang" else (at, at + 2)
            del flags[first:last]
    return flags


def names_mutexes(name):
    """True when `name` has mutexes, locks or clang's annotations, or a header that it includes has:
    whoever uses what a mutex guards includes the header that says so."""
    text = (ROOT / name).read_text()
    headers = [ROOT / header for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)]
    texts = [text, *(header.read_text() for header in headers if header.is_file())]
    return any(MUTEXES.search(text) for text in texts)


def lone_headers():
    listing = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.h"], cwd=ROOT,
                             capture_output=True, text=True, check=True)
    return [name for name in listing.stdout.split()
            if name.split("/")[0] in folders() and (ROOT / name).is_file()
            and not (ROOT / name).with_suffix(".cc").is_file()]


def jobs(check, build):
    """(name, command, text for its standard input) of all that is to be compiled."""
    clang = shutil.which("clang++") if check == "locks" else ""
    if clang is None:
        sys.exit("locks: clang++ is missing; tools/install.sh test installs it")
    program = [clang, *LOCKS] if check == "locks" else [build.compiler]
    flags_for = without_precompiled if check == "locks" else list
    for name in lone_headers():
        flags = build.flags_near(name)
        if not build.with_cuda() and CUDA.search((ROOT / name).read_text()):
            continue
        if flags is not None and (check == "headers" or names_mutexes(name)):
            flags = ["-fsyntax-only", *flags_for(flags), "-x", "c++", "-"]
            yield name, [*program, *flags], f'#include "{name}"\n'
    for name, flags in build.commands.items():
        if check == "locks" and name.split("/")[0] in folders() and names_mutexes(name):
            yield name, [*program, "-fsyntax-only", *flags_for(flags), str(ROOT / name)], ""


def precompiled(command, folder):
    """Words by which clang reads the library's headers, a third of its work, from a file that it
    makes of them in `folder` with the flags of `command`; none where it cannot."""
    flags = [word for word in command[1:]
             if re.match(r"-(std=|O|f|D(NDEBUG|FMT_SHARED)$)", word) and word != "-fsyntax-only"]
    header, made = Path(folder) / "library.h", Path(folder) / "library.pch"
    header.write_text("".join(f"#include <{name}>\n" for name in LIBRARY))
    run = subprocess.run([command[0], *flags, "-x", "c++-header", header, "-o", made],
                         capture_output=True)
    return [] if run.returncode else ["-include-pch", str(made)]


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("locks", "headers"):
        sys.exit("usage: tools/syntax.py locks|headers BUILD_FOLDER")
    check, build = sys.argv[1], Build(Path(sys.argv[2]).resolve())
    todo = list(jobs(check, build))
    shared = []

    def compile_one(job):
        name, command, text = job
        # clang++ 14 crashes on some sources with it: only without it a fault is one.
        for more in (shared, []) if shared else ([],):
            run = subprocess.run([command[0], *more, *command[1:]], cwd=build.folder, input=text,
                                 capture_output=True, text=True)
            if run.returncode == 0:
                break
        return name if run.returncode else "", run.stderr

    failed = []
    with TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        if check == "locks" and todo:
            shared = precompiled(todo[-1][1], folder)
        for name, words in pool.map(compile_one, todo):
            if name:
                failed.append(name)
                print(words)
    for name in failed:
        print(f"{check}: {name} does not compile")
    print(f"{check}: {len(todo)} compiled, {len(failed)} faults")
    return 1 if failed or not todo else 0


if __name__ == "__main__":
    sys.exit(main())

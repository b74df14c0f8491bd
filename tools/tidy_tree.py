# SPDX-License-Identifier: Apache-2.0
"""The rules of tidy.py that take more than one file: READMEs, tests, private headers, dead code."""
import re
import subprocess
from collections import Counter
from pathlib import Path

LEAVES = {"apps", "bench", "tests", "examples", "python", "tools"}
README_MAX = 60
PRIVATE = "// Private to this folder."
# What an installation has: the headers for programs, this line, what those headers include.
PUBLIC = Path("cmake/public_headers.txt")
PUBLIC_NEEDED = "# What those include."
# Which sources have no test of their own stem, and why: folder/stem: test, because ...
COVERED = Path("tests/covered.txt")
# One source per operator, tested by the samples in its definition.
OPERATORS = r"ops/(nn|math|reduce|random|optimizer)/"


class Tree:
    """The files of a repository, tracked or new. Paths are relative to its root."""

    def __init__(self, root):
        self.root = root
        self.faults = []
        self._texts, self._codes = {}, {}
        listing = ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.py",
                   "*CMakeLists.txt", "*.cmake"]
        run = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True)
        self.files = [Path(name) for name in run.stdout.split() if (root / name).exists()]
        self.names = {str(path) for path in self.files}
        self.table = {}  # folder -> folders that it may include, and itself
        for line in (root / "cmake/layers.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                name, uses = line.split(":")
                self.table[name] = set(uses.split()) | {name}
        self.libraries = set(self.table) | {"apps"}

    def fault(self, path, line, text):
        self.faults.append(f"{path}:{line}: {text}")

    def text(self, path):
        if path not in self._texts:
            self._texts[path] = (self.root / path).read_text()
        return self._texts[path]

    def code(self, path):
        """The text without strings, characters and comments; lines stay where they are."""
        if path not in self._codes:
            text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', '""', self.text(path))
            text = re.sub(r"//[^\n]*", "", text)
            self._codes[path] = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text,
                                       flags=re.S)
        return self._codes[path]

    def of(self, *suffixes):
        return [path for path in self.files if path.suffix in suffixes]


def words_in_backticks(text):
    """`a_{b,c}.h` gives a_b and a_c too."""
    found = set()
    for span in re.findall(r"`([^`]+)`", text):
        braces = re.search(r"(\w*)\{([\w,]+)\}(\w*)", span)
        if braces:
            found |= {braces[1] + word + braces[3] for word in braces[2].split(",")}
        found |= set(re.findall(r"\w+", span))
    return found


def check_readmes(tree):
    """Every folder has a short README.md, which names each file of the folder. ops is listed by its
    table instead."""
    for folder in sorted(tree.libraries):
        readme = Path(folder) / "README.md"
        if not (tree.root / folder).is_dir():
            continue
        if not (tree.root / readme).exists():
            tree.fault(readme, 1, "every folder has a README.md")
            continue
        lines = tree.text(readme).splitlines()
        if len(lines) > README_MAX:
            tree.fault(readme, README_MAX + 1, f"more than {README_MAX} lines")
        named = words_in_backticks(tree.text(readme))
        stems = {path.stem for path in tree.of(".h", ".cc") if path.parts[0] == folder}
        for stem in sorted(stems - named) if folder != "ops" else ():
            tree.fault(readme, 1, f"does not name `{stem}`")


def check_private(tree):
    """A private header is marked by one line and included by its own folder and that folder's tests
    only. Gives their names."""
    private = set()
    for path in tree.of(".h"):
        head = tree.text(path).split("#pragma once")[0]
        prose = head.replace("\n//", "")
        if PRIVATE in head.split("\n"):
            private.add(str(path))
        elif path.stem.endswith("_internal") or re.search(r"\bprivate to\b", prose, re.I):
            tree.fault(path, 2, f"a private header has a line of its own that says: {PRIVATE}")
    for path in tree.of(".h", ".cc", ".cu"):
        for number, line in enumerate(tree.text(path).split("\n"), 1):
            match = re.match(r'#include "([^"]+)"', line)
            if match and match[1] in private:
                folder = match[1].split("/")[0]
                if path.parts[0] != folder and path.parts[:2] != ("tests", folder):
                    tree.fault(path, number, f"{match[1]} is private to {folder}")
    return private


def check_public(tree, private):
    """The installed headers are those that programs include, and what these include; no more."""
    if not (tree.root / PUBLIC).exists():
        return
    text = tree.text(PUBLIC)
    listed = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line and not line.startswith("#"):
            listed[line] = number
            if line not in tree.names:
                tree.fault(PUBLIC, number, f"{line} does not exist")
    first = {name for name in text.split(PUBLIC_NEEDED)[0].splitlines() if name in tree.names}
    needed, open_ends = set(first), list(first)
    while open_ends:
        path = Path(open_ends.pop())
        for name in re.findall(r'^#include "([^"]+)"', tree.text(path), re.M):
            if name not in needed and name in tree.names:
                needed.add(name)
                open_ends.append(name)
            if name not in listed:
                tree.fault(path, 1, f"is installed and includes {name}, which {PUBLIC} lacks")
    for name, number in listed.items():
        if name in tree.names and name not in needed:
            tree.fault(PUBLIC, number, f"{name} is included by none of the first list")
        if name in private:
            tree.fault(PUBLIC, number, f"{name} is private")


def check_tests(tree):
    """Every source has a test of its own stem, or a line in COVERED that names the test that has it
    and says why."""
    reasons = {}
    text = tree.text(COVERED) if (tree.root / COVERED).exists() else ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"([\w/]+): (tests/[\w/.]+), because (\S.{8,})", line)
        if match is None:
            tree.fault(COVERED, number, "a line is `folder/stem: tests/..., because REASON`")
            continue
        if not (tree.root / match[2]).is_file():
            tree.fault(COVERED, number, f"{match[2]} does not exist")
        reasons[match[1]] = number
    for path in tree.of(".cc"):
        name = str(path.with_suffix(""))
        if path.parts[0] not in tree.libraries or re.match(OPERATORS, name):
            continue
        test = f"tests/{path.parts[0]}/{path.stem}"
        own = {f"{test}_test.cc", f"{test}_slow_test.cc"} & tree.names
        number = reasons.pop(name, None)
        if own and number:
            tree.fault(COVERED, number, f"{name} has a test of its own: {own.pop()}")
        elif not own and not number:
            tree.fault(path, 1, f"without {test}_test.cc and without a line in {COVERED}")
    for name, number in reasons.items():
        tree.fault(COVERED, number, f"{name} is no source of this tree")


def check_dead(tree):
    """A function of a header that is named nowhere else, or only where it is defined. Names that
    occur twice for other reasons escape; what is found is dead."""
    sources = tree.of(".h", ".cc", ".cu")
    count, defined = Counter(), Counter()
    for path in sources:
        count.update(re.findall(r"[A-Za-z_]\w*", tree.code(path)))
        if path.suffix == ".cc":
            defined.update(re.findall(r"\w::(\w+)\(", tree.code(path)))
    for path in sources:
        if path.suffix != ".h" or path.parts[0] not in tree.libraries:
            continue
        code = re.sub(r"^[ \t]*#.*(\\\n.*)*", lambda m: "\n" * m[0].count("\n"), tree.code(path),
                      flags=re.M)
        for match in re.finditer(r"[\w>]\s*[&*]?\s[&*]?([a-z_]\w*)\(", code):
            name = match[1]
            if re.search(r"\breturn\s*$", code[:match.start(1)]):
                continue
            if count[name] == 1 or (count[name] == 2 and defined[name] == 1):
                line = code.count("\n", 0, match.start(1)) + 1
                tree.fault(path, line, f"{name}() is called by nobody, tests included")


def check(tree):
    check_readmes(tree)
    check_public(tree, check_private(tree))
    check_tests(tree)
    check_dead(tree)

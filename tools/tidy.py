#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what compilers do not: layers, file headers, budgets. Exit 1, one line per fault."""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAVES = {"apps", "bench", "tests", "examples", "python", "tools"}
LINE_MAX, FILE_MAX, FUNCTION_MAX, NESTING_MAX, PARAMETERS_MAX = 100, 600, 70, 4, 6
# Headers of a package may appear only in these folders.
PACKAGES = {
    r"<caf/": {"actors"},
    r"<(capnp|kj)/|\.capnp\.h": {"schemas"},
    r"<(oneapi/dnnl|dnnl|cudnn|cublas)": {"ops"},
    r"<prometheus/": {"monitoring"},
    r"<(asio|openssl/ssl)": {"link"},
    r"<httplib": {"monitoring"},
    r"<catch2/|<rapidcheck": {"tests"},
}
# What stands before a brace that opens no function body.
OTHER_BLOCKS = (r"\b(namespace|class|struct|enum|union|if|for|while|switch|catch|do|else|extern)\b"
                r"[^;()]*(\(|$|\{?$)")
# Name, parameters in parentheses, then what may follow them.
SIGNATURE = (r"[\w>~\])&=+\-*/<!]\s*\((.*)\)\s*"
             r"(const|noexcept|override|final|->[^{]*|TROUPE_REQUIRES\([^)]*\)|\s|:.*)*$")
faults = []


def fault(path, line, text):
    faults.append(f"{path.relative_to(ROOT)}:{line}: {text}")


def layers():
    table = {}
    for line in (ROOT / "cmake/layers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, uses = line.split(":")
            table[name] = set(uses.split()) | {name}
    return table


def check_includes(path, lines, table):
    folder = path.relative_to(ROOT).parts[0]
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+(["<][^">]+[">])', line)
        if not match:
            continue
        target = match.group(1)
        for pattern, allowed in PACKAGES.items():
            if re.search(pattern, target) and folder not in allowed and folder not in LEAVES:
                fault(path, number, f"{target} belongs to {', '.join(sorted(allowed))} only")
        first = target[1:].split("/")[0] if target[0] == '"' else ""
        if target[0] == '"' and folder in table and first in table and first not in table[folder]:
            fault(path, number, f"{folder} must not include {first} (cmake/layers.txt)")
        if target[0] == '"' and folder in table and first in LEAVES:
            fault(path, number, f"{folder} must not include {first}, a leaf")
        if target[0] == '"' and "/" not in target and not target.endswith('-inl.h"'):
            fault(path, number, f"{target}: include from the root of the repository")


def check_header(path, lines):
    mark = "//" if path.suffix in (".h", ".cc", ".cu") else "#"
    first = 1 if lines and lines[0].startswith("#!") else 0
    if len(lines) <= first or lines[first] != f"{mark} SPDX-License-Identifier: Apache-2.0":
        fault(path, first + 1, "the first line must be the SPDX licence line")
    if path.suffix == ".h" and "#pragma once" not in lines:
        fault(path, 1, "header without #pragma once")
    if mark == "//" and not (len(lines) > 1 and lines[1].startswith("// ")):
        fault(path, 2, "behind the licence, 2-8 lines must say what this file is")


def strip_code(lines):
    """The lines without strings, characters and comments, so that braces can be counted."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', '""', "\n".join(lines))
    text = re.sub(r"//[^\n]*", "", text)
    blank = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    return blank.split("\n")


def opens_function(head):
    """The parameter text when a brace behind `head` opens a function body, else None."""
    if re.search(OTHER_BLOCKS, head.split("(")[0]):
        return None
    match = re.search(SIGNATURE, head, re.S)
    if match is None or re.match(r"^\s*(if|for|while|switch|catch|return)\b", head):
        return None
    return match.group(1)


def count_parameters(text):
    depth, commas, seen = 0, 0, text.strip() not in ("", "void")
    for character in text:
        if character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
            if depth < 0:
                break
        elif character == "," and depth == 0:
            commas += 1
    return commas + 1 if seen else 0


def check_functions(path, lines):
    """Length, nesting and parameter count of functions, found by counting braces."""
    stack, head = [], ""
    for number, line in enumerate(strip_code(lines), 1):
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            if character == "{":
                inside = any(kind for kind, _, _ in stack)
                parameters = None if inside else opens_function(head)
                control = bool(re.search(r"\b(if|for|while|switch|do|else|case)\b", head))
                stack.append((parameters is not None, number, control))
                if parameters is not None and count_parameters(parameters) > PARAMETERS_MAX:
                    fault(path, number, f"more than {PARAMETERS_MAX} parameters")
                if sum(1 for _, _, c in stack if c) > NESTING_MAX:
                    fault(path, number, f"nesting deeper than {NESTING_MAX}")
                head = ""
            elif character == "}":
                if stack:
                    is_function, start, _ = stack.pop()
                    if is_function and number - start + 1 > FUNCTION_MAX:
                        fault(path, start, f"function of more than {FUNCTION_MAX} lines")
                head = ""
            elif character == ";" and head.count("(") == head.count(")"):
                head = ""
            else:
                head += character
        head += "\n"


def check_file(path, table):
    lines = path.read_text().split("\n")
    check_header(path, lines)
    if len(lines) - 1 > FILE_MAX:
        fault(path, FILE_MAX + 1, f"{len(lines) - 1} lines (limit {FILE_MAX})")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            fault(path, number, f"{len(line)} columns (limit {LINE_MAX})")
        if line != line.rstrip() or "\t" in line:
            fault(path, number, "trailing space or tab")
    if path.suffix in (".h", ".cc", ".cu"):
        check_includes(path, lines, table)
        check_functions(path, lines)


def check_folders(table):
    for folder in table:
        if not (ROOT / folder).is_dir():
            continue
        readme = ROOT / folder / "README.md"
        if not readme.exists():
            fault(readme, 1, "every folder has a README.md")
        elif len(readme.read_text().splitlines()) > 60:
            fault(readme, 61, "a folder's README.md has at most 60 lines")


def main():
    table = layers()
    listing = ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cc", "*.cu", "*.py",
               "*CMakeLists.txt", "*.cmake"]
    run = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    files = run.stdout.split()
    for name in files:
        if (ROOT / name).exists():
            check_file(ROOT / name, table)
    check_folders(table)
    print("\n".join(faults))
    print(f"tidy: {len(files)} files, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

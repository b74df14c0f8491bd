#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what compilers do not: layers, comments, budgets, banned calls; tidy_tree.py has the rules
that take more than one file. Exit 1, one line per fault. Usage: tools/tidy.py [ROOT]"""
import re
import sys
from pathlib import Path

import tidy_tree
from tidy_tree import LEAVES, Tree

LINE_MAX, FILE_MAX, FUNCTION_MAX, NESTING_MAX, PARAMETERS_MAX = 100, 600, 70, 4, 6
# Headers of a package may appear only in these folders.
PACKAGES = {
    r"<caf/": {"actors"},
    r"<(capnp|kj)/|\.capnp\.h": {"schemas"},
    r"<(oneapi/dnnl|dnnl|cudnn|cublas)": {"ops"},
    r"<prometheus/": {"monitoring"},
    r"<asio": {"link"},
    r"<openssl/ssl": {"link", "http"},
    r"<httplib": {"http"},
    r"<rapidcheck": {"tests"},
}
# What stands before a brace that opens no function body.
OTHER_BLOCKS = (r"\b(namespace|class|struct|enum|union|if|for|while|switch|catch|do|else|extern)\b"
                r"[^;()]*(\(|$|\{?$)")
# Name, parameters in parentheses, then what may follow them.
SIGNATURE = (r"[\w>~\])&=+\-*/<!]\s*\((.*)\)\s*"
             r"(const|noexcept|override|final|->[^{]*|TROUPE_REQUIRES\([^)]*\)|\s|:.*)*$")
# Calls and types that nobody uses: pattern, what is used instead, folders and files that may.
CALL = r"(?<![\w.>:])(?:std::|::)?"  # not the members and the namespaces of others
BANNED = [
    (CALL + r"(srand|rand)\s*\(|\bstd::random_device\b", "base/random.h", ()),
    (CALL + r"(strcpy|strcat|sprintf|vsprintf|gets|strtok)\s*\(", "std::string and fmt", ()),
    (CALL + r"(atoi|atol|atoll|atof)\s*\(", "std::from_chars", ()),
    (CALL + r"(getenv|secure_getenv|setenv|putenv|unsetenv)\s*\(", "base/environment.h",
     ("base/environment.cc", "tests")),
    # Not `throw;`, which passes a library's exception on. bad_alloc is what C++ demands.
    (r"\bthrow\b(?!\s*;)", "a Status or a Result", ("apps/operator_new.cc", "apps/exit_code.cc")),
    (r"\bstd::async\b", "the engine, or a thread with an owner", ("tests",)),
    # Its versions 2 and 3 have other headers.
    (r"<catch2/[^>]*>", "tests/support/catch.h",
     ("tests/support/catch.h", "tests/support/main.cc")),
    (r"\bstd::((recursive_|timed_|recursive_timed_|shared_|shared_timed_)?mutex|"
     r"condition_variable(_any)?|(lock_guard|unique_lock|shared_lock|scoped_lock))\b",
     "base/mutex.h, which clang checks", ("base", "tests")),
]
# Names of the standard library and the header that a header which uses them includes.
STANDARD = {
    "algorithm": r"(min|max|clamp|sort|find(_if)?|any_of|all_of|copy|fill|equal|lower_bound)\(",
    "array": r"array\b",
    "atomic": r"(atomic|memory_order\w*)\b",
    "chrono": r"chrono\b",
    "cmath": r"(isnan|isinf|isfinite|signbit|fabs|floor|ceil|round|sqrt|exp|log|pow|fma)\(",
    "cstdint": r"(u?int(8|16|32|64|ptr|max)_t)\b",
    "filesystem": r"filesystem\b",
    "functional": r"(function|less|hash|plus|greater)\b",
    "map": r"(multi)?map\b",
    "memory": r"(unique_ptr|shared_ptr|weak_ptr|make_unique|make_shared|enable_shared_from_this)\b",
    "optional": r"(optional|nullopt)\b",
    "set": r"(multi)?set\b",
    "span": r"(span|as_bytes|as_writable_bytes)\b",
    "sstream": r"[io]?stringstream\b",
    "string": r"(string|to_string)\b",
    "string_view": r"string_view\b",
    "thread": r"(thread|this_thread)\b",
    "tuple": r"(tuple|tie)\b",
    "unordered_map": r"unordered_(multi)?map\b",
    "utility": r"(exchange|forward|move|pair|swap|make_pair)\b",
    "variant": r"(variant|visit|get_if|holds_alternative|monostate)\b",
    "vector": r"vector\b",
}


def check_includes(tree, path, lines):
    folder, table = path.parts[0], tree.table
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+(["<][^">]+[">])', line)
        if not match:
            continue
        target = match.group(1)
        for pattern, allowed in PACKAGES.items():
            if re.search(pattern, target) and folder not in allowed and folder not in LEAVES:
                tree.fault(path, number, f"{target} belongs to {', '.join(sorted(allowed))} only")
        first = target[1:].split("/")[0] if target[0] == '"' else ""
        if target[0] == '"' and folder in table and first in table and first not in table[folder]:
            tree.fault(path, number, f"{folder} must not include {first} (cmake/layers.txt)")
        if target[0] == '"' and folder in table and first in LEAVES:
            tree.fault(path, number, f"{folder} must not include {first}, a leaf")
        if target[0] == '"' and "/" not in target and not target.endswith('-inl.h"'):
            tree.fault(path, number, f"{target}: include from the root of the repository")


def check_head(tree, path, lines):
    mark = "//" if path.suffix in (".h", ".cc", ".cu") else "#"
    first = 1 if lines and lines[0].startswith("#!") else 0
    if len(lines) <= first or lines[first] != f"{mark} SPDX-License-Identifier: Apache-2.0":
        tree.fault(path, first + 1, "the first line must be the SPDX licence line")
    if path.suffix == ".h" and "#pragma once" not in lines:
        tree.fault(path, 1, "header without #pragma once")
    if mark == "//" and not (len(lines) > 1 and lines[1].startswith("// ")):
        tree.fault(path, 2, "behind the licence, 2-8 lines must say what this file is")


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


def check_functions(tree, path):
    """Length, nesting and parameter count of functions, found by counting braces."""
    stack, head = [], ""
    for number, line in enumerate(tree.code(path).split("\n"), 1):
        if line.lstrip().startswith("#"):
            continue
        for character in line:
            if character == "{":
                inside = any(kind for kind, _, _ in stack)
                parameters = None if inside else opens_function(head)
                control = bool(re.search(r"\b(if|for|while|switch|do|else|case)\b", head))
                stack.append((parameters is not None, number, control))
                if parameters is not None and count_parameters(parameters) > PARAMETERS_MAX:
                    tree.fault(path, number, f"more than {PARAMETERS_MAX} parameters")
                if sum(1 for _, _, c in stack if c) > NESTING_MAX:
                    tree.fault(path, number, f"nesting deeper than {NESTING_MAX}")
                head = ""
            elif character == "}":
                if stack:
                    is_function, start, _ = stack.pop()
                    if is_function and number - start + 1 > FUNCTION_MAX:
                        tree.fault(path, start, f"function of more than {FUNCTION_MAX} lines")
                head = ""
            elif character == ";" and head.count("(") == head.count(")"):
                head = ""
            else:
                head += character
        head += "\n"


def check_types(tree, path, lines):
    """A type at namespace scope has a comment; a specialisation has that of its template."""
    code = tree.code(path).split("\n")
    for number, line in enumerate(code, 1):
        match = re.match(r"(template\s*<.*>\s*)?(class|struct|union|enum)\s+[\w:]", line)
        if not match:
            continue
        first = number - 1
        while first > 0 and re.match(r"template\b|requires\b|\s+\S", code[first - 1]):
            first -= 1
        declared = re.search(r"[{;]", "\n".join(code[number - 1:number + 9]))
        special = re.match(r"template\s*<\s*>", code[first])
        if declared and declared.group() == "{" and not special:
            if first == 0 or not lines[first - 1].startswith("///"):
                tree.fault(path, number, "a type of a header has a comment with ///")


def check_banned(tree, path):
    code = tree.code(path)
    for pattern, instead, allowed in BANNED:
        if path.parts[0] in allowed or str(path) in allowed:
            continue
        for match in re.finditer(pattern, code):
            line = code.count("\n", 0, match.start()) + 1
            tree.fault(path, line, f"{match.group().strip(' (')}: use {instead}")


def check_mutexes(tree, path):
    """A mutex says what it guards, or clang has nothing to check."""
    code = tree.code(path)
    for match in re.finditer(r"\b(?:base::(?:Shared)?|Spin)Mutex (\w+);", code):
        if not re.search(rf"TROUPE_(GUARDED_BY|REQUIRES)\({match[1]}\)", code):
            line = code.count("\n", 0, match.start()) + 1
            tree.fault(path, line, f"{match[1]}: say with TROUPE_GUARDED_BY what it guards")


def check_case_names(tree, path, lines):
    """CMake makes a list of a program's cases: a semicolon in a name would cut it in two."""
    for number, line in enumerate(lines, 1):
        if re.search(r'^TEST_CASE\("[^"]*;', line):
            tree.fault(path, number, "a case's name has no semicolon")


def check_own_includes(tree, path, lines):
    """A source begins with its own header, which is thereby compiled alone. A header includes what
    it names of the standard library, so that no other header's includes keep it alive."""
    found = [match[1] for line in lines if (match := re.match(r'#include ["<]([^">]+)', line))]
    own = str(path.with_suffix(".h"))
    if path.suffix == ".cc" and own in tree.names and found and found[0] != own:
        tree.fault(path, 1, f"the first include is {own}")
    if path.suffix != ".h" or path.parts[0] not in tree.libraries:
        return
    code = tree.code(path)
    for header, names in STANDARD.items():
        match = re.search(r"\bstd::" + names, code)
        if match and header not in found:
            line = code.count("\n", 0, match.start()) + 1
            tree.fault(path, line, f"{match.group().strip('(')} without #include <{header}>")


def check_file(tree, path):
    lines = tree.text(path).split("\n")
    check_head(tree, path, lines)
    if len(lines) - 1 > FILE_MAX:
        tree.fault(path, FILE_MAX + 1, f"{len(lines) - 1} lines (limit {FILE_MAX})")
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_MAX:
            tree.fault(path, number, f"{len(line)} columns (limit {LINE_MAX})")
        if line != line.rstrip() or "\t" in line:
            tree.fault(path, number, "trailing space or tab")
    if path.suffix in (".h", ".cc", ".cu"):
        check_includes(tree, path, lines)
        check_functions(tree, path)
        check_banned(tree, path)
        check_mutexes(tree, path)
        check_own_includes(tree, path, lines)
        check_case_names(tree, path, lines)
    if path.suffix == ".h" and path.parts[0] in tree.libraries:
        check_types(tree, path, lines)


def main():
    if len(sys.argv) > 2:
        sys.exit("usage: tools/tidy.py [ROOT]")
    here = Path(__file__).resolve().parent.parent
    tree = Tree(Path(sys.argv[1]).resolve() if len(sys.argv) == 2 else here)
    for path in tree.files:
        check_file(tree, path)
    tidy_tree.check(tree)
    print("\n".join(tree.faults))
    print(f"tidy: {len(tree.files)} files, {len(tree.faults)} faults")
    return 1 if tree.faults else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/tidy.py on a small tree without fault, into which each case plants one fault.

Usage: tidy_test.py [unittest arguments].
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

TIDY = pathlib.Path(__file__).resolve().parents[2] / "tools/tidy.py"

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
HEADER = LICENCE + """// A thing.
#pragma once

#include <string>

namespace troupe::base {

/// Counts.
class Thing {
 public:
  std::string show() const;
};

}  // namespace troupe::base
"""
SOURCE = LICENCE + """// How a thing is shown.
#include "base/thing.h"

namespace troupe::base {

std::string Thing::show() const {
  return "thing";
}

}  // namespace troupe::base
"""
TEST = LICENCE + """// Tests of a thing.
#include "base/thing.h"

TEST_CASE("a thing is shown") {
  CHECK(Thing().show() == "thing");
}
"""
TREE = {
    "cmake/layers.txt": "# Layers.\nbase:\nengine: base\nops: base\n",
    "base/README.md": "# base\n\n`thing`: a thing.\n",
    "base/thing.h": HEADER,
    "base/thing.cc": SOURCE,
    "tests/base/thing_test.cc": TEST,
    "cmake/public_headers.txt": "# For programs.\nbase/thing.h\n# What those include.\n",
    "engine/README.md": "# engine\n\n`wheel`, `spoke`: parts.\n",
    "engine/wheel.h": LICENCE + "// A wheel.\n// Private to this folder.\n#pragma once\n",
    "engine/spoke.cc": LICENCE + '// A spoke.\n#include "engine/wheel.h"\n',
    "tests/engine/wheel_test.cc": LICENCE + '// Tests.\n#include "engine/wheel.h"\n',
    "tests/covered.txt": "engine/spoke: tests/engine/wheel_test.cc, because it turns with it\n",
    "ops/README.md": "# ops\n",
    "ops/nn/relu.cc": LICENCE + "// relu.\n",
}


class TidyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        subprocess.run(["git", "init", "-q", self.root], check=True)
        for name, text in TREE.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name, old, new):
        text = (self.root / name).read_text()
        self.assertEqual(text.count(old), 1, f"{old!r} in {name}")
        self.write(name, text.replace(old, new))

    def add(self, name, code):
        """Behind everything in a file of the tree."""
        self.write(name, (self.root / name).read_text() + code)

    def expect(self, *faults):
        """Exactly these faults: (file and line, words of the text)."""
        run = subprocess.run([sys.executable, TIDY, self.root], capture_output=True, text=True)
        lines = [line for line in run.stdout.splitlines() if line][:-1]
        self.assertEqual(len(lines), len(faults), run.stdout + run.stderr)
        for line, (place, words) in zip(lines, faults):
            self.assertTrue(line.startswith(place + ": "), line)
            self.assertIn(words, line)
        self.assertEqual(run.returncode, 1 if faults else 0)

    def test_a_tree_without_fault(self):
        self.expect()

    def test_includes_follow_the_layers(self):
        self.add("base/thing.cc", '#include "engine/spoke.h"\n')
        self.expect(("base/thing.cc:12", "base must not include engine"))

    def test_packages_have_a_folder(self):
        self.change("base/thing.h", "<string>", "<caf/actor.hpp>\n#include <string>")
        self.expect(("base/thing.h:5", "belongs to actors only"))

    def test_heads(self):
        self.change("base/thing.cc", LICENCE, "")
        self.change("base/thing.h", "#pragma once\n", "")
        self.expect(("base/thing.cc:1", "licence"), ("base/thing.cc:2", "say what this file is"),
                    ("base/thing.h:1", "#pragma once"))

    def test_lengths(self):
        self.change("base/thing.cc", '  return "thing";\n', "  shown();\n" * 80 + '  return "";\n')
        self.expect(("base/thing.cc:7", "function of more than 70 lines"))
        self.write("base/thing.cc", SOURCE + "//\n" * 600)
        self.expect(("base/thing.cc:601", "lines (limit 600)"))
        self.write("base/thing.cc", SOURCE + "// " + "x" * 100 + "\n")
        self.expect(("base/thing.cc:12", "103 columns"))

    def test_shapes_of_functions(self):
        self.add("base/thing.cc", "void f(int a, int b, int c, int d, int e, int g, int h) {}\n")
        self.expect(("base/thing.cc:12", "more than 6 parameters"))
        self.write("base/thing.cc", SOURCE + "void f() {\n" + "if (x) {\n" * 5 + "}\n" * 6)
        self.expect(("base/thing.cc:17", "nesting deeper than 4"))

    def test_types_have_comments(self):
        self.change("base/thing.h", "/// Counts.\n", "")
        self.expect(("base/thing.h:9", "a type of a header has a comment"))
        for kind in ("struct", "enum class", "template <typename T>\nclass", "union"):
            self.write("base/thing.h", HEADER + f"{kind} Other {{}};\n")
            self.expect((f"base/thing.h:{16 + kind.count(chr(10))}", "has a comment with ///"))
        # Declared only, or a special case of a template that has one.
        self.write("base/thing.h", HEADER + "class Later;\ntemplate <>\nstruct Size<int> {};\n")
        self.expect()

    def test_readmes_name_every_file(self):
        self.change("base/README.md", "`thing`", "thing")
        self.expect(("base/README.md:1", "does not name `thing`"))
        self.write("base/README.md", "# base\n\n`th{ing,ought}.h`\n" + "\n" * 60)
        self.expect(("base/README.md:61", "more than 60 lines"))
        (self.root / "base/README.md").unlink()
        self.expect(("base/README.md:1", "every folder has a README.md"))

    def test_private_headers_stay_at_home(self):
        self.add("ops/nn/relu.cc", '#include "engine/wheel.h"\n')
        self.expect(("ops/nn/relu.cc:3", "ops must not include engine"),
                    ("ops/nn/relu.cc:3", "engine/wheel.h is private to engine"))

    def test_private_headers_have_one_mark(self):
        self.change("engine/wheel.h", "// Private to this folder.", "// Private to the\n// engine.")
        self.expect(("engine/wheel.h:2", "Private to this folder."))
        self.change("engine/wheel.h", "// Private to the\n// engine.\n", "")
        self.expect()
        (self.root / "engine/wheel.h").rename(self.root / "engine/wheel_internal.h")
        for name in ("engine/spoke.cc", "tests/engine/wheel_test.cc"):
            self.change(name, "wheel.h", "wheel_internal.h")
        self.change("engine/README.md", "`wheel`", "`wheel_internal`")
        self.expect(("engine/wheel_internal.h:2", "Private to this folder."))

    def test_installed_headers_are_complete_and_no_more(self):
        self.change("base/thing.h", "<string>", '<string>\n\n#include "base/part.h"')
        self.write("base/part.h", LICENCE + "// A part.\n#pragma once\n")
        self.change("base/README.md", "`thing`", "`thing`, `part`")
        self.expect(("base/thing.h:1", "is installed and includes base/part.h, which"))
        self.add("cmake/public_headers.txt", "base/part.h\n")
        self.expect()
        self.change("base/thing.h", '\n#include "base/part.h"', "")
        self.expect(("cmake/public_headers.txt:4", "base/part.h is included by none"))
        self.change("cmake/public_headers.txt", "base/part.h", "base/gone.h")
        self.expect(("cmake/public_headers.txt:4", "base/gone.h does not exist"))
        self.change("cmake/public_headers.txt", "base/gone.h\n", "")
        self.change("cmake/public_headers.txt", "thing.h\n", "thing.h\nengine/wheel.h\n")
        self.expect(("cmake/public_headers.txt:3", "engine/wheel.h is private"))

    def test_every_source_has_a_test_or_a_reason(self):
        self.write("tests/covered.txt", "# Why.\n")
        self.expect(("engine/spoke.cc:1", "without tests/engine/spoke_test.cc"))

    def test_reasons_are_whole_and_true(self):
        line = "engine/spoke: tests/engine/wheel_test.cc, because it turns with it\n"
        for bad in ("engine/spoke: tests/engine/wheel_test.cc\n",
                    "engine/spoke: tests/engine/wheel_test.cc, because\n",
                    "engine/spoke: tests/engine/wheel_test.cc, because x\n"):
            self.write("tests/covered.txt", bad)
            self.expect(("tests/covered.txt:1", "a line is"), ("engine/spoke.cc:1", "without"))
        self.write("tests/covered.txt", line.replace("wheel_test", "gone_test"))
        self.expect(("tests/covered.txt:1", "tests/engine/gone_test.cc does not exist"))
        self.write("tests/covered.txt", line + line.replace("spoke", "rim"))
        self.expect(("tests/covered.txt:2", "engine/rim is no source"))
        self.write("tests/covered.txt", line + line.replace("engine/spoke", "base/thing"))
        self.expect(("tests/covered.txt:2", "has a test of its own"))

    def test_banned_calls(self):
        for call, instead in (("rand()", "base/random.h"), ("std::strcpy(a, b)", "std::string"),
                              ("sprintf(a, b)", "std::string"), ("::atoi(a)", "std::from_chars"),
                              ("std::getenv(a)", "base/environment.h"), ("throw 1", "a Status"),
                              ("std::async(f)", "the engine"),
                              ("#include <catch2/catch.hpp>", "tests/support/catch.h")):
            self.write("base/thing.cc", SOURCE + call + ";\n")
            self.expect(("base/thing.cc:12", f"use {instead}"))
        self.write("base/thing.cc", SOURCE + "operand(); dice.rand(); ops::rand(); // rand()\n")
        self.expect()

    def test_locks_are_those_that_clang_checks(self):
        for name in ("mutex", "recursive_mutex", "shared_mutex", "condition_variable",
                     "condition_variable_any", "lock_guard", "unique_lock", "scoped_lock"):
            self.write("engine/spoke.cc", TREE["engine/spoke.cc"] + f"std::{name} x;\n")
            self.expect(("engine/spoke.cc:4", f"std::{name}: use base/mutex.h"))
            self.write("engine/spoke.cc", TREE["engine/spoke.cc"])
            self.write("base/thing.cc", SOURCE + f"std::{name} x;\n")
            self.expect()

    def test_mutexes_say_what_they_guard(self):
        self.change("base/thing.h", "const;\n", "const;\n  base::Mutex mutex_;\n")
        self.expect(("base/thing.h:13", "mutex_: say with TROUPE_GUARDED_BY"))
        self.change("base/thing.h", "mutex_;\n", "mutex_;\n  int n_ TROUPE_GUARDED_BY(mutex_);\n")
        self.expect()

    def test_names_of_cases_stay_whole(self):
        self.change("tests/base/thing_test.cc", "a thing is shown", "a thing; shown")
        self.expect(("tests/base/thing_test.cc:5", "no semicolon"))

    def test_own_header_first(self):
        self.change("base/thing.cc", '#include "base/', '#include <string>\n\n#include "base/')
        self.expect(("base/thing.cc:1", "the first include is base/thing.h"))

    def test_headers_include_what_they_name(self):
        self.change("base/thing.h", "#include <string>\n", "#include <vector>\n")
        self.expect(("base/thing.h:12", "std::string without #include <string>"))
        self.change("base/thing.h", "<vector>", "<string>")
        self.change("base/thing.h", "show() const", "show(std::string_view text) const")
        self.expect(("base/thing.h:12", "std::string_view without #include <string_view>"))

    def test_dead_functions(self):
        self.change("base/thing.h", "show() const;\n", "show() const;\n  int size() const;\n")
        self.expect(("base/thing.h:13", "size() is called by nobody"))
        self.add("base/thing.cc", "int Thing::size() const {\n  return 0;\n}\n")
        self.expect(("base/thing.h:13", "size() is called by nobody"))
        self.add("tests/base/thing_test.cc", "int n = Thing().size();\n")
        self.expect()


if __name__ == "__main__":
    unittest.main()

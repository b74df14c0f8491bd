#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What must not compile: things that are forgotten in the second of two places. Each case edits a
copy of some files and compiles a source that sees them: it must be refused with the expected words.
Then the case mends what was forgotten, and the same source must compile.

Usage: compile_fail_test.py BUILD_FOLDER [unittest arguments]. Nothing is linked or run.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from syntax import Build  # noqa: E402

# A structured binding that does not name every field of a struct, in the words of g++ and clang.
UNNAMED = r"only \d+ names (were )?provided"
BUILD = None  # see the last lines


# In the words of g++ and newer clang++, and of clang++ 14.
ASSERTION_FAILED = r"static assertion failed|static_assert failed"


def no_match(name):
    """What g++ and clang++ say of a call for which there is no function."""
    return rf"no matching (member )?function for call to .*\b{name}\b"


class CompileFailTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.overlay = pathlib.Path(folder.name)

    def edit(self, name, old, new):
        """In the copy; the file is copied first where it is not yet."""
        path = self.overlay / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((ROOT / name).read_text())
        text = path.read_text()
        self.assertEqual(text.count(old), 1, f"{old!r} in {name}")
        path.write_text(text.replace(old, new))

    def errors(self, source):
        """Of the copy of `source`, or of `source` itself; edited headers come first. Each error has
        the notes that explain it."""
        own = self.overlay / source
        flags = BUILD.commands.get(source) or BUILD.flags_near(source)
        command = [BUILD.compiler, "-fsyntax-only", "-fmax-errors=2", "-I", self.overlay, *flags,
                   own if own.exists() else ROOT / source]
        run = subprocess.run(command, cwd=BUILD.folder, capture_output=True, text=True)
        found = re.split(r"error: ", run.stderr)[1:]
        self.assertEqual(bool(found), run.returncode != 0, run.stderr)
        # g++ 14 gives the reason of this one, which others give as a note, as an error of its own.
        if found[1:] and "is not a constant expression" in found[0] and "note: " not in found[0]:
            found[:2] = ["".join(found[:2])]
        return found

    def expect_refusal(self, source, words):
        """The first error, from which others may follow, says `words` (a pattern)."""
        found = self.errors(source)
        self.assertTrue(found, f"{source} compiles")
        self.assertRegex(found[0], words)

    def expect_success(self, source):
        self.assertEqual(self.errors(source), [])

    def write(self, name, text):
        (self.overlay / name).parent.mkdir(parents=True, exist_ok=True)
        (self.overlay / name).write_text(text)

    def test_a_family_that_is_not_in_the_list(self):
        snippet = ('#include "monitoring/families.h"\n'
                   'const auto& seen = troupe::monitoring::family("troupe_{}");\n')
        source = "monitoring/snippet.cc"
        self.write(source, snippet.format("worker_epok"))
        self.expect_refusal(source, "name_is_not_in_the_list")
        self.write(source, snippet.format("worker_epoch"))
        self.expect_success(source)

    def test_a_limit_without_a_row(self):
        self.edit("base/limits.h", "struct Limits {\n",
                  "struct Limits {\n  std::uint64_t pause_ms = 1;\n")
        self.expect_refusal("base/limits.cc", ASSERTION_FAILED)
        self.edit("base/limits.cc", "kTable = {\n",
                  'kTable = {\n    LimitInfo{"pause_ms", &Limits::pause_ms},\n')
        self.expect_success("base/limits.cc")

    def test_a_field_of_a_message_without_a_codec(self):
        self.edit("schemas/messages.h", "  PushResult result = PushResult::taken;\n",
                  "  PushResult result = PushResult::taken;\n  std::uint32_t tries = 0;\n")
        self.expect_refusal("schemas/codec_data.cc", UNNAMED)
        self.edit("schemas/codec_data.cc", "const auto& [slice, node, step, result] = m;",
                  "const auto& [slice, node, step, result, tries] = m;")
        self.expect_success("schemas/codec_data.cc")

    def test_a_key_of_a_job_without_a_codec(self):
        self.edit("schemas/job_spec.h", "struct ServersSpec {\n",
                  "struct ServersSpec {\n  std::uint32_t spares = 0;\n")
        self.expect_refusal("schemas/codec_spec.cc", UNNAMED)
        self.edit("schemas/codec_spec.cc", "const auto& [shards, server_threads] = servers;",
                  "const auto& [spares, shards, server_threads] = servers;")
        self.expect_success("schemas/codec_spec.cc")

    def test_a_key_of_a_job_that_the_fingerprint_does_not_know(self):
        self.edit("schemas/job_spec.h", "struct ServersSpec {\n",
                  "struct ServersSpec {\n  std::uint32_t spares = 0;\n")
        self.expect_refusal("train/fingerprint.cc", UNNAMED)
        self.edit("train/fingerprint.cc", "const auto& [shards, threads] = servers;\n",
                  "const auto& [spares, shards, threads] = servers;\n"
                  "  no_bit_depends_on(spares);\n")
        self.expect_success("train/fingerprint.cc")

    def test_a_part_of_a_job_that_the_fingerprint_does_not_know(self):
        self.edit("schemas/job_spec.h", "  ServersSpec servers;\n",
                  "  ServersSpec servers;\n  ServersSpec others;\n")
        self.expect_refusal("train/fingerprint.cc", UNNAMED)
        self.edit("train/fingerprint.cc", "workers, servers,", "workers, servers, others,")
        self.edit("train/fingerprint.cc", "  leave_out(servers);\n",
                  "  leave_out(servers);\n  leave_out(others);\n")
        self.expect_success("train/fingerprint.cc")

    def test_an_effect_that_a_shell_does_not_perform(self):
        self.edit("actors/effects.h", "using DeviceEffect = std::variant<",
                  "struct Lend {};\nusing DeviceEffect = std::variant<Lend, ")
        self.expect_refusal("actors/company.cc", no_match("perform"))
        self.edit("actors/server.h", "  void perform(const Fail&) const {}\n",
                  "  void perform(const Fail&) const {}\n  void perform(const Lend&) const {}\n")
        self.expect_success("actors/company.cc")

    def test_an_event_that_a_machine_does_not_take(self):
        self.edit("actors/effects.h", "using WorkerEvent =\n    std::variant<Received, ",
                  "struct Paused {};\nusing WorkerEvent =\n    std::variant<Paused, Received, ")
        self.expect_refusal("actors/worker_state.cc", no_match("on"))
        self.edit("actors/worker_state.h", "  void on(const Tick& tick);\n",
                  "  void on(const Tick& tick);\n  void on(const Paused&) {}\n")
        self.expect_success("actors/worker_state.cc")

    def add_message(self, family, last):
        """A message that belongs to no family yet, then to `family`, which ended with `last`."""
        self.edit("schemas/messages.h", "/// Every message. ",
                  "struct Probe {};\n\n/// Every message. ")
        self.edit("schemas/messages.h", "StepVerdict>;", "StepVerdict, Probe>;")
        self.expect_refusal("actors/worker_state.cc", ASSERTION_FAILED)
        self.edit("schemas/message_families.h", last, last.replace(">;", ", Probe>;"))

    def test_a_message_that_a_role_of_a_job_does_not_take(self):
        self.add_message("DataMessage", "StepVerdict>;")
        for role in ("worker", "device_server", "parameter_server"):
            source = f"actors/{role}_state"
            self.expect_refusal(f"{source}.cc", no_match("take"))
            self.edit(f"{source}.h", " private:\n",
                      " private:\n  void take(schemas::Envelope&, const schemas::Probe&) {}\n")
            self.expect_success(f"{source}.cc")

    def test_a_message_that_the_control_plane_does_not_take(self):
        self.add_message("AgentMessage", "AgentOffer>;")
        self.expect_success("actors/worker_state.cc")  # agents' messages never come to ranks
        for source in ("control/agent_state.cc", "control/coordinator_state.cc"):
            self.expect_refusal(source, no_match("on_message"))


if __name__ == "__main__":
    BUILD = Build(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()

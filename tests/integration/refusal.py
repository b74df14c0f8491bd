#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the tests of bad input share: data, a job file, and what a command that is refused must do:
end soon with its documented exit code and one line that names what is wrong, and leave no file
behind that was not there before. docs/exit-codes.md says what the codes mean.
"""
import pathlib
import subprocess
import tempfile
import unittest

import cluster
from cluster import make_data, write_job

FAILED, USAGE, INPUT, UNREACHABLE, MISSING, CONFLICT, RESOURCES, FORBIDDEN = range(1, 9)
LIMIT_S = cluster.DEADLINE_S


class RefusalCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.data = pathlib.Path(cls.temporary.name) / "data"
        cls.data.mkdir()
        make_data(cls.data)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.folder = pathlib.Path(self.temporary.name) / self.id().rsplit(".", 1)[1]
        self.folder.mkdir()
        self.job = write_job(self.data, "job", epochs=1)
        self.out = self.folder / "out"

    def put(self, name, content):
        """A file of bytes or text in the test's folder."""
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def expect(self, code, texts, *words, files=False, **how):
        """The command ends with `code` and one error line with all `texts`, and makes no file;
        with `files` it may have made whole ones."""
        before = sorted(self.folder.rglob("*"))
        done = subprocess.run([cluster.TROUPE, *map(str, words)], capture_output=True,
                              timeout=LIMIT_S, **{"stdin": subprocess.DEVNULL, **how})
        said = done.stderr.decode(errors="replace")
        lines = [line for line in said.splitlines()
                 if line.startswith("error: ") or ": error: " in line]
        where = f"troupe {' '.join(map(str, words))[:300]}\n{said[:2000]}"
        self.assertEqual(done.returncode, code, where)
        self.assertEqual(len(lines), 1, where)
        self.assertLess(len(lines[0]), 1000, where)
        for text in [texts] if isinstance(texts, (str, pathlib.Path)) else texts:
            self.assertIn(str(text), lines[0], where)
        # These say first what they have counted, and the job's id.
        if words[:2] != ("data", "check") and "submit" not in words:
            self.assertEqual(done.stdout, b"", where)
        after = sorted(self.folder.rglob("*"))
        if files:
            self.assertEqual([path for path in after if ".tmp" in path.name], [], where)
        else:
            self.assertEqual(after, before, where)

    def run_job(self, code, texts, *settings, **how):
        """The same of a run; what it wrote before it failed is whole."""
        words = ["run", self.job, "--quiet", "--set", f"checkpoint.dir={self.out}"]
        for setting in settings:
            words += ["--set", setting]
        self.out.mkdir(exist_ok=True)
        self.expect(code, texts, *words, files=code == FAILED, **how)

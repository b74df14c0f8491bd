#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""systemd's own checks of the services that `troupe gen systemd` writes: no fault, little exposed,
and settings files that set what the services read.

Usage: systemd_test.py TROUPE [unittest arguments]. Skipped where systemd is not installed.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TROUPE = sys.argv.pop(1)
LIMIT_S = 600
EXPOSURE_MAX = 25  # tenths: 2.5
SYSTEM = pathlib.Path("usr/lib/systemd/system")
SERVICES = ("troupe-coordinator", "troupe-agent")


def run(*words):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT_S)


@unittest.skipUnless(shutil.which("systemd-analyze") and (pathlib.Path("/") / SYSTEM).is_dir(),
                     "systemd-analyze is not installed (Debian package systemd)")
class SystemdTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.root = pathlib.Path(temporary.name)
        cls.files = cls.root / "made"
        run(TROUPE, "gen", "systemd", "-o", cls.files).check_returncode()
        # A machine's root, with its own targets and the program in its place.
        shutil.copytree("/" / SYSTEM, cls.root / SYSTEM, symlinks=True)
        (cls.root / "usr/bin").mkdir()
        shutil.copy(TROUPE, cls.root / "usr/bin/troupe")
        for service in SERVICES:
            shutil.copy(cls.files / f"{service}.service", cls.root / SYSTEM)

    def verify(self, service):
        return run("systemd-analyze", "verify", "--man=no", f"--root={self.root}",
                   f"{service}.service")

    def test_services_have_no_fault(self):
        for service in SERVICES:
            done = self.verify(service)
            self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_a_fault_would_be_seen(self):
        text = (self.files / "troupe-agent.service").read_text()
        broken = self.root / SYSTEM / "broken.service"
        broken.write_text(text.replace("ProtectHome=", "ProtectHouse="))
        self.assertIn("ProtectHouse", self.verify("broken").stderr)

    def test_little_is_exposed(self):
        for service in SERVICES:
            done = run("systemd-analyze", "security", "--offline=true",
                       f"--threshold={EXPOSURE_MAX}", "--no-pager",
                       self.files / f"{service}.service")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"Overall exposure level for \S+: [012]\.\d")

    def test_what_services_read_is_set_in_their_files(self):
        for service in SERVICES:
            text = (self.files / f"{service}.service").read_text()
            settings = (self.files / f"{service.split('-')[1]}.env").read_text()
            named = set(re.findall(r"\$\{(\w+)\}", text))
            inside = {word.split("=")[0] for line in re.findall(r"^Environment=(.*)", text, re.M)
                      for word in line.split()}
            self.assertTrue(named)
            self.assertEqual(named - inside, set(re.findall(r"^(\w+)=", settings, re.M)))

    def test_the_command_lines_are_of_this_program(self):
        for service in SERVICES:
            text = (self.files / f"{service}.service").read_text()
            words = re.search(r"^ExecStart=/usr/bin/troupe (.*)", text, re.M)[1].split()
            shown = run(TROUPE, "help", words[0])
            self.assertEqual(shown.returncode, 0)
            for option in (word for word in words if word.startswith("--")):
                self.assertIn(f"  {option} ", shown.stdout)

    def test_the_user_can_be_made(self):
        if shutil.which("systemd-sysusers") is None:
            self.skipTest("systemd-sysusers is not installed")
        (self.root / "etc").mkdir()
        done = run("systemd-sysusers", f"--root={self.root}", self.files / "troupe.sysusers")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("troupe:", (self.root / "etc/passwd").read_text())


if __name__ == "__main__":
    unittest.main(verbosity=2)

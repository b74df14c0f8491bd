#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`troupe top` in a terminal: keys, signals and sizes; the terminal is given back as it was; a
coordinator that goes away is said and waited for.

Usage: top_test.py TROUPE [unittest arguments].
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

import cluster
from cluster import DEADLINE_S, ClusterCase, troupe, write_job

ENTER, LEAVE = "\033[?1049h", "\033[?1049l"


# Leads the session, so that the terminal outlives the program: Ctrl-C is the program's alone.
LEADER = """
import os, signal, subprocess, sys
report, hold = int(sys.argv[1]), int(sys.argv[2])
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = subprocess.Popen(sys.argv[3:],
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
os.write(report, b"%d\\n" % child.pid)
os.write(report, b"%d\\n" % child.wait())
os.read(hold, 1)
"""


class Terminal:
    """A program behind a pseudo terminal that controls it."""

    def __init__(self, words, rows=24, columns=80, **variables):
        self.ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.ours)
        self.errors = tempfile.TemporaryFile()
        report, told = os.pipe()
        held, self.hold = os.pipe()
        self.leader = subprocess.Popen(
            [sys.executable, "-c", LEADER, str(told), str(held), *words], stdin=theirs,
            stdout=theirs, stderr=self.errors, env={**os.environ, "TERM": "xterm", **variables},
            start_new_session=True, pass_fds=(told, held),
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        for number in (theirs, told, held):
            os.close(number)
        self.report = os.fdopen(report, "rb", buffering=0)
        self.pid = int(self.report.readline())
        self.code = None
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def read(self, seconds=0.1):
        """What it has written since the last call or writes within `seconds`: it may never rest."""
        part, deadline = b"", time.monotonic() + seconds
        while select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part += os.read(self.ours, 65536)
            if time.monotonic() >= deadline:
                break
        text = part.decode(errors="replace")
        self.text += text
        return text

    def ended(self):
        if self.code is None and select.select([self.report], [], [], 0)[0]:
            self.code = int(self.report.readline())
        return self.code is not None

    def wait_for(self, pattern):
        """Reads until the pattern is in what it writes from now on; gives that text."""
        deadline, seen = time.monotonic() + DEADLINE_S, ""
        while time.monotonic() < deadline:
            over = self.ended()
            seen += self.read()
            if re.search(pattern, seen):
                return seen
            if over:
                break
        raise AssertionError(f"no {pattern} in {seen[-4000:]!r}")

    def end(self):
        """The exit code and standard error."""
        deadline = time.monotonic() + DEADLINE_S
        while not self.ended() and time.monotonic() < deadline:
            self.read()  # who writes to a terminal that nobody reads waits
        if not self.ended():
            raise AssertionError(f"it goes on: {self.text[-4000:]!r}")
        self.read()
        self.errors.seek(0)
        return self.code, self.errors.read().decode()

    def close(self):
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
        os.close(self.hold)
        self.leader.wait(timeout=DEADLINE_S)
        self.report.close()
        self.errors.close()
        os.close(self.ours)


def pictures(text):
    """The lines of each picture drawn, without escape sequences."""
    drawn = []
    for part in text.split("\033[H")[1:]:
        bare = re.sub(r"\033\[[0-9;?]*[a-zA-Z]", "", part)
        if "\033[J" in part:  # before its last line
            drawn.append(re.split(r"\r*\n", bare))
    return drawn


class TopTest(ClusterCase):
    def top(self, made, *words, **how):
        terminal = Terminal([cluster.TROUPE, "--coordinator", made.address, "top", "--every",
                             "200ms", *words], **how)
        self.addCleanup(terminal.close)
        return terminal

    def assert_given_back(self, terminal):
        """The terminal is as it was, and the program's screen is gone."""
        self.assertEqual(termios.tcgetattr(terminal.ours), terminal.before)
        self.assertEqual(terminal.text.count(ENTER), 1)
        self.assertEqual(terminal.text.count(LEAVE), 1)
        self.assertEqual(terminal.text.count("\033[?25h"), 1)
        self.assertLess(terminal.text.rindex("\033[H"), terminal.text.index(LEAVE))

    def test_a_running_job_is_watched_and_q_ends_it(self):
        made = self.cluster({"a": 2, "b": 2})
        job = made.troupe("job", "submit", write_job(self.folder, "watched", 500), "--id", "one")
        self.assertEqual(job.communicate(timeout=DEADLINE_S)[0], "one\n")
        terminal = self.top(made)
        terminal.wait_for(r"one +running +\d+/10000 ")
        picture = pictures(terminal.wait_for(r"training"))[-1]
        self.assertLessEqual(len(picture), 24)
        self.assertLessEqual(max(map(len, picture)), 80)
        self.assertTrue(any(re.match(r"a +2/2 +- +up", line) for line in picture), picture)
        ranks = [line for line in picture if re.match(r" +[0-3] +one +[ab] ", line)]
        self.assertEqual(len(ranks), 4, picture)
        # It goes on: another step, later.
        step = int(re.search(r"one +running +(\d+)/", "\n".join(picture)).group(1))
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            steps = re.findall(r"one +running +(\d+)/", terminal.read())
            if steps and int(steps[-1]) > step:
                break
        self.assertGreater(int(steps[-1]), step)
        terminal.resize(12, 40)
        drawn = terminal.wait_for(r"more")
        smallest = pictures(drawn)[-1]
        self.assertLessEqual(len(smallest), 12)
        self.assertLessEqual(max(map(len, smallest)), 40)
        terminal.press("x")  # means nothing
        terminal.press("q")
        self.assertEqual(terminal.end(), (0, ""))
        self.assert_given_back(terminal)
        once = made.troupe("top", "--json")
        out = json.loads(once.communicate(timeout=DEADLINE_S)[0])
        self.assertEqual([rank["rank"] for rank in sorted(out["ranks"], key=lambda r: r["rank"])],
                         [0, 1, 2, 3])
        self.assertEqual({(m["name"], m["slots"], m["slots_used"]) for m in out["machines"]},
                         {("a", 2, 2), ("b", 2, 2)})
        self.assertEqual(out["jobs"][0]["steps_total"], 10000)
        stop = made.troupe("job", "stop", "one")
        self.assertIn("stopped", stop.communicate(timeout=DEADLINE_S)[0])

    def test_signals_end_it_and_give_the_terminal_back(self):
        made = self.cluster({"a": 1})
        for keys, number in (("\x03", signal.SIGINT), ("", signal.SIGTERM)):
            terminal = self.top(made)
            terminal.wait_for(r"MACHINE")
            if keys:
                terminal.press(keys)
            else:
                os.kill(terminal.pid, number)
            self.assertEqual(terminal.end(), (128 + number, ""))
            self.assert_given_back(terminal)

    def test_one_picture_where_nobody_looks(self):
        made = self.cluster({"a": 3})
        done = made.troupe("top")
        out, errors = done.communicate(timeout=DEADLINE_S)
        self.assertEqual((done.returncode, errors), (0, ""))
        self.assertNotIn("\033", out)
        self.assertRegex(out, r"\na +0/3 +- +up\n")
        for words, variables in ((["--once"], {}), ([], {"TERM": "dumb"})):
            terminal = self.top(made, *words, **variables)
            self.assertEqual(terminal.end(), (0, ""))
            self.assertNotIn("\033", terminal.text)
            self.assertIn("MACHINE", terminal.text)

    def test_colours_only_where_they_are_wanted(self):
        made = self.cluster({"a": 1})
        for variables, words, wanted in (({}, [], True), ({"NO_COLOR": "1"}, [], False),
                                         ({}, ["--no-color"], False)):
            terminal = self.top(made, *words, **variables)
            drawn = terminal.wait_for(r"MACHINE(.|\n|\r)*\033\[J")
            terminal.press("q")
            self.assertEqual(terminal.end()[0], 0)
            self.assertEqual(bool(re.search(r"\033\[[0-9]+m", drawn)), wanted, drawn)

    def test_a_lost_coordinator_is_said_and_waited_for(self):
        made = self.cluster({"a": 1})
        terminal = self.top(made, "--grace", "60s")
        terminal.wait_for(r"\[Ka +0/1")
        made.coordinator.kill()
        made.coordinator.wait()
        said = terminal.wait_for(r"tries again for \d+ s")
        self.assertRegex(said, r"lost the coordinator")
        picture = pictures(terminal.wait_for(r"\033\[J"))[-1]
        self.assertTrue(any(re.match(r"a +0/1", line) for line in picture), picture)
        made.start_coordinator()
        made.wait_for("a", "joined the coordinator", times=2)
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            drawn = pictures(terminal.read(0.5))
            if drawn and "tries again" not in drawn[-1][1]:
                break
        self.assertNotIn("tries again", drawn[-1][1])
        terminal.press("q")
        self.assertEqual(terminal.end(), (0, ""))
        self.assert_given_back(terminal)

    def test_a_coordinator_lost_for_good_is_an_error(self):
        made = self.cluster({"a": 1})
        terminal = self.top(made, "--grace", "1s")
        terminal.wait_for(r"MACHINE")
        made.coordinator.kill()
        made.coordinator.wait()
        code, errors = terminal.end()
        self.assertEqual(code, 4, errors)
        self.assertRegex(errors, r"^error: .*\n$")
        self.assert_given_back(terminal)
        done = troupe("--coordinator", made.address, "top")
        self.assertEqual((done.returncode, done.stdout), (4, ""))


if __name__ == "__main__":
    cluster.main()

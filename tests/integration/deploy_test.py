#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/deploy.md, "Two hosts by hand" and "Over ssh", word for word on two hosts:
each is a network namespace with a home folder and a name of its own; /mnt is the folder that both
see.

Usage: deploy_test.py TROUPE [unittest arguments]. Needs root, iproute2 and dataset-fashion-mnist.
"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import cluster
from cluster import DEADLINE_S
from tls_test import NO_NAMESPACES, namespaces

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/deploy.md"
JOB_S = 900  # for an epoch of the demo's job, on a busy machine
HOSTS = {"node1": "10.78.0.1", "node2": "10.78.0.2"}
# What a command of the page may be, and which test runs it there.
ELSEWHERE = {"package": "tools/smoke_deb.sh", "systemd": "tools/smoke_systemd.sh",
             "slurm": "tests/deploy/slurm_test.py", "kubernetes": "tests/deploy/kubernetes_test.py"}
# A host's own view of the machine, then the command. $1: host, $2: our folder, $3: the sources.
ENTER = """
set -e
mount --bind "$2/shared" /mnt
mount --bind "$2/hosts" /etc/hosts
mount -t tmpfs none /usr/share/doc
mkdir -p /usr/share/doc/troupe
cp -r "$3/examples" /usr/share/doc/troupe/examples
export HOME="$2/$1" PATH="$2/bin:$PATH"
cd
shift 3
exec "$@"
"""
# Between two machines this is a network's work; here it copies from home to home.
SCP = """#!/bin/sh
for last; do :; done
while [ "$#" -gt 1 ]; do
  case $1 in -*) ;; *) cp -p "$1" "$HOME/../${last%%:*}/${last#*:}" || exit 1 ;; esac
  shift
done
"""

# The same for ssh [-o BatchMode=yes] HOST COMMAND: the command runs as the host's. Its view of the
# machine comes from $ENTER with these words; the network is the first words' work.
SSH = """#!/bin/sh
[ "$1" != -o ] || shift 2
[ "$#" = 2 ] || exit 64
folder=$(cd "$HOME/.." && pwd)
export SSH_CONNECTION="$(cat "$folder/$1.ssh")"
exec ip netns exec "$(cat "$folder/$1.network")" bash -c "$(cat "$folder/enter")" enter "$1" \
  "$folder" "$(cat "$folder/sources")" sh -c "$2"
"""


def blocks():
    """[(words behind ```sh, text)] of the page."""
    return [(match[1].split(), match[2])
            for match in re.finditer(r"^```sh ([^\n]*)\n(.*?)^```$", PAGE.read_text(),
                                     re.M | re.S)]


class PageTest(unittest.TestCase):
    def test_each_block_says_where_it_runs(self):
        self.assertEqual(len(blocks()), PAGE.read_text().count("\n```sh"))
        self.assertEqual(PAGE.read_text().count("\n```"), 2 * len(blocks()))
        for words, text in blocks():
            self.assertIn(words[0], {*HOSTS, *ELSEWHERE}, text)
            self.assertTrue(words[0] in HOSTS or (ROOT / ELSEWHERE[words[0]]).is_file(), text)


@unittest.skipUnless(namespaces(), NO_NAMESPACES)
class TwoHostsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name in ("bin", "shared", *HOSTS):
            (self.folder / name).mkdir()
        (self.folder / "bin/troupe").symlink_to(os.path.abspath(cluster.TROUPE))
        for name, script in (("scp", SCP), ("ssh", SSH)):
            (self.folder / "bin" / name).write_text(script)
            (self.folder / "bin" / name).chmod(0o755)
        lines = ["127.0.0.1 localhost"] + [f"{number} {name}" for name, number in HOSTS.items()]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        self.networks = {name: f"troupe-{os.getpid()}-{name}" for name in HOSTS}
        (self.folder / "enter").write_text(ENTER)
        (self.folder / "sources").write_text(str(ROOT))
        for name, number in HOSTS.items():
            (self.folder / f"{name}.network").write_text(self.networks[name])
            (self.folder / f"{name}.ssh").write_text(f"{HOSTS['node1']} 50000 {number} 22")
        for name in self.networks.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
            self.addCleanup(subprocess.run, ["ip", "netns", "delete", name])
        first, second = self.networks.values()
        subprocess.run(["ip", "-n", first, "link", "add", "cable", "type", "veth", "peer", "name",
                        "cable", "netns", second], check=True)
        for name, number in HOSTS.items():
            for words in (["addr", "add", f"{number}/24", "dev", "cable"],
                          ["link", "set", "cable", "up"], ["link", "set", "lo", "up"]):
                subprocess.run(["ip", "-n", self.networks[name], *words], check=True)
        self.running = []
        self.addCleanup(self.end)

    def end(self):
        for process, _ in reversed(self.running):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process, _ in self.running:
            process.wait(timeout=DEADLINE_S)

    def start(self, host, text):
        """A shell of the host that reads `text`; its output goes to a file."""
        log = self.folder / f"log-{len(self.running)}"
        with open(log, "w") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.networks[host], "bash", "-c", ENTER, "enter", host,
                 self.folder, ROOT, "bash", "-euo", "pipefail", "-c", text], stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True)
        self.running.append((process, log))
        return process, log

    def logs(self):
        return "\n".join(f"--- {log.name}\n{log.read_text()}" for _, log in self.running)

    def wait_for(self, process, log, pattern):
        deadline = time.monotonic() + DEADLINE_S
        while not re.search(pattern, log.read_text()):
            self.assertIsNone(process.poll(), self.logs())
            self.assertLess(time.monotonic(), deadline, self.logs())
            time.sleep(0.05)

    def test_the_page_makes_a_cluster_that_trains(self):
        hashes = []
        for words, text in blocks():
            if words[0] not in HOSTS:
                continue
            if words[1:] == ["terminals"]:
                for line in text.splitlines():
                    process, log = self.start(words[0], line)
                    self.wait_for(process, log, "coordinator on|joined the coordinator")
                continue
            process, log = self.start(words[0], text)
            self.assertEqual(process.wait(timeout=JOB_S), 0, self.logs())
            hashes += re.findall(r"^[0-9a-f]{64}$", log.read_text(), re.M)
        self.assertEqual(len(hashes), 3, self.logs())
        self.assertEqual(len(set(hashes)), 1, self.logs())
        self.assertIn("succeeded", self.logs())


if __name__ == "__main__":
    cluster.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the system does not give: ports, peers, space, threads, memory, rights, open streams.

Usage: no_resources_test.py TROUPE [unittest arguments].
"""
import contextlib
import os
import pathlib
import resource
import socket
import subprocess
import threading
import unittest

import cluster
from refusal import FAILED, FORBIDDEN, LIMIT_S, RESOURCES, UNREACHABLE, RefusalCase

NOBODY = 65534


class NoResourcesTest(RefusalCase):
    def test_ports_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            used = f"127.0.0.1:{taken.getsockname()[1]}"
            free = "127.0.0.1:0"
            for words in (("coordinator", "--listen", used, "--metrics", free, "--state", self.out),
                          ("coordinator", "--listen", free, "--metrics", used, "--state", self.out),
                          ("agent", "--join", free, "--name", "a", "--metrics", used),
                          ("run", self.job, "--metrics", used)):
                with self.subTest(words[:4]):
                    self.out.mkdir(exist_ok=True)
                    self.expect(RESOURCES, [used, "in use"], *words)

    def test_openmp_variables(self):
        """The program starts once more without what would change its threads."""
        environment = {**os.environ, "OMP_NUM_THREADS": "3", "GOMP_CPU_AFFINITY": "0"}
        run = subprocess.run([cluster.TROUPE, "version"], env=environment, capture_output=True,
                             text=True, timeout=LIMIT_S)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stderr, "restarting without.* OMP_NUM_THREADS")
        self.assertRegex(run.stderr, "restarting without.* GOMP_CPU_AFFINITY")
        self.assertEqual(run.stderr.count("restarting"), 1, run.stderr)
        self.assertEqual(run.stdout, cluster.troupe("version").stdout)

    def test_something_else_at_the_coordinators_port(self):
        """Silence, another protocol and noise: the commands give up in time."""
        def serve(listener, greeting):
            peers = []
            with contextlib.suppress(OSError):
                while True:
                    peer = listener.accept()[0]
                    peer.sendall(greeting)
                    peers.append(peer)
        for greeting in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", os.urandom(200),
                         b"TRPE\x63\x00" + bytes(58)):
            with self.subTest(greeting[:10]), socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                listener.listen()
                threading.Thread(target=serve, args=(listener, greeting), daemon=True).start()
                address = f"127.0.0.1:{listener.getsockname()[1]}"
                self.expect(UNREACHABLE, address, "--coordinator", address, "job", "list")
                self.expect(UNREACHABLE, address, "agent", "--join", address, "--name", "a",
                            "--join-wait", "1s")
                listener.shutdown(socket.SHUT_RDWR)

    def test_closed_standard_streams(self):
        """They stay closed: no file of the program takes their place."""
        for closed, code in (("<&-", 0), (">&-", RESOURCES), ("2>&-", 0), ("<&- >&- 2>&-",
                                                                           RESOURCES)):
            with self.subTest(closed):
                done = subprocess.run(["sh", "-c", f'"$0" data check "$1" {closed}', cluster.TROUPE,
                                       self.data / "train.rec"], capture_output=True,
                                      timeout=LIMIT_S)
                self.assertEqual(done.returncode, code, done.stderr)

    def test_no_space(self):
        """A limit on file sizes stands for a full disk: the same calls fail."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        how = {"preexec_fn": limit}
        self.out.mkdir()
        self.expect(RESOURCES, self.out / "train.rec", "data", "pack", "idx", "--images",
                    self.data / "train-images", "--labels", self.data / "train-labels", "--out",
                    self.out, **how)
        self.run_job(FAILED, ["checkpoint", "File too large"], "checkpoint.every=1 steps",
                     "limits.checkpoint_failures_max=2", **how)

    def run_with_threads(self, number, *words):
        """Runs as somebody who may have so many threads; gives what is left of the process."""
        def limit():
            resource.setrlimit(resource.RLIMIT_NPROC, (number, number))
            os.setgroups([])
            os.setresgid(NOBODY - 1, NOBODY - 1, NOBODY - 1)
            os.setresuid(NOBODY - 1, NOBODY - 1, NOBODY - 1)
        return subprocess.run([cluster.TROUPE, *words], preexec_fn=limit, capture_output=True,
                              timeout=LIMIT_S)

    def open_folder(self):
        folder = self.folder / "open"
        folder.mkdir()
        for path in (folder, *folder.parents):
            if path != pathlib.Path("/") and path.stat().st_uid == os.geteuid():
                path.chmod(path.stat().st_mode | 0o055)
        folder.chmod(0o777)
        return folder

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_no_threads(self):
        """However few there are: an error, never a hang or a crash."""
        folder = self.open_folder()
        for number in (3, 5, 7, 9, 12, 16, 20):
            with self.subTest(number):
                done = self.run_with_threads(number, "run", self.job, "--set",
                                             f"checkpoint.dir={folder}/{number}")
                self.assertEqual(done.returncode, RESOURCES, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_no_threads_for_a_cluster(self):
        """The coordinator and an agent need eight, and say so before they begin."""
        folder = self.open_folder()
        free = "127.0.0.1:0"
        for number in range(2, 8):
            for words in (("coordinator", "--listen", free, "--metrics", free, "--state",
                           folder / str(number)),
                          ("agent", "--join", "127.0.0.1:1", "--name", "a", "--metrics", free)):
                with self.subTest(words[0], number=number):
                    done = self.run_with_threads(number, *words)
                    self.assertEqual(done.returncode, RESOURCES, done.stderr)

    def test_no_address_space(self):
        """Wherever memory ends, in whatever thread: an error, never a hang, a crash or a defect."""
        def plenty():
            resource.setrlimit(resource.RLIMIT_AS, (1 << 42, 1 << 42))
        if subprocess.run([cluster.TROUPE, "version"], preexec_fn=plenty,
                          capture_output=True).returncode != 0:
            self.skipTest("a sanitizer takes more addresses than any limit")
        for megabytes in range(280, 780, 20):
            def limit(bytes_most=megabytes << 20):
                resource.setrlimit(resource.RLIMIT_AS, (bytes_most, bytes_most))
            with self.subTest(megabytes):
                done = subprocess.run([cluster.TROUPE, "run", self.job, "--set",
                                       f"checkpoint.dir={self.out}/{megabytes}"], preexec_fn=limit,
                                      capture_output=True, timeout=LIMIT_S)
                self.assertIn(done.returncode, (0, RESOURCES), done.stderr)

    def test_no_memory(self):
        self.run_job(RESOURCES, ["parameters", "GiB"], "model.classes=1073741824")

    @unittest.skipUnless(os.geteuid() == 0, "needs root to become somebody else")
    def test_forbidden_files(self):
        hidden = self.put("hidden.rec", (self.data / "train.rec").read_bytes())
        hidden.chmod(0)
        closed = self.folder / "closed"
        closed.mkdir(0o700)
        pathlib.Path(self.temporary.name).chmod(0o755)
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        try:
            subprocess.run([cluster.TROUPE, "version"], check=True, capture_output=True, **how)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("nobody may not run the program")
        self.expect(FORBIDDEN, hidden, "data", "check", hidden, **how)
        self.expect(FORBIDDEN, closed, "checkpoint", "hash", closed, **how)
        words = ["run", self.job, "--quiet", "--set", f"data.train={self.data / 'train.rec'}"]
        self.expect(FORBIDDEN, closed, *words, "--set", f"checkpoint.dir={closed / 'x'}", **how)
        self.expect(FORBIDDEN, closed, "data", "pack", "idx", "--images",
                    self.data / "train-images", "--labels", self.data / "train-labels", "--out",
                    closed, **how)


if __name__ == "__main__":
    cluster.main()

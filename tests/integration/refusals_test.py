#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who is refused by a cluster of TLS, and what is said about it at both ends, while a job trains
and ends in the bits of an undisturbed one.

Usage: refusals_test.py TROUPE [unittest arguments].
"""
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import time

import cluster
from cluster import DEADLINE_S, ClusterCase, checkpoint_hash, run_local, troupe, write_job

EPOCHS = 60  # of 20 steps
FORBIDDEN, USAGE, GONE = 8, 2, 4


class Files:
    """Identities of a cluster, right ones and wrong ones."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca = self.authority("ca", "lab")
        self.twin = self.authority("twin", "lab")  # the same name, another key
        self.other = self.authority("other", "attic")

    def authority(self, name, of):
        troupe("ca", "init", self.folder / name, "--cluster", of).check_returncode()
        return self.folder / name

    def issue(self, ca, role, name, *more):
        file = self.folder / f"{pathlib.Path(ca).name}-{role}-{name}.pem"
        troupe("ca", "issue", ca, role, name, "--out", file, *more).check_returncode()
        return file


def mixed(target, key, certificates):
    """A file with the key of one and the certificates of another."""
    own = re.search(r"-----BEGIN PRIVATE KEY.*?END PRIVATE KEY-----\n", key.read_text(), re.S)[0]
    rest = re.sub(r"-----BEGIN PRIVATE KEY.*?END PRIVATE KEY-----\n", "",
                  certificates.read_text(), flags=re.S)
    target.touch(0o600)
    target.write_text(own + rest)
    return target


class RefusalsTest(ClusterCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.undisturbed = run_local(cls.folder, "undisturbed", EPOCHS)

    def setUp(self):
        folder = self.folder / f"files-{self.id().rsplit('.', 1)[1]}"
        self.files = Files(folder)
        files = self.files
        self.right = {"coordinator": files.issue(files.ca, "coordinator", "main"),
                      "a": files.issue(files.ca, "agent", "a"),
                      "b": files.issue(files.ca, "agent", "b"),
                      "person": files.issue(files.ca, "person", "ann")}
        self.made = self.cluster({"a": 2, "b": 2}, identities=self.right)
        self.job = self.made.submit(write_job(self.folder, self.id().rsplit(".", 1)[1], EPOCHS),
                                    name="victim")
        self.addCleanup(self.job.kill)
        self.made.wait_status("victim", r"steps? +[1-9]|step +[1-9]")
        self.cases = 0

    def run_words(self, *words):
        return subprocess.run([cluster.TROUPE, *map(str, words)], capture_output=True, text=True,
                              timeout=DEADLINE_S)

    def case(self, words, near, far=None, code=None):
        """The command is refused, says what `near` matches, and the coordinator what `far` does."""
        self.cases += 1
        with self.subTest(near=near, far=far):
            log = self.made.logs / "coordinator"
            before = len(log.read_text())
            done = self.run_words(*words)
            text = done.stdout + done.stderr
            self.assertNotEqual(done.returncode, 0, text)
            self.assertRegex(text, near)
            if code is not None:
                self.assertEqual(done.returncode, code, text)
            deadline = time.monotonic() + DEADLINE_S
            while far and not re.search(far, log.read_text()[before:]):
                self.assertLess(time.monotonic(), deadline, log.read_text()[before:])
                time.sleep(0.05)

    def agent(self, identity, name, *more):
        who = ["--identity", identity] if identity else []
        return [*who, "agent", "--join", self.made.address, "--devices", "cpu:1", "--join-wait",
                "1s", "--name", name, *more]

    def ask(self, identity, token, *words):
        who = ["--identity", identity] if identity else []
        with_token = ["--token", token] if token else []
        return ["--coordinator", self.made.address, *who, *with_token, *words]

    def end_well(self):
        """The job has seen nothing of all that."""
        out, err = self.job.communicate(timeout=DEADLINE_S)
        self.assertEqual(self.job.returncode, 0, out + err + self.made.text())
        name = self.id().rsplit(".", 1)[1]
        self.assertEqual(checkpoint_hash(self.folder / name), self.undisturbed)

    def test_certificates(self):
        files, made = self.files, self.made
        stranger = files.issue(files.twin, "agent", "c")
        foreign = files.issue(files.other, "agent", "c")
        person = files.issue(files.ca, "person", "c")
        coordinator = files.issue(files.ca, "coordinator", "second")
        third = files.issue(files.ca, "agent", "c")
        late = files.issue(files.ca, "agent", "late", "--for", "1s")
        revoked = files.issue(files.ca, "agent", "gone")
        guest = files.issue(files.twin, "person", "ann")
        troupe("ca", "revoke", files.ca, "agent", "gone").check_returncode()
        out, _ = made.troupe("ca", "tell", files.ca).communicate(timeout=DEADLINE_S)
        self.assertRegex(out, r"^the coordinator knows \d+ revoked certificates?\n$")
        time.sleep(1.5)  # until the late one has ended
        # Wrong authority and cluster; a certificate of one with the key of another.
        self.case(self.agent(stranger, "c"), "not believed", "turned away")
        self.case(self.agent(foreign, "c"), "not believed", "turned away")
        self.case(self.ask(guest, made.token, "job", "list"), "not believed", "turned away")
        swapped = mixed(files.folder / "swapped.pem", stranger, third)
        self.case(self.agent(swapped, "c"), "key", None)
        # An own certificate below a foreign authority's.
        forged = mixed(files.folder / "forged.pem", third, third)
        text = forged.read_text()
        first = re.findall(r"-----BEGIN CERTIFICATE.*?END CERTIFICATE-----\n", text, re.S)[-1]
        last = re.findall(r"-----BEGIN CERTIFICATE.*?END CERTIFICATE-----\n",
                          stranger.read_text(), re.S)[-1]
        forged.write_text(text.replace(first, last))
        self.case(self.agent(forged, "c"), "not signed by the cluster's authority", None, FORBIDDEN)
        forged.write_text(re.sub(r"-----BEGIN X509 CRL.*?END X509 CRL-----\n", "",
                                 forged.read_text(), flags=re.S))
        self.case(self.agent(forged, "c"), "not believed", "turned away")
        # Wrong role, each way.
        self.case(self.agent(person, "c"), "not of the role agent", None, FORBIDDEN)
        self.case(self.agent(coordinator, "c"), "not of the role agent", None, FORBIDDEN)
        self.case(self.ask(third, made.token, "job", "list"), "not of the role person", None,
                  FORBIDDEN)
        self.case(self.ask(coordinator, made.token, "job", "list"), "not of the role person", None,
                  FORBIDDEN)
        for role in (third, person):
            self.case(["--identity", role, "coordinator", "--listen", "127.0.0.1:0", "--metrics",
                       "127.0.0.1:0", "--state", files.folder / "state"],
                      "not of the role coordinator", None, FORBIDDEN)
        # Wrong name; a name in use.
        self.case(self.agent(third, "d"), "--name d: --identity is of agent 'c'", None, FORBIDDEN)
        self.case(self.agent(self.right["a"], "a"), "has joined already", "has joined already")
        # Expired, revoked.
        self.case(self.agent(late, "late"), "expired", "expired")
        self.case(self.agent(revoked, "gone"), "revoked", "revoked")
        # Readable, missing, cut off, none.
        os.chmod(third, 0o640)
        self.case(self.agent(third, "c"), "mode 640", None, FORBIDDEN)
        os.chmod(third, 0o604)
        self.case(self.agent(third, "c"), "mode 604", None, FORBIDDEN)
        os.chmod(third, 0o600)
        self.case(self.agent(files.folder / "none.pem", "c"), "none.pem", None)
        cut = files.folder / "cut.pem"
        cut.touch(0o600)
        cut.write_text(third.read_text()[:400])
        self.case(self.agent(cut, "c"), "cut.pem", None)
        self.case(self.agent(None, "c"), "TLS|closed", "turned away")
        self.case(self.ask(None, made.token, "job", "list"), "TLS|closed", "turned away")
        # Off the loopback without any: two commands are named.
        self.case(["coordinator", "--listen", "10.77.0.1:1", "--metrics", "127.0.0.1:0", "--state",
                   files.folder / "state"], "(?s)troupe ca init.*troupe ca issue", None)
        self.case(["agent", "--join", "10.77.0.1:1", "--name", "c"],
                  "(?s)troupe ca init.*troupe ca issue", None)
        self.assertGreaterEqual(self.cases, 24)
        self.end_well()

    def test_tokens(self):
        files, made = self.files, self.made
        ann = self.right["person"]
        read = made.make_token("ann", "read")
        submit = made.make_token("ann", "submit")
        gone = made.make_token("ann", "stop")
        late = made.make_token("ann", "read,stop", "--for", "1s")
        bobs = made.make_token("bob", "admin")
        bob = files.issue(files.ca, "person", "bob")
        listed = json.loads(troupe("token", "list", made.folder / "state", "--json").stdout)
        identity = next(each["id"] for each in listed["tokens"] if each["rights"] == ["stop"])
        troupe("token", "revoke", made.folder / "state", identity).check_returncode()
        time.sleep(1.5)  # until the coordinator has seen it, and the late one has ended
        job = write_job(self.folder, "other", 1)
        # Missing, wrong, withdrawn, expired, another person's.
        for words in (["job", "list"], ["job", "status", "victim"], ["job", "stop", "victim"],
                      ["job", "checkpoint", "victim"], ["job", "submit", job], ["top", "--once"],
                      ["ca", "tell", files.ca]):
            self.case(self.ask(ann, None, *words), "a token is missing", "a token is missing",
                      FORBIDDEN)
        wrong = files.folder / "wrong.token"
        wrong.touch(0o600)
        wrong.write_text("troupe_" + "0" * 64)
        self.case(self.ask(ann, wrong, "job", "list"), "does not know this token", "does not know",
                  FORBIDDEN)
        self.case(self.ask(ann, gone, "job", "stop", "victim"), "it was withdrawn on",
                  "it was withdrawn on", FORBIDDEN)
        self.case(self.ask(ann, late, "job", "list"), "it was valid until", "it was valid until",
                  FORBIDDEN)
        self.case(self.ask(ann, bobs, "job", "list"), "is not of person 'ann'", "is not of person",
                  FORBIDDEN)
        # Without the right.
        for token, words, right in (
                (read, ["job", "submit", job], "submit"),
                (read, ["job", "stop", "victim"], "submit"),
                (read, ["job", "checkpoint", "victim"], "submit"),
                (read, ["ca", "tell", files.ca], "admin"), (submit, ["job", "list"], "read"),
                (submit, ["top", "--once"], "read"), (submit, ["ca", "tell", files.ca], "admin")):
            self.case(self.ask(ann, token, *words), f"no right to {right}", f"no right to {right}",
                      FORBIDDEN)
        self.case(self.ask(ann, read, "ca", "tell", files.ca),
                  "token make STATE NAME --rights admin", "no right to admin", FORBIDDEN)
        bobs_stop = made.make_token("bob", "submit,read")
        time.sleep(1)
        self.case(self.ask(bob, bobs_stop, "job", "stop", "victim"), "no right to stop",
                  "no right to stop", FORBIDDEN)
        # What is no token, and what others may read.
        os.chmod(read, 0o644)
        self.case(self.ask(ann, read, "job", "list"), "mode 644", None, FORBIDDEN)
        self.case(self.ask(ann, files.ca / "issued.json", "job", "list"), "holds no token", None)
        self.case(self.ask(ann, files.folder / "none", "job", "list"), "none", None)
        self.assertGreaterEqual(self.cases, 22)
        self.check_audit(made.folder / "state" / "audit.log")
        self.end_well()

    def check_audit(self, file):
        """Who has changed what, and who was not let."""
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        done = [line for line in lines if "refused" not in line]
        self.assertEqual([line["who"] for line in done], ["agent 'a'", "agent 'b'", "person 'ann'"])
        self.assertEqual(done[2]["what"], "submits job 'victim' of 4 ranks")
        for line in done:
            self.assertRegex(line["from"], r"^127\.0\.0\.1:\d+$")
            self.assertRegex(line["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        refused = [line["what"] for line in lines if "no right" in line.get("refused", "")]
        self.assertIn("wants to stop job 'victim'", refused)

    def test_a_revoked_agent_is_out_and_the_job_elsewhere_goes_on(self):
        files, made = self.files, self.made
        idle = files.issue(files.ca, "agent", "c")
        made.identities["c"] = idle
        made.start_agent("c", 1)
        made.wait_for("c", "joined the coordinator")
        troupe("ca", "revoke", files.ca, "agent", "c").check_returncode()
        begin = time.monotonic()
        out, err = made.troupe("ca", "tell", files.ca).communicate(timeout=DEADLINE_S)
        made.wait_for("coordinator", "agent 'c' is gone.*revoked")
        print(f"out after {time.monotonic() - begin:.2f} s", out, err)
        for name in ("a", "b"):  # they have the list, too: nobody there believes c any more
            self.assertIsNone(made.processes[name].poll())
        self.end_well()

    def test_what_knocks_at_the_port(self):
        """Plain frames, HTTP, TLS without a certificate, old TLS, noise."""
        host, port = self.made.address.rsplit(":", 1)
        where = (host, int(port))

        def answer(payload):
            with socket.create_connection(where, timeout=DEADLINE_S) as peer:
                peer.sendall(payload)
                peer.shutdown(socket.SHUT_WR)
                got = b""
                while part := peer.recv(65536):
                    got += part
                return got

        for payload in (b"GET / HTTP/1.1\r\n\r\n", b"TRPE" + bytes(60), os.urandom(300), b"\x16",
                        b"\x16\x03\x01\x40\x00" + bytes(100), b""):
            self.cases += 1
            try:
                got = answer(payload)
                self.assertTrue(got == b"" or got[0] == 0x15, got[:20])  # nothing, or an alert
            except ConnectionResetError:
                pass
        for most in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            self.cases += 1
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            context.maximum_version = most
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                plain = socket.create_connection(where, timeout=DEADLINE_S)
                with context.wrap_socket(plain) as peer:
                    peer.sendall(bytes(64))
                    if peer.recv(1) == b"":
                        raise ConnectionError("closed")
        text = (self.made.logs / "coordinator").read_text()
        self.assertIn("turned away", text)
        self.end_well()


class WithoutCertificatesTest(ClusterCase):
    def run_words(self, *words):
        return subprocess.run([cluster.TROUPE, *map(str, words)], capture_output=True, text=True,
                              timeout=DEADLINE_S)

    def test_an_agent_shows_a_token_as_soon_as_one_was_made(self):
        made = self.cluster({"a": 1})
        joins = made.make_token("ann", "join")
        read = made.make_token("ann", "read")
        deadline = time.monotonic() + DEADLINE_S
        while self.run_words("--coordinator", made.address, "job", "list").returncode == 0:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)
        agent = ["agent", "--join", made.address, "--devices", "cpu:1", "--join-wait", "1s",
                 "--name", "b"]
        for words, why in ((agent, "agent 'b': a token is missing"),
                           (["--token", read, *agent], "gives no right to join")):
            done = self.run_words(*words)
            self.assertEqual(done.returncode, FORBIDDEN, done.stderr)
            self.assertIn(why, done.stderr)
            made.wait_for("coordinator", "turned away.*" + why)
        self.assertIsNone(made.processes["a"].poll())  # it was there before
        made.start("b", "--token", joins, *agent)
        made.wait_for("b", "joined the coordinator")
        made.wait_for("coordinator", "agent 'b' has joined")


if __name__ == "__main__":
    cluster.main()

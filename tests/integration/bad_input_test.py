#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bad files, job files, networks and checkpoints, as a user meets them.

Usage: bad_input_test.py TROUPE [unittest arguments].
"""
import json
import os
import shutil
import signal
import struct
import subprocess
import time

import cluster
from cluster import write_idx, write_job
from refusal import (CONFLICT, FAILED, INPUT, LIMIT_S, MISSING, RESOURCES, USAGE,
                     RefusalCase)

MAGIC = struct.pack("<I", 0xCED7230A)


def record(payload):
    """A RecordIO record of one part."""
    return MAGIC + struct.pack("<I", len(payload)) + payload + b"\0" * (-len(payload) % 4)


def image_record(label, image):
    return record(struct.pack("<IfQQ", 0, label, 0, 0) + image)


def node(op, name, inputs=(), **attributes):
    return {"op": op, "name": name, "attrs": attributes,
            "inputs": [[one, 0, 0] for one in inputs]}


def symbol(*nodes, heads=None):
    return json.dumps({"nodes": nodes, "heads": heads or [[len(nodes) - 1, 0, 0]]})


def network(operator, **attributes):
    """A classifier of one layer."""
    return symbol(node("null", "data"), node("null", "layer_weight"), node("null", "layer_bias"),
                  node("null", "softmax_label"), node(operator, "layer", (0, 1, 2), **attributes),
                  node("flatten", "flat", (4,)), node("softmax_output", "softmax", (5, 3)))


class BadInputTest(RefusalCase):
    # ---- record files ----

    def test_record_files(self):
        whole = (self.data / "train.rec").read_bytes()
        size = 8 + struct.unpack("<I", whole[4:8])[0]
        files = {
            "few": (whole[:3], ["offset 0", "truncated"]),
            "head": (whole[:8], ["offset 0", "truncated"]),
            "first": (whole[:size // 2], ["offset 0", "truncated"]),
            "second": (whole[:size + 5], [f"offset {size}", "truncated"]),
            "last": (whole[:-4], [f"offset {len(whole) - size}", "truncated"]),
            "text": (b"no records in here, but text", ["offset 0", "magic"]),
            "noise": (os.urandom(4096), "offset 0"),
            "magic": (whole[:size] + b"\1" + whole[size + 1:], [f"offset {size}", "magic"]),
            "length": (MAGIC + b"\xff" * 8, "offset 0"),
            "middle": (MAGIC + struct.pack("<I", 2 << 29), ["offset 0", "part"]),
            "unended": (MAGIC + struct.pack("<I", 1 << 29), "offset"),
        }
        for name, (content, texts) in files.items():
            with self.subTest(name):
                path = self.put(f"{name}.rec", content)
                texts = [path, *([texts] if isinstance(texts, str) else texts)]
                self.expect(INPUT, texts, "data", "check", path)
                self.expect(INPUT, texts, "data", "index", path)
                self.run_job(INPUT, texts, f"data.train={path}")
                self.run_job(INPUT, texts, f"data.test={path}")

    def test_first_record_damaged(self):
        """Skipped like any other; the next one tells the images' size."""
        path = self.put("first.rec", (self.data / "train.rec").read_bytes())
        self.put("first.idx", (self.data / "train.idx").read_bytes())
        with open(path, "r+b") as file:
            file.seek(4)
            file.write(bytes(4))
        self.run_job(INPUT, [path, "offset 0"], f"data.train={path}")
        done = cluster.troupe("run", self.job, "--set", f"checkpoint.dir={self.out}/skip", "--set",
                              f"data.train={path}", "--set", 'data.on_bad_record="skip"')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_paths_that_are_no_record_files(self):
        pipe = self.folder / "pipe.rec"
        os.mkfifo(pipe)
        below = self.job / "x.rec"  # a file where a folder should be
        for path, code in ((self.folder, INPUT), (pipe, INPUT), ("/dev/zero", INPUT),
                           (self.folder / "none.rec", MISSING), (below, INPUT),
                           (f"/{'x' * 300}", INPUT)):
            with self.subTest(path):
                self.expect(code, str(path)[:100], "data", "check", path)
                self.run_job(code, str(path)[:100], f"data.train={path}")
        empty = self.put("empty.rec", b"")
        self.run_job(INPUT, [empty, "no records"], f"data.train={empty}")
        self.run_job(INPUT, [empty, "no records"], f"data.test={empty}")

    def test_indexes(self):
        path = self.folder / "train.rec"
        path.symlink_to(self.data / "train.rec")
        index = self.folder / "train.idx"
        size = path.stat().st_size
        for text, texts in (("garbage\n", "train.idx:1:"),
                            ("0\t0\n1 2 3\n", "train.idx:2:"),
                            ("0\t-4\n", "train.idx:1:"),
                            ("0\t99999999999999999999999\n", "train.idx:1:"),
                            (f"0\t0\n1\t{size}\n", ["train.idx", f"offset {size}"]),
                            ("0\t0\n1\t6\n", ["train.idx", "offset 6"]),
                            ("0\t0\n1\t0\n", ["train.idx", "offset 0"]),
                            ("0\t4\n", ["train.rec", "offset 4"]),
                            ("", "train.rec"),
                            (b"\xff\0" * 4000, "train.idx:1:")):
            with self.subTest(text):
                self.put("train.idx", text)
                self.run_job(INPUT, texts, f"data.train={path}")
        index.unlink()
        index.mkdir()
        self.run_job(INPUT, index, f"data.train={path}")

    def test_images_and_labels(self):
        raw = struct.pack("<I", 0x57415254)
        good = (self.data / "train.rec").read_bytes()
        size = 8 + struct.unpack("<I", good[4:8])[0]
        small = self.folder / "small"
        small.mkdir()
        write_idx(small / "i", (3, 10, 12), bytes(360))
        write_idx(small / "l", (3,), bytes(3))
        self.assertEqual(cluster.troupe("data", "pack", "idx", "--images", small / "i", "--labels",
                                        small / "l", "--out", small).returncode, 0)
        other = (small / "train.rec").read_bytes()
        at = f"offset {3 * size}"
        for name, tail, texts in (
                ("size", other[:len(other) // 3], [at, "1 x 10 x 12", "1 x 28 x 28"]),
                ("text", image_record(1, b"no image at all"), [at, "image"]),
                ("short", record(b"abc"), [at, "3 bytes"]),
                ("raw", image_record(1, raw + bytes(20)), [at]),
                ("jpeg", image_record(1, b"\xff\xd8\xff\xe0" + bytes(50)), [at, "JPEG"]),
                ("png", image_record(1, b"\x89PNG\r\n\x1a\n" + bytes(50)), [at, "PNG"]),
                ("labels", record(struct.pack("<IfQQ", 2**31, 0, 0, 0)), [at, "labels"]),
                ("flip", good[:40] + b"\x55" + good[41:size], [at, "checksum"])):
            with self.subTest(name):
                path = self.put(f"{name}.rec", good[:3 * size] + tail)
                # The first record fits: this is found while training.
                self.run_job(FAILED, [path, *texts], f"data.train={path}", "data.test=")
                self.run_job(FAILED, [path, *texts], f"data.test={path}")
                shutil.rmtree(self.out)
        first = self.put("first.rec", image_record(1, b"no image at all"))
        self.run_job(INPUT, [first, "offset 0"], f"data.train={first}")
        self.run_job(FAILED, ["train.rec", "offset", "label", "3 classes"], "model.classes=3")
        self.assertEqual(list(self.out.iterdir()), [])

    # ---- packing ----

    def test_packing_over_a_set(self):
        kept = self.put("test.rec", b"made by hand")
        pack = ("data", "pack", "idx", "--images", self.data / "train-images", "--labels",
                self.data / "train-labels", "--out", self.folder)
        self.expect(CONFLICT, [kept, "--force"], *pack)
        self.assertEqual(kept.read_bytes(), b"made by hand")
        cluster.troupe(*pack, "--force").check_returncode()

    def test_a_packer_that_is_stopped_leaves_nothing(self):
        process = subprocess.Popen(
            [cluster.TROUPE, "data", "pack", "generated", "--out", self.out, "--image", "1,8,8",
             "--train", "20000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + LIMIT_S
        while not list(self.out.glob("train.rec.tmp-*")):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, text = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 130, text)
        self.assertIn("packing was stopped", text)
        self.assertFalse(self.out.exists())

    def test_packing(self):
        images, labels = self.data / "train-images", self.data / "train-labels"
        content = images.read_bytes()
        pack = ("data", "pack", "idx", "--out", self.folder)
        for name, code, changed, texts in (
                ("none", MISSING, None, ""),
                ("empty", INPUT, b"", "header"),
                ("head", INPUT, content[:7], "header"),
                ("cut", INPUT, content[:5000], "item 6 of 640"),
                ("long", INPUT, content + b"x", "640"),
                ("text", INPUT, b"hello, world", "no IDX file"),
                ("huge", INPUT, struct.pack(">BBBBIII", 0, 0, 8, 3, 2**32 - 1, 2**31, 2**31), ""),
                ("count", INPUT, content[:4] + struct.pack(">I", 639) + content[8:], "639"),
                ("flat", INPUT, struct.pack(">BBBBI", 0, 0, 8, 1, 0), "axes"),
                ("type", INPUT, b"\0\0\x0d" + content[3:], "13")):
            with self.subTest(name):
                path = self.folder / name
                if changed is not None:
                    path.write_bytes(changed)
                self.expect(code, [path, texts], *pack, "--images", path, "--labels", labels)
        self.expect(INPUT, self.folder, *pack, "--images", self.folder, "--labels", labels)
        below = self.job / "x"
        self.expect(INPUT, below, "data", "pack", "idx", "--images", images, "--labels", labels,
                    "--out", below)
        photos = self.folder / "photos"
        (photos / "cat").mkdir(parents=True)
        (photos / "cat" / "a.png").write_bytes(b"no image")
        out = self.folder / "packed"
        out.mkdir()
        self.expect(INPUT, [photos / "cat" / "a.png", "image"], "data", "pack", "images", "--train",
                    photos, "--out", out)
        self.expect(INPUT, photos / "cat", "data", "pack", "images", "--train", photos / "cat",
                    "--out", out)

    # ---- job files ----

    def test_job_files(self):
        good = self.job.read_text()
        for name, text, texts in (
                ("empty", "", None),
                ("unclosed", good + "[limits\n", ":26:8:"),
                ("equals", good.replace("seed = 11", "seed = = 11"), ":3:"),
                ("twice", good + "seed = 1\n", None),
                ("type", good.replace("seed = 11", 'seed = "many"'), [":3:", "seed", "many"]),
                ("float", good.replace("seed = 11", "seed = 1e400"), None),
                ("section", good.replace("[data]", "[dtaa]"), None),
                ("array", "model = [1, 2]\n" + good, None),
                ("utf8", good.encode() + b"x = '\xff\xfe'\n", None),
                ("nul", good.encode() + b"\0\0\0", None),
                ("noise", os.urandom(5000), None),
                ("deep", "x = " + "[" * 100_000 + "]" * 100_000, None),
                ("tables", "x = " + "{a = " * 100_000 + "1" + "}" * 100_000, None),
                ("dotted", ".".join("a" * 400_000) + " = 1\n", None),
                ("header", "[" + ".".join("a" * 400_000) + "]\n", None)):
            with self.subTest(name):
                path = self.put(f"{name}.toml", text)
                for verb in (("config", "check"), ("run",)):
                    if texts is not None:
                        self.expect(INPUT, [path] if texts == "" else texts, *verb, path)
                    else:
                        self.refused(*verb, path)
        large = self.folder / "large.toml"
        with open(large, "wb") as file:
            file.truncate(100_000_000)
        self.expect(INPUT, [large, "100000000 bytes"], "config", "check", large)
        with open("/dev/zero", "rb") as zero:
            self.expect(INPUT, ["<stdin>", "limit"], "config", "check", "-", stdin=zero)
        self.expect(INPUT, self.folder, "run", self.folder)
        self.expect(INPUT, "none.toml", "run", self.folder / "none.toml")
        self.expect(INPUT, "limit", "run", "/dev/zero")
        limits = self.put("limits.toml", "ping_ms = 0\n")
        self.expect(INPUT, [f"{limits}:1:", "ping_ms"], "coordinator", "--listen", "127.0.0.1:0",
                    "--metrics", "127.0.0.1:0", "--state", self.folder / "s", "--limits", limits)

    def refused(self, *words):
        """Exit 3 with at least one line with a place; several things are wrong with the file."""
        done = subprocess.run([cluster.TROUPE, *map(str, words)], capture_output=True,
                              timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        said = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, INPUT, f"{words}: {said[:2000]}")
        self.assertRegex(said, r"\.toml:\d+:\d+: error: |\.toml: error: ")

    def test_values_that_cannot_be(self):
        for setting, texts in (
                ("data.batch=0", ["data.batch", ">= 1", "0"]),
                ("data.batch=-1", "data.batch"),
                ("data.batch=99999999999", "data.batch"),
                ("data.batch=12B", ["data.batch", "12B"]),
                ("model.classes=0", "model.classes"),
                ("model.network=lenett", ["lenett", "lenet"]),
                ("model.input=[1,28,29]", ["model.input", "1, 28, 29", "train.rec"]),
                ("model.input=[0]", "model.input"),
                ("workers.machines=0", "workers.machines"),
                ("workers.machines=70000", "70000"),
                ("data.mean=[0.1,0.2]", "data.mean"),
                ("data.std=[0.0]", "data.std"),
                ("train.optimizer.lr=nan", "train.optimizer.lr"),
                ("train.optimizer.lr=-1", "train.optimizer.lr"),
                ("train.optimizer.name=adamm", "adamm"),
                ("train.optimizer.symbol=x.json", "train.optimizer"),
                ("checkpoint.every=often", "often"),
                ("limits.stall_ms=soon", "soon"),
                ("data.prefetch_threads=65", ["data.prefetch_threads", "64"]),
                ("nonsense=1", "nonsense"),
                ("numerics.isa=mmx", "mmx")):
            with self.subTest(setting):
                self.run_job(INPUT, texts, setting)
        self.run_job(RESOURCES, "600 workers", "workers.machines=300")
        self.run_job(RESOURCES, "servers.shards 5000", "servers.shards=5000")
        self.expect(USAGE, ["--set", "section.key=value"], "run", self.job, "--set", "=")
        self.expect(USAGE, "'10.1:0': '10.1' is neither", "run", self.job, "--metrics", "10.1:0")
        self.expect(MISSING, ["--trace", "/none/x"], "run", self.job, "--trace", "/none/x")
        self.expect(USAGE, ["TROUPE_COORDINATOR", "'here'"], "job", "list",
                    env={**os.environ, "TROUPE_COORDINATOR": "here"})
        small = self.folder / "small"
        small.mkdir()
        write_idx(small / "i", (64, 3, 3), bytes(576))
        write_idx(small / "l", (64,), bytes(64))
        cluster.troupe("data", "pack", "idx", "--images", small / "i", "--labels", small / "l",
                       "--out", small).check_returncode()
        self.run_job(INPUT, ["convolution conv1", "5", "(1, 1, 3, 3)"], "model.network=lenet",
                     f"data.train={small / 'train.rec'}", "data.test=")

    def test_capped_instruction_set(self):
        """Nothing that reads a job may ask the processor what it has before the job caps it."""
        for dtype in ("f32", "bf16"):
            with self.subTest(dtype):
                words = ["run", self.job]
                for setting in (f"checkpoint.dir={self.out}-{dtype}", "numerics.isa=avx2",
                                f"numerics.dtype={dtype}"):
                    words += ["--set", setting]
                done = cluster.troupe(*words)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_first_weights(self):
        for name, code, content in (("none", MISSING, None), ("empty", INPUT, b""),
                                    ("noise", INPUT, os.urandom(500)),
                                    ("header", INPUT, struct.pack("<Q", 2**63)),
                                    ("json", INPUT, struct.pack("<Q", 4) + b"{\"a:"),
                                    ("other", INPUT, struct.pack("<Q", 77) +
                                     b'{"conv1_weight":{"dtype":"F32","shape":[1],'
                                     b'"data_offsets":[0,4]}}'.ljust(77) + bytes(4)),
                                    ("foreign", INPUT, struct.pack("<Q", 77) +
                                     b'{"another_name":{"dtype":"F32","shape":[1],'
                                     b'"data_offsets":[0,4]}}'.ljust(77) + bytes(4))):
            with self.subTest(name):
                path = self.folder / name
                if content is not None:
                    path.write_bytes(content)
                self.run_job(code, path, f"train.weights={path}")

    # ---- networks ----

    def symbol_job(self, path):
        """A job of the network in the file, without checkpoints."""
        text = self.job.read_text().replace('network = "tiny-bn"', f'symbol = "{path}"')
        return self.put("job.toml", text[:text.index("[checkpoint]")])

    def test_networks(self):
        data, label = node("null", "data"), node("null", "softmax_label")
        for name, text, texts in (
                ("empty", "", "byte 1"),
                ("cut", symbol(data, label)[:-5], "byte"),
                ("noise", os.urandom(3000), "byte"),
                ("array", "[1, 2]", "top level"),
                ("types", '{"nodes": 3}', "nodes"),
                ("heads", '{"nodes": []}', "heads"),
                ("nohead", '{"nodes": [], "heads": []}', "heads"),
                ("operator", symbol(data, node("fully_conected", "f", (0,))),
                 ["fully_conected", "fully_connected", "'f'"]),
                ("cycle", symbol(node("flatten", "a", (1,)), node("relu", "b", (0,))), "node 0"),
                ("self", symbol(node("flatten", "a", (0,))), "node 0"),
                ("far", symbol(data, node("flatten", "f", (7,))), "node 7"),
                ("negative", symbol(data, node("flatten", "f", (-1,))), "node 1"),
                ("head", symbol(data, heads=[[5, 0, 0]]), "node 5"),
                ("output", symbol(data, heads=[[0, 9, 0]]), "output 9"),
                ("name", '{"nodes": [{"op": "null", "name": 7, "inputs": []}], "heads": [[0,0]]}',
                 "node 0"),
                ("value", symbol(data, node("null", "w"), node("null", "b"),
                                 node("fully_connected", "fc", (0, 1, 2), num_hidden="-3")),
                 ["num_hidden", "-3"]),
                ("attribute", symbol(data, node("flatten", "f", (0,), sizee="2")), "sizee"),
                ("same", symbol(data, node("null", "data"), node("add", "sum", (0, 1))), "'data'"),
                ("inputs", symbol(data, node("null", "d2"), node("flatten", "f", (0, 1))), "'f'"),
                ("deep", "[" * 200_000, "nested deeper than 64 levels"),
                ("nested", '{"nodes":' * 100_000, "nested deeper than 64 levels"),
                ("huge", network("fully_connected", num_hidden="4611686018427387904"),
                 ["num_hidden", "4611686018427387904"]),
                ("large", network("fully_connected", num_hidden="2147483647"),
                 ["layer_weight", "2147483647", "2^40"]),
                ("reshape", symbol(data, label, node("reshape", "r", (0,), shape=f"({2**31 - 1}, "
                                                     f"{2**31 - 1}, {2**31 - 1})"),
                                   node("softmax_output", "softmax", (2, 1))),
                 ["reshape r", "too many elements"]),
                ("kernel", network("convolution", num_filter="4", kernel="(99, 99)"),
                 ["convolution layer", "99"])):
            with self.subTest(name):
                path = self.put(f"{name}.json", text)
                texts = [path, *([texts] if isinstance(texts, str) else texts)]
                self.expect(INPUT, texts, "model", "inspect", path)
                self.expect(INPUT, texts, "run", self.symbol_job(path), "--quiet")
        softmax = node("softmax_output", "softmax", (2, 1))
        for name, text, texts in (
                ("unlearning", symbol(data, label, node("flatten", "f", (0,)), softmax),
                 "nothing to learn"),
                ("lossless", symbol(data, label, node("null", "w"), node("null", "b"),
                                    node("fully_connected", "fc", (0, 2, 3), num_hidden="10"),
                                    node("softmax_output", "softmax", (4, 1)),
                                    heads=[[5, 0, 0], [4, 0, 0]]), ["no loss", "fc"]),
                ("unlabelled", symbol(data, node("flatten", "f", (0,))), "label")):
            with self.subTest(name):
                path = self.put(f"{name}.json", text)
                self.expect(INPUT, [path, texts] if isinstance(texts, str) else [path, *texts],
                            "run", self.symbol_job(path), "--quiet")
        large = self.folder / "large.json"
        with open(large, "wb") as file:
            file.truncate(100_000_000)
        self.expect(RESOURCES, [large, "100000000 bytes"], "model", "inspect", large)
        self.expect(MISSING, "none.json", "model", "inspect", self.folder / "none.json")
        self.expect(MISSING, "lenett", "model", "inspect", "lenett")
        self.expect(INPUT, "convolution", "model", "inspect", "lenet", "--input", "1,3,3")

    # ---- a cluster ----

    def test_jobs_of_a_cluster(self):
        """A job that cannot run fails with its reason; its cluster runs the next one."""
        company = cluster.Cluster(self.folder, {"a": 2, "b": 2})
        self.addCleanup(company.end)
        garbage = self.put("garbage.rec", b"no records in here")
        none = self.folder / "none"
        job = write_job(self.folder, "out", epochs=1)
        job.write_text(job.read_text().replace(f"{self.folder}/t", f"{self.data}/t"))
        for setting, texts in ((f"data.train={none}", [none]),
                               (f"data.train={garbage}", [garbage, "offset 0"]),
                               (f"data.test={garbage}", [garbage, "offset 0"]),
                               ("model.classes=3", ["train.rec", "offset", "3 classes"]),
                               (f"train.weights={none}", [none]),
                               (f"checkpoint.dir={garbage}",
                                [garbage, "the coordinator cannot write"]),
                               ("model.input=[1,2,3]", ["model.input", "(1, 2, 3)"]),
                               ("servers.shards=60000", ["servers.shards 60000"])):
            with self.subTest(setting):
                self.expect(FAILED, ["job tiny", "failed", *texts], "--coordinator",
                            company.address, "job", "submit", job, "--wait", "--set", setting,
                            files=True)
        out, err = company.submit(job).communicate(timeout=LIMIT_S)
        self.assertIn("test accuracy", out, err + company.text())

    def test_a_job_that_is_not_there(self):
        company = cluster.Cluster(self.folder, {})
        self.addCleanup(company.end)
        for verb in ("status", "wait", "stop"):
            done = cluster.troupe("--coordinator", company.address, "job", verb, "nope")
            self.assertEqual((done.returncode, done.stderr),
                             (MISSING, "error: no job 'nope'; a coordinator that was started anew "
                                       "remembers no jobs\n"))

    # ---- checkpoints ----

    def test_checkpoints(self):
        self.assertEqual(cluster.troupe("run", self.job, "--set", f"checkpoint.dir={self.out}")
                         .returncode, 0)
        manifests = sorted(self.out.glob("*.manifest"), key=lambda path: path.stat().st_mtime)
        for path in manifests[:-1]:
            path.unlink()
        manifest = manifests[-1]
        shard = next(self.out.glob(manifest.stem + "-shard-0*"))
        verbs = [("checkpoint", "hash", self.out), ("checkpoint", "show", self.out)]
        for path in (manifest, shard):
            whole = path.read_bytes()
            for name, changed in (("cut", whole[:-1]), ("empty", b""), ("few", whole[:5]),
                                  ("noise", os.urandom(len(whole))), ("long", whole + b"x"),
                                  ("flip", whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])):
                with self.subTest(f"{name} {path.suffix}"):
                    path.write_bytes(changed)
                    for verb in verbs:
                        self.expect(INPUT, path, *verb)
            path.write_bytes(whole)
        shard.rename(self.folder / "kept")
        self.expect(INPUT, shard, *verbs[0])
        (self.folder / "kept").rename(shard)
        whole = manifest.read_bytes()
        manifest.write_bytes(whole[:8] + b"\x63" + whole[9:])
        self.expect(INPUT, [manifest, "format 99"], *verbs[0])
        self.run_job(INPUT, [manifest, "format 99"])
        manifest.write_bytes(whole)
        self.run_job(CONFLICT, [manifest, "seed = 11", "12"], "seed=12")
        self.run_job(CONFLICT, "checkpoint.resume", "checkpoint.resume=false")
        self.expect(MISSING, self.folder / "none", "checkpoint", "hash", self.folder / "none")
        self.expect(INPUT, self.job, "checkpoint", "hash", self.job)
        self.run_job(INPUT, [self.job, "checkpoint.dir"], f"checkpoint.dir={self.job}")


if __name__ == "__main__":
    cluster.main()

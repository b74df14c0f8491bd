# SPDX-License-Identifier: Apache-2.0
"""The first images of Fashion-MNIST as record files, so that examples are run in seconds."""
import gzip
import pathlib
import struct
import subprocess

SOURCE = pathlib.Path("/usr/share/datasets/fashion-mnist")
DEADLINE_S = 600  # only what hangs takes so long, however busy the machine is


def run(*words, deadline_s=DEADLINE_S):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=deadline_s)


def first_items(name, count, target):
    """The first `count` items of an IDX file, as an IDX file of their own."""
    with gzip.open(SOURCE / f"{name}.gz") as file:
        rank = file.read(4)[3]
        _, *item = struct.unpack(f">{rank}I", file.read(4 * rank))
        size = 1
        for extent in item:
            size *= extent
        values = file.read(count * size)
    target.write_bytes(struct.pack(f">BBBB{rank}I", 0, 0, 8, rank, count, *item) + values)
    return target


def pack(troupe, folder, train, test):
    """Writes train.rec and test.rec of so many images into the folder."""
    words = ["data", "pack", "idx", "--out", folder]
    for flag, name, count in (("--images", "train-images-idx3-ubyte", train),
                              ("--labels", "train-labels-idx1-ubyte", train),
                              ("--test-images", "t10k-images-idx3-ubyte", test),
                              ("--test-labels", "t10k-labels-idx1-ubyte", test)):
        words += [flag, first_items(name, count, folder / f"{flag[2:]}.idx")]
    run(troupe, *words).check_returncode()

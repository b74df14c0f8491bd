#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a training trajectory of PyTorch: per step the batch, weights, loss and gradients.

trajectory.py NETWORK DTYPE LR STEPS OUT
    NETWORK: lenet or tiny-bn; DTYPE: f32 or f64
OUT/step-K.safetensors holds data, label, loss (sum over samples), and per parameter its value
before the step and NAME.grad, the gradient of the sum.
"""
import gzip
import struct
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from safetensors_file import write_safetensors

BATCH = 32


def find(name):
    found = sorted(Path("/usr/share").rglob(name))
    if not found:
        sys.exit(f"{name}: not found; install the package dataset-fashion-mnist")
    return found[0]


def read_idx(name):
    raw = gzip.decompress(find(name).read_bytes())
    rank = raw[3]
    shape = struct.unpack(f">{rank}I", raw[4:4 + 4 * rank])
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * rank).reshape(shape)


def load(part):
    images = read_idx(f"{part}-images-idx3-ubyte.gz").astype(np.float64) / 255
    labels = read_idx(f"{part}-labels-idx1-ubyte.gz").astype(np.int64)
    return ((images - 0.286) / 0.353)[:, None], labels


def lenet():
    return [("conv1", nn.Conv2d(1, 20, 5)), ("", nn.ReLU()), ("", nn.MaxPool2d(2)),
            ("conv2", nn.Conv2d(20, 50, 5)), ("", nn.ReLU()), ("", nn.MaxPool2d(2)),
            ("", nn.Flatten()), ("fc1", nn.Linear(800, 500)), ("", nn.ReLU()),
            ("fc2", nn.Linear(500, 10))]


def tiny_bn():
    return [("conv1", nn.Conv2d(1, 8, 3, padding=1, bias=False)),
            ("bn1", nn.BatchNorm2d(8, eps=1e-3)), ("", nn.ReLU()), ("", nn.MaxPool2d(2)),
            ("conv2", nn.Conv2d(8, 16, 3, padding=1, bias=False)),
            ("bn2", nn.BatchNorm2d(16, eps=1e-3)), ("", nn.ReLU()), ("", nn.MaxPool2d(2)),
            ("", nn.Flatten()), ("fc1", nn.Linear(784, 10))]


def parameters(layers):
    for name, layer in layers:
        if name.startswith("bn"):
            yield f"{name}_gamma", layer.weight
            yield f"{name}_beta", layer.bias
        elif name:
            yield f"{name}_weight", layer.weight
            if layer.bias is not None:
                yield f"{name}_bias", layer.bias


def main():
    network, dtype, lr, steps, out = sys.argv[1:]
    torch.manual_seed(1)
    torch.set_num_threads(2)
    kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
    layers = {"lenet": lenet, "tiny-bn": tiny_bn}[network]()
    model = nn.Sequential(*(layer for _, layer in layers)).to(kind).train()
    loss_of = nn.CrossEntropyLoss(reduction="sum")
    optimizer = torch.optim.SGD(model.parameters(), lr=float(lr), momentum=0.9)
    images, labels = load("train")
    Path(out).mkdir(parents=True, exist_ok=True)
    for step in range(int(steps)):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        data = torch.tensor(images[rows], dtype=kind)
        label = torch.tensor(labels[rows])
        optimizer.zero_grad()
        loss = loss_of(model(data), label)
        loss.backward()
        tensors = {"data": data.numpy(), "label": label.to(kind).numpy(),
                   "loss": loss.detach().numpy().reshape(1)}
        for name, value in parameters(layers):
            tensors[name] = value.detach().numpy()
            tensors[f"{name}.grad"] = value.grad.numpy()
        write_safetensors(f"{out}/step-{step}.safetensors", tensors)
        for value in model.parameters():  # the step is of the mean gradient
            value.grad /= BATCH
        optimizer.step()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A step of PyTorch through a built-in network, in f64 and in f32 from the same values.

networks.py NETWORK SIDE DRAW FILE
SIDE: height and width of the images; 0: as the network was made for. DRAW: which images, 0 and up;
the weights are the same. FILE (safetensors) gets, of a batch of 2: data, label, parameters and
states; `probabilities` and per parameter NAME.grad, the gradient of the summed loss, in f64; and
NAME.error, how far PyTorch's f32 is from that (Euclidean norms). The networks are those of
bench/peers/convnets.py.
"""
import sys

import numpy as np
import torch
from torch.nn import functional

import convnets
import torch_convnets
from safetensors_file import write_safetensors
from timing import formula

BATCH = 2


def results(net, data, label):
    scores = net(data)
    functional.cross_entropy(scores, label, reduction="sum").backward()
    tensors = {"probabilities": torch.softmax(scores, 1).detach()}
    for name, value in torch_convnets.named_values(net):
        if value.grad is not None:
            tensors[f"{name}.grad"] = value.grad
    return {name: value.double().numpy() for name, value in tensors.items()}


def main():
    name, side, draw, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    shape = convnets.image_of(name)
    if side:
        shape = (shape[0], side, side)
    stream = convnets.stream_of(f"data{draw}" if draw else "data")
    data = torch.from_numpy(formula(np, stream, (BATCH, *shape), 1.0))
    label = torch.arange(BATCH) * 7 % convnets.classes_of(name)
    tensors = {"data": data.double().numpy(), "label": label.double().numpy()}
    net = torch_convnets.make(name, shape).double().train()
    for key, value in torch_convnets.named_values(net):
        tensors[key] = value.detach().double().numpy().copy()
    exact = results(net, data.double(), label)
    single = results(torch_convnets.make(name, shape).train(), data, label)
    for key, value in exact.items():
        tensors[key] = value
        far = np.linalg.norm(single[key] - value) / max(np.linalg.norm(value), 1e-300)
        tensors[f"{key}.error"] = np.array([far])
    write_safetensors(path, tensors)


if __name__ == "__main__":
    main()

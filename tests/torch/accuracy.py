#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's mean test accuracy of LeNet at examples/fashion-lenet.toml's setting over 3 seeds.

accuracy.py: prints one number. 5 epochs, batches of 64 (2 workers x 32), cosine schedule.
"""
import torch
from torch import nn

from trajectory import lenet, load

EPOCHS, BATCH = 5, 64


def train(seed, images, labels, test_images, test_labels):
    torch.manual_seed(seed)
    model = nn.Sequential(*(layer for _, layer in lenet()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    steps = EPOCHS * ((len(images) + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(EPOCHS):
        order = torch.randperm(len(images))
        for begin in range(0, len(images), BATCH):
            rows = order[begin:begin + BATCH]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[rows]), labels[rows]).backward()
            optimizer.step()
            schedule.step()
    with torch.inference_mode():
        hits = (model(test_images).argmax(1) == test_labels).sum().item()
    return hits / len(test_images)


def main():
    torch.set_num_threads(2)
    tensors = []
    for part in ("train", "t10k"):
        images, labels = load(part)
        tensors += [torch.tensor(images, dtype=torch.float32), torch.tensor(labels)]
    print(sum(train(seed, *tensors) for seed in range(3)) / 3)


if __name__ == "__main__":
    main()

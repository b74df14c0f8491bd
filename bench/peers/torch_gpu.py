#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of `bench_networks train --gpu`: forward and backward of a batch on the first GPU.

torch_gpu.py NETWORK BATCH NUMBERS FILE [HOW,...]
    NUMBERS  f32: TF32 off; tf32: on; bf16: autocast
    FILE     gets the probabilities and the gradients of the first and the last weight, by eager
    HOW      eager | channels_last | graphs | compile: which are timed, "+" joins several of them;
             default: all that one may combine
Prints a JSON row for each: seconds an image, and as check the peak of memory in MiB.
"""
import sys
import time

import torch
from torch.nn import functional

from timing import print_row
from torch_convnets import batch_of, make, write

WAYS = ("eager", "channels_last", "graphs", "channels_last+graphs", "compile+channels_last")
SECONDS = 1.0  # that a measurement takes


def timed(step, batch):
    """Median seconds an image, of rounds of several steps each."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    rounds = 5
    steps = max(1, int(SECONDS / rounds / max(time.perf_counter() - begin, 1e-5)))
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / steps / batch)
    return sorted(seconds)[rounds // 2]


def captured(step):
    """`step` as a CUDA graph."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
        step()
    return graph.replay


def train(name, batch, numbers, how, path):
    net, (data, labels) = make(name).train(), batch_of(name, batch)
    net, data, labels = net.cuda(), data.cuda(), labels.cuda()
    if "channels_last" in how:
        net = net.to(memory_format=torch.channels_last)
        data = data.to(memory_format=torch.channels_last)
    run = torch.compile(net) if "compile" in how else net

    def step():
        net.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=numbers == "bf16"):
            scores = run(data)
            loss = functional.cross_entropy(scores, labels, reduction="sum")
        loss.backward()
        return scores

    scores = step()
    weights = [value for key, value in net.named_parameters() if value.dim() > 1]
    if path:
        write(path, [x.detach().float().cpu() for x in
                     (torch.softmax(scores.float(), 1), weights[0].grad, weights[-1].grad)])
    torch.cuda.reset_peak_memory_stats()
    seconds = timed(captured(step) if "graphs" in how else step, batch)
    print_row(f"{name} train {numbers} {how}", (seconds, 0.0),
              torch.cuda.max_memory_allocated() / 2**20)


def main():
    name, batch, numbers, path = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
    ways = sys.argv[5].split(",") if len(sys.argv) > 5 else WAYS
    # Gradients are added up on the stream of the forward pass, which a graph must be captured on.
    torch.cuda.set_stream(torch.cuda.Stream())
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = numbers == "tf32"
    torch.backends.cudnn.allow_tf32 = numbers == "tf32"
    for how in ways:
        try:
            train(name, batch, numbers, how, path)
        except Exception as error:  # a way that does not work is left out, with its reason
            print(f"{name} {numbers} {how}: {str(error)[:200]}", file=sys.stderr, flush=True)
        path = ""
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/peers.py, one JSON line a row.

torch_peer.py version | small-op | ops THREADS | lenet BATCH THREADS STEPS
              | lenet-ranks BATCH RANKS STEPS | allreduce RANKS
"""
import os
import sys

import numpy
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn import functional

from timing import (CHECK_STEP, KEY_BYTES, first_weight, formula, measure, measure_loop,
                    print_row)

ATEN = torch.ops.aten


def small_op():
    a, b, count = torch.ones(4), torch.ones(4), 50_000

    def chain():
        nonlocal a
        for _ in range(count):
            a = a + b

    print_row("small op", measure(chain, 5, count))


def conv_rows(title, data, weight):
    x, w, b = torch.rand(data) + 0.5, torch.rand(weight) + 0.5, torch.rand(weight[0])
    y = functional.conv2d(x, w, b)

    def backward(*wanted):
        return lambda: ATEN.convolution_backward(y, x, w, [weight[0]], [1, 1], [0, 0], [1, 1],
                                                 False, [0, 0], 1, list(wanted))

    return {f"convolution/{title}": lambda: functional.conv2d(x, w, b),
            f"convolution_backward_data/{title}": backward(True, False, False),
            f"convolution_backward_weights/{title}": backward(False, True, True)}


def dense_rows():
    title = "lenet fc1, batch 32"
    x, w, b, g = (torch.rand(s) for s in ((32, 800), (500, 800), (500,), (32, 500)))
    return {f"fully_connected/{title}": lambda: functional.linear(x, w, b),
            f"fully_connected_backward_data/{title}": lambda: g @ w,
            f"fully_connected_backward_weights/{title}": lambda: (g.t() @ x, g.sum(0))}


def window_rows():
    title = "lenet pool1, batch 32"
    x = torch.rand(32, 20, 24, 24)
    y, indices = functional.max_pool2d(x, 2, return_indices=True)
    return {f"pooling/{title}": lambda: functional.max_pool2d(x, 2),
            f"pooling_backward/{title}": lambda: ATEN.max_pool2d_with_indices_backward(
                y, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)}


def norm_rows():
    title = "batch 32, 64 channels"
    x, (w, b, m, v) = torch.rand(32, 64, 14, 14), (torch.rand(64) for _ in range(4))
    out, mean, inverse = ATEN.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-3)
    return {f"batch_norm/{title}": lambda: ATEN.native_batch_norm(x, w, b, m, v, True, 0.1, 1e-3),
            f"batch_norm_backward/{title}": lambda: ATEN.native_batch_norm_backward(
                out, x, w, m, v, mean, inverse, True, 1e-3, [True, True, True])}


def pointwise_rows():
    title = "relu of lenet conv1, batch 32"
    x, g = torch.rand(32, 20, 24, 24), torch.rand(32, 20, 24, 24)
    a, b = torch.rand(256, 1024), torch.rand(256, 1024)
    column, s = torch.rand(256, 1), torch.rand(32, 1000)
    pixels = torch.rand(4, 21, 64, 64)
    probability = functional.softmax(s, 1)
    of_pixels = functional.softmax(pixels, 1)
    return {f"activation/{title}": lambda: functional.relu(x),
            f"activation_backward/{title}": lambda: ATEN.threshold_backward(g, x, 0),
            "softmax/batch 32, 1000 classes": lambda: functional.softmax(s, 1),
            "softmax_backward/batch 32, 1000 classes": lambda: ATEN._softmax_backward_data(
                s, probability, 1, torch.float32),
            "softmax/21 classes of each pixel": lambda: functional.softmax(pixels, 1),
            "softmax_backward/21 classes of each pixel": lambda: ATEN._softmax_backward_data(
                pixels, of_pixels, 1, torch.float32),
            "log_softmax/21 classes of each pixel": lambda: functional.log_softmax(pixels, 1),
            "add/large/(256, 1024)/(256, 1024)": lambda: a + b,
            "multiply/large/(256, 1024)/(256, 1)": lambda: a * column,
            "exp/large": lambda: torch.exp(a),
            "sum/several blocks": lambda v=torch.rand(3, 20000): v.sum(1),
            "sum/several blocks of columns": lambda v=torch.rand(20000, 3): v.sum(0),
            "dot/large": lambda m=torch.rand(256, 256), n=torch.rand(256, 256): m @ n}


def smooth_rows():
    x, g = 16 * torch.rand(32, 20, 24, 24) - 8, torch.rand(32, 20, 24, 24)
    elu, leaky = functional.elu(x, 0.25), functional.leaky_relu(x, 0.25)
    return {"leaky_relu/leaky, batch 32": lambda: functional.leaky_relu(x, 0.25),
            "leaky_relu/elu, batch 32": lambda: functional.elu(x, 0.25),
            "leaky_relu/gelu, batch 32": lambda: functional.gelu(x),
            "leaky_relu_backward/leaky, batch 32": lambda: ATEN.leaky_relu_backward(
                g, leaky, 0.25, True),
            "leaky_relu_backward/elu, batch 32": lambda: ATEN.elu_backward(
                g, 0.25, 1, 1, True, elu),
            "leaky_relu_backward/gelu, batch 32": lambda: ATEN.gelu_backward(g, x),
            "silu/batch 32": lambda: functional.silu(x),
            "silu_backward/batch 32": lambda: ATEN.silu_backward(g, x)}


def chain_rows():
    x, y, z = (torch.rand(256, 4096) + 0.5 for _ in range(3))

    def gelu():
        return (torch.tanh((x * x * x * 0.044715 + x) * 0.7978845608) + 1) * x * 0.5
    title = "arithmetic, large/" + "/".join(["(256, 4096)"] * 3)
    return {"fused_pointwise/gelu by tanh, large": gelu,
            f"fused_pointwise/{title}": lambda: (x * y + z) * 0.9 - x}


def decoder_rows():
    title = "4x4 to 28x28, batch 32"
    x, w, y = torch.rand(32, 64, 14, 14), torch.rand(64, 32, 4, 4), torch.rand(32, 32, 28, 28)

    def backward(*wanted):
        return lambda: ATEN.convolution_backward(y, x, w, None, [2, 2], [1, 1], [1, 1], True,
                                                 [0, 0], 1, [*wanted, False])

    image, planes, wide = (torch.rand(s) for s in ((4, 3, 224, 224), (8, 64, 56, 56),
                                                   (32, 64, 28, 28)))
    return {f"deconvolution/{title}": lambda: functional.conv_transpose2d(
                x, w, stride=2, padding=1),
            f"deconvolution_backward_data/{title}": backward(True, False),
            f"deconvolution_backward_weights/{title}": backward(False, True),
            "lrn/googlenet norm1, batch 8": lambda: functional.local_response_norm(planes, 5, k=2),
            "pad/3 around 224x224, batch 4": lambda: functional.pad(image, (3, 3, 3, 3), value=0.5),
            "transpose/channels last, batch 32": lambda: wide.permute(0, 2, 3, 1).contiguous(),
            "upsampling/14x14 to 28x28, batch 32": lambda: functional.interpolate(
                x, scale_factor=2, mode="nearest")}


def sgd_row():
    p = nn.Parameter(torch.rand(1 << 18))
    p.grad = torch.rand(1 << 18)
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9, weight_decay=0.01, fused=True)
    return {"sgd_update/large": optimizer.step}


def ops(threads):
    torch.set_num_threads(threads)
    rows = {**conv_rows("lenet conv1, batch 32", (32, 1, 28, 28), (20, 1, 5, 5)),
            **conv_rows("lenet conv2, batch 32", (32, 20, 12, 12), (50, 20, 5, 5)),
            **dense_rows(), **window_rows(), **norm_rows(), **pointwise_rows(), **smooth_rows(),
            **chain_rows(), **decoder_rows(), **sgd_row()}
    with torch.no_grad():
        for what, function in rows.items():
            print_row(what, measure_loop(function))


def make_lenet():
    model = nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5),
                          nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(),
                          nn.Linear(500, 10))
    with torch.no_grad():
        for key, value in enumerate(model.parameters()):
            value.copy_(torch.from_numpy(first_weight(numpy, key, tuple(value.shape))))
    return model


def make_step(model, batch):
    data = torch.from_numpy(formula(numpy, 100, (batch, 1, 28, 28), 1.0))
    label = torch.arange(batch) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                fused=True)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(model(data), label)
        loss.backward()
        optimizer.step()
        return loss

    def predict():
        with torch.inference_mode():
            functional.softmax(model(data), 1)

    return step, predict


def lenet(batch, threads, steps):
    torch.set_num_threads(threads)
    step, predict = make_step(make_lenet(), batch)
    for _ in range(CHECK_STEP + 1):
        loss = step()
    print_row("lenet train", measure(lambda: [step() for _ in range(steps)], 5, batch * steps),
              float(loss.detach()))
    print_row("lenet predict",
              measure(lambda: [predict() for _ in range(steps)], 5, batch * steps))


def start_rank(rank, ranks, port):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(1)


def lenet_rank(rank, ranks, port, batch, steps):
    start_rank(rank, ranks, port)
    step, _ = make_step(nn.parallel.DistributedDataParallel(make_lenet()), batch)
    each = measure(lambda: [step() for _ in range(steps)], 5, batch * steps * ranks)
    if rank == 0:
        print_row("lenet ranks", each)
    dist.destroy_process_group()


def allreduce_rank(rank, ranks, port):
    start_rank(rank, ranks, port)
    for size, repetitions in KEY_BYTES:
        weight = nn.Parameter(torch.zeros(size // 4))
        weight.grad = torch.zeros(size // 4)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=True)

        def exchange():
            dist.all_reduce(weight.grad)
            optimizer.step()

        each = measure(exchange, repetitions, warmup=3)
        if rank == 0:
            print_row(f"loopback {ranks} workers {size} B", (each[0], 0.0))
    dist.destroy_process_group()


def spawn(function, ranks, *arguments):
    port = 20000 + os.getpid() % 10000
    mp.spawn(function, args=(ranks, port, *arguments), nprocs=ranks)


def main():
    command, numbers = sys.argv[1], [int(number) for number in sys.argv[2:]]
    if command == "version":
        print(f"PyTorch {torch.__version__}")
    elif command == "lenet-ranks":
        spawn(lenet_rank, numbers[1], numbers[0], numbers[2])
    elif command == "allreduce":
        spawn(allreduce_rank, numbers[0])
    else:
        {"small-op": small_op, "ops": ops, "lenet": lenet}[command](*numbers)


if __name__ == "__main__":
    main()

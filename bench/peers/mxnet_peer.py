#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MXNet's side of bench/peers.py (Python 3.8, mxnet 1.9.1), one JSON line a row.

mxnet_peer.py version | files | small-op | lenet BATCH STEPS | local DEVICES
              | servers WORKERS SERVERS  (starts all processes of a parameter server)
OMP_NUM_THREADS says how many threads its operators use.
"""
import os
import random
import subprocess
import sys

import mxnet as mx
import numpy
from mxnet import autograd, gluon

from timing import CHECK_STEP, KEY_BYTES, first_weight, formula, measure, print_row


def small_op():
    count = 20_000
    b = mx.nd.ones((4,))

    def chain():
        a = mx.nd.ones((4,))
        for _ in range(count):
            a = a + b
        a.wait_to_read()

    print_row("small op", measure(chain, 5, count))


def make_lenet():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(20, 5, activation="relu", in_channels=1), gluon.nn.MaxPool2D(2, 2),
            gluon.nn.Conv2D(50, 5, activation="relu", in_channels=20), gluon.nn.MaxPool2D(2, 2),
            gluon.nn.Flatten(), gluon.nn.Dense(500, activation="relu", in_units=800),
            gluon.nn.Dense(10, in_units=500))
    net.initialize()
    for key, value in enumerate(net.collect_params().values()):
        value.set_data(mx.nd.array(first_weight(numpy, key, value.shape)))
    net.hybridize(static_alloc=True, static_shape=True)
    return net


def lenet(batch, steps):
    net = make_lenet()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd",
                            {"learning_rate": 0.01, "momentum": 0.9, "wd": 1e-4})
    data = mx.nd.array(formula(numpy, 100, (batch, 1, 28, 28), 1.0))
    label = mx.nd.array(numpy.arange(batch) % 10)

    def step():
        with autograd.record():
            loss = loss_of(net(data), label)
        loss.backward()
        trainer.step(batch)
        return loss

    def repeat(function):
        for _ in range(steps):
            function()
        mx.nd.waitall()

    for _ in range(CHECK_STEP + 1):
        loss = step()
    check = float(loss.mean().asscalar())
    print_row("lenet train", measure(lambda: repeat(step), 5, batch * steps), check)
    predict = measure(lambda: repeat(lambda: mx.nd.softmax(net(data))), 5, batch * steps)
    print_row("lenet predict", predict)


def exchange(kind, devices, title):
    store = mx.kv.create(kind)
    store.set_optimizer(mx.optimizer.SGD(learning_rate=0.1, momentum=0.9))
    for size, repetitions in KEY_BYTES:
        shape = (size // 4,)
        store.init(str(size), mx.nd.zeros(shape))
        gradients = [mx.nd.zeros(shape, ctx=mx.cpu(i)) for i in range(devices)]
        weights = [mx.nd.zeros(shape, ctx=mx.cpu(i)) for i in range(devices)]

        def push_pull():
            store.push(str(size), gradients)
            store.pull(str(size), out=weights)
            for weight in weights:
                weight.wait_to_read()

        each = measure(push_pull, repetitions, warmup=3)
        if store.rank == 0:
            # Of several processes this one's share says nothing.
            print_row(f"{title} {size} B", each if kind == "local" else (each[0], 0.0))


def servers(workers, count):
    environment = dict(os.environ, DMLC_PS_ROOT_URI="127.0.0.1",
                       DMLC_PS_ROOT_PORT=str(random.randint(9100, 9900)), DMLC_INTERFACE="lo",
                       DMLC_NUM_WORKER=str(workers), DMLC_NUM_SERVER=str(count))
    roles = ["scheduler"] + ["server"] * count + ["worker"] * workers
    title = f"loopback {workers} workers {count} servers"
    running = [subprocess.Popen([sys.executable, __file__, "role", title],
                                env=dict(environment, DMLC_ROLE=role)) for role in roles]
    try:
        return max(process.wait(timeout=240) for process in running)
    finally:
        for process in running:
            process.kill()


def main():
    command = sys.argv[1]
    if command == "role":  # a scheduler or server has served, and ended, within the import
        return exchange("dist_sync", 1, sys.argv[2])
    numbers = [int(number) for number in sys.argv[2:]]
    if command == "version":
        print(f"MXNet {mx.__version__}")
    elif command == "files":
        print(os.path.dirname(mx.__file__))
    elif command == "servers":
        return servers(*numbers)
    elif command == "local":
        exchange("local", numbers[0], f"local {numbers[0]} devices")
    else:
        {"small-op": small_op, "lenet": lenet}[command](*numbers)
    return 0


if __name__ == "__main__":
    sys.exit(main())

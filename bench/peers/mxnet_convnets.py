#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MXNet's side of bench/networks.py (Python with mxnet 1.9.1).

mxnet_convnets.py train|predict NETWORK BATCH REPETITIONS FILE
mxnet_convnets.py memory NETWORK BATCH      planned bytes for training and for prediction
FILE gets the probabilities and, after training, the gradients of the first and the last weight.
OMP_NUM_THREADS says how many threads its operators use. Prints JSON rows.
"""
import re
import sys

import mxnet as mx
import numpy

import convnets
from timing import formula, measure, print_row


class Builder:
    def __init__(self, name):
        self.classes = convnets.classes_of(name)

    def data(self):
        return mx.sym.Variable("data")

    def convolution(self, name, x, filters, kernel=1, stride=1, pad=0, groups=1, bias=False):
        return mx.sym.Convolution(x, name=name, num_filter=filters, kernel=(kernel, kernel),
                                  stride=(stride, stride), pad=(pad, pad), num_group=groups,
                                  no_bias=not bias)

    def batch_norm(self, name, x, eps):
        return mx.sym.BatchNorm(x, name=name, eps=eps, momentum=0.9, fix_gamma=False)

    def relu(self, name, x):
        return mx.sym.Activation(x, name=name, act_type="relu")

    def relu6(self, name, x):
        return mx.sym.clip(x, name=name, a_min=0, a_max=6)

    def pool(self, kind, name, x, kernel, stride, pad=0, full=False):
        return mx.sym.Pooling(x, name=name, pool_type=kind, kernel=(kernel, kernel),
                              stride=(stride, stride), pad=(pad, pad),
                              pooling_convention="full" if full else "valid")

    def max_pool(self, *sizes, **options):
        return self.pool("max", *sizes, **options)

    def average_pool(self, *sizes, **options):
        return self.pool("avg", *sizes, **options)

    def global_average(self, name, x):
        x = mx.sym.Pooling(x, name=name, global_pool=True, pool_type="avg", kernel=(1, 1))
        return mx.sym.Flatten(x)

    def flatten(self, name, x):
        return mx.sym.Flatten(x, name=name)

    def dense(self, name, x, units):
        return mx.sym.FullyConnected(x, name=name, num_hidden=units)

    def add(self, name, a, b):
        return mx.sym.elemwise_add(a, b, name=name)

    def concat(self, name, parts):
        return mx.sym.Concat(*parts, name=name, dim=1)


def bind(name, batch, train):
    net = mx.sym.SoftmaxOutput(convnets.build(name, Builder(name)), name="softmax")
    inputs = {"data": (batch, *convnets.image_of(name)), "softmax_label": (batch,)}
    wanted = "write" if train else "null"
    requests = {key: "null" if key in inputs else wanted for key in net.list_arguments()}
    return net.simple_bind(mx.cpu(), grad_req=requests, **inputs)


def fill(executor):
    for key, array in {**executor.arg_dict, **executor.aux_dict}.items():
        if key == "data":
            array[:] = formula(numpy, convnets.stream_of(key), array.shape, 1.0)
        elif key == "softmax_label":
            array[:] = numpy.arange(array.shape[0]) * 7 % executor.outputs[0].shape[1]
        else:
            array[:] = convnets.values_of(numpy, formula, key, array.shape)


def time(what, name, batch, repetitions, path):
    training = what == "train"
    executor = bind(name, batch, training)
    fill(executor)

    def step():
        executor.forward(is_train=training)
        if training:
            executor.backward()
        mx.nd.waitall()

    step()
    arrays = [executor.outputs[0]]
    if training:
        weights = [key for key in executor.arg_dict if key.endswith("_weight")]
        arrays += [executor.grad_dict[weights[0]], executor.grad_dict[weights[-1]]]
    with open(path, "wb") as file:
        for array in arrays:
            file.write(array.asnumpy().tobytes())
    print_row(f"{name} {what}", measure(step, repetitions, batch))


def memory(name, batch):
    """MXNet's own word: the last line of a bound executor's description."""
    for what in ("train", "predict"):
        text = bind(name, batch, what == "train").debug_str()
        mebibytes = int(re.search(r"Total (\d+) MB allocated", text).group(1))
        print_row(f"{name} {what} memory", (mebibytes * 2.0 ** 20, 0.0))


def main():
    if sys.argv[1] == "memory":
        memory(sys.argv[2], int(sys.argv[3]))
    else:
        time(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])


if __name__ == "__main__":
    main()

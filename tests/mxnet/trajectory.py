#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes 20 steps of MXNet's Module with sgd in f64, for mxnet_numbers to repeat.

trajectory.py CASE OUT
    CASE: one of CASES
OUT/network.json is the symbol. OUT/step-K.safetensors holds data and label of step K (or the
gradients of outputs) and all parameters and states before it; step-20 has the last ones. Rates
are powers of two: MXNet keeps them in f32.
"""
import sys
from pathlib import Path

import mxnet as mx
import numpy as np

from safetensors_file import write_safetensors

STEPS, BATCH, CLASSES, SIDE = 20, 8, 4, 6
SGD = {"learning_rate": 2.0**-3, "momentum": 0.875, "wd": 2.0**-5}


def variable(name, **attributes):
    return mx.sym.Variable(name, **attributes)


def dense(data, name, hidden=CLASSES, **parameters):
    """The parameters that are not given are variables without attributes."""
    return mx.sym.FullyConnected(data, num_hidden=hidden, name=name, **parameters)


def relu(data, name):
    return mx.sym.Activation(data, act_type="relu", name=name)


def norm():
    """Convolution and batch norm with the names and attributes of Gluon's states.

    No bias: its gradient is zero behind a norm, so only rounding would be compared. MXNet keeps
    momentum and eps in 32 bits: these have few.
    """
    conv = mx.sym.Convolution(variable("data"), num_filter=3, kernel=(3, 3), no_bias=True,
                              name="conv0")
    states = {"moving_mean": variable("batchnorm0_running_mean", init="zeros"),
              "moving_var": variable("batchnorm0_running_var", init="ones")}
    normed = mx.sym.BatchNorm(conv, fix_gamma=False, momentum=0.875, eps=2**-10, name="batchnorm0",
                              **states)
    return dense(relu(normed, "relu0"), "dense0")


def multipliers():
    """Rates and decays of single variables, as Gluon writes them and otherwise."""
    first = dense(variable("data"), "first", 5,
                  weight=variable("first_weight", lr_mult=0.5, wd_mult=0.0),
                  bias=variable("first_bias", lr_mult=1.0, wd_mult=1.0))
    return dense(relu(first, "relu"), "second", weight=variable("second_weight", wd_mult=4.0),
                 bias=variable("second_bias", lr_mult=2.0))


def frozen():
    """A layer of rate 0, and one behind BlockGrad whose weight decays."""
    data = variable("data")
    still = dense(data, "still", 5, weight=variable("still_weight", lr_mult=0.0),
                  bias=variable("still_bias", lr_mult=0.0))
    return dense(relu(still + mx.sym.BlockGrad(dense(data, "behind", 5)), "relu"), "top")


def handed():
    """Parameters that get the loss's gradient as it is; batches of one, as their shape needs."""
    scores = dense(variable("data"), "fc")
    scores = mx.sym.add_n(scores, variable("offset_weight", shape=(1, CLASSES)))
    return scores + variable("shift_bias", shape=(1, CLASSES))


def heads():
    """No loss: both outputs' gradients come from outside and reach their arguments as they are."""
    return mx.sym.Group([mx.sym.add_n(variable("a_weight"), variable("b_weight")),
                         variable("c_weight") + 0.5])


CASES = {"norm": norm, "multipliers": multipliers, "frozen": frozen, "handed": handed,
         "heads": heads}


def drive(network, random, out):
    """An executor with gradients of its outputs, and MXNet's optimizer behind it."""
    network.save(f"{out}/network.json")
    names = network.list_arguments()
    values = {name: mx.nd.array(random.randn(2, 3), dtype="float64") for name in names}
    slopes = {name: mx.nd.zeros((2, 3), dtype="float64") for name in names}
    executor = network.bind(mx.cpu(), values, slopes)
    update = mx.optimizer.get_updater(
        mx.optimizer.SGD(param_idx2name=dict(enumerate(names)), sym=network, **SGD))
    for step in range(STEPS + 1):
        tensors = {f"head{i}": random.randn(2, 3) for i in range(2)}
        given = [mx.nd.array(array, dtype="float64") for array in tensors.values()]
        tensors.update((name, array.asnumpy()) for name, array in values.items())
        write_safetensors(f"{out}/step-{step}.safetensors", tensors)
        executor.forward(is_train=True)
        executor.backward(given)
        for index, name in enumerate(names):
            update(index, slopes[name], values[name])


def train(module, batches, out):
    for step in range(STEPS + 1):
        images, labels = batches[step % len(batches)]
        parameters, states = module.get_params()
        tensors = {"data": images, "label": labels}
        tensors.update((name, array.asnumpy()) for name, array in {**parameters, **states}.items())
        write_safetensors(f"{out}/step-{step}.safetensors", tensors)
        arrays = [mx.nd.array(array, dtype="float64") for array in (images, labels)]
        module.forward(mx.io.DataBatch(data=arrays[:1], label=arrays[1:]), is_train=True)
        module.backward()
        module.update()
        mx.nd.waitall()  # reading states alone does not wait for batch norm to move them


def main():
    case, out = sys.argv[1:]
    Path(out).mkdir(parents=True, exist_ok=True)
    mx.random.seed(1)
    random = np.random.RandomState(1)
    if case == "heads":
        return drive(heads(), random, out)
    network = mx.sym.SoftmaxOutput(CASES[case](), name="softmax")
    network.save(f"{out}/network.json")
    rows = 1 if case == "handed" else BATCH
    module = mx.mod.Module(network)
    module.bind([mx.io.DataDesc("data", (rows, 1, SIDE, SIDE), dtype="float64")],
                [mx.io.DataDesc("softmax_label", (rows,), dtype="float64")])
    module.init_params(mx.init.Uniform(0.5))
    module.init_optimizer(kvstore=None, optimizer="sgd", optimizer_params=SGD)
    batches = [(random.randn(rows, 1, SIDE, SIDE),
                random.randint(0, CLASSES, (rows,)).astype(np.float64)) for _ in range(5)]
    return train(module, batches, out)


if __name__ == "__main__":
    main()

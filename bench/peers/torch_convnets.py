#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench/networks.py, and that of runtimes that take an ONNX file of it.

torch_convnets.py HOW NETWORK BATCH THREADS REPETITIONS FILE
    HOW   eager | channels_last | compile: forward and backward of a batch, loss summed;
          behind "bf16-" with autocast
          frozen | compiled | onnxruntime | openvino: prediction
    FILE  gets the probabilities and, after training, the gradients of the first and the last weight
Prints a JSON row: seconds and processor seconds an image.
"""
import operator
import os
import sys
import tempfile

import numpy
import torch
from torch import nn
from torch.nn import functional

import convnets
from timing import formula, measure, print_row


class Builder:
    """A torch.fx.Graph with a module per layer; `shapes`: of one sample's values."""

    def __init__(self, name, image):
        self.classes = convnets.classes_of(name)
        self.modules, self.graph, self.shapes = nn.Module(), torch.fx.Graph(), {}
        self.image = image

    def put(self, node, shape):
        self.shapes[node] = shape
        return node

    def module(self, name, module, x, shape):
        self.modules.add_module(name, module)
        return self.put(self.graph.call_module(name, (x,)), shape)

    def data(self):
        return self.put(self.graph.placeholder("data"), self.image)

    def convolution(self, name, x, filters, kernel=1, stride=1, pad=0, groups=1, bias=False):
        channels, *plane = self.shapes[x]
        module = nn.Conv2d(channels, filters, kernel, stride, pad, groups=groups, bias=bias)
        extents = [(extent + 2 * pad - kernel) // stride + 1 for extent in plane]
        return self.module(name, module, x, (filters, *extents))

    def batch_norm(self, name, x, eps):
        shape = self.shapes[x]
        return self.module(name, nn.BatchNorm2d(shape[0], eps), x, shape)

    def relu(self, name, x):
        return self.module(name, nn.ReLU(inplace=True), x, self.shapes[x])

    def relu6(self, name, x):
        return self.module(name, nn.ReLU6(inplace=True), x, self.shapes[x])

    def pool(self, kind, name, x, kernel, stride, pad=0, full=False):
        channels, *plane = self.shapes[x]
        more = stride - 1 if full else 0
        extents = [(extent + 2 * pad - kernel + more) // stride + 1 for extent in plane]
        module = kind(kernel, stride, pad, ceil_mode=full)
        return self.module(name, module, x, (channels, *extents))

    def max_pool(self, *sizes, **options):
        return self.pool(nn.MaxPool2d, *sizes, **options)

    def average_pool(self, *sizes, **options):
        return self.pool(nn.AvgPool2d, *sizes, **options)

    def global_average(self, name, x):
        channels = self.shapes[x][0]
        x = self.module(name, nn.AdaptiveAvgPool2d(1), x, (channels, 1, 1))
        return self.flatten(f"{name}_flatten", x)

    def flatten(self, name, x):
        return self.module(name, nn.Flatten(), x, (int(numpy.prod(self.shapes[x])),))

    def dense(self, name, x, units):
        return self.module(name, nn.Linear(self.shapes[x][0], units), x, (units,))

    def add(self, name, a, b):
        return self.put(self.graph.call_function(operator.add, (a, b)), self.shapes[a])

    def concat(self, name, parts):
        channels = sum(self.shapes[part][0] for part in parts)
        node = self.graph.call_function(torch.cat, (list(parts), 1))
        return self.put(node, (channels, *self.shapes[parts[0]][1:]))

    def finish(self, scores):
        self.graph.output(scores)
        return torch.fx.GraphModule(self.modules, self.graph)


PARTS = {"weight": "gamma", "bias": "beta", "running_mean": "moving_mean",
         "running_var": "moving_var"}  # of batch normalisation


def named_values(net):
    """(Troupe's name, value) of all parameters and states of batch normalisation."""
    for layer, module in net.named_modules():
        for part, value in (module._parameters | module._buffers).items():
            if value is not None and part != "num_batches_tracked":
                batch_norm = isinstance(module, nn.BatchNorm2d)
                yield f"{layer}_{PARTS[part] if batch_norm else part}", value


def make(name, image=None):
    builder = Builder(name, image or convnets.image_of(name))
    net = builder.finish(convnets.build(name, builder))
    with torch.no_grad():
        for key, value in named_values(net):
            value.copy_(torch.from_numpy(
                convnets.values_of(numpy, formula, key, tuple(value.shape))))
    return net


def batch_of(name, batch):
    data = formula(numpy, convnets.stream_of("data"), (batch, *convnets.image_of(name)), 1.0)
    labels = numpy.arange(batch) * 7 % convnets.classes_of(name)
    return torch.from_numpy(data), torch.from_numpy(labels)


def write(path, arrays):
    with open(path, "wb") as file:
        for array in arrays:
            file.write(numpy.ascontiguousarray(array, numpy.float32).tobytes())


def train(how, name, batch, repetitions, path):
    narrow, how = how.startswith("bf16-"), how.removeprefix("bf16-")
    net, (data, labels) = make(name).train(), batch_of(name, batch)
    weights = [value for key, value in net.named_parameters() if value.dim() > 1]
    if how == "channels_last":
        net, data = (x.to(memory_format=torch.channels_last) for x in (net, data))
    run = torch.compile(net) if how == "compile" else net

    def step():
        net.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            scores = run(data)
        scores = scores.float()
        functional.cross_entropy(scores, labels, reduction="sum").backward()
        return scores

    scores = step()
    write(path, [torch.softmax(scores, 1).detach(), weights[0].grad, weights[-1].grad])
    return measure(step, repetitions, batch)


def exported(net, data, folder):
    path = os.path.join(folder, "net.onnx")
    torch.onnx.export(net, (data,), path, input_names=["data"], dynamo=False)
    return path


def predictor(how, net, data, threads, folder):
    if how == "frozen":
        with torch.no_grad():
            traced = torch.jit.freeze(torch.jit.trace(
                net.to(memory_format=torch.channels_last),
                data.to(memory_format=torch.channels_last)))
        data = data.to(memory_format=torch.channels_last)
        return lambda: traced(data)
    if how == "compiled":
        from torch._inductor import config
        config.freezing = True
        run = torch.compile(net)
        return lambda: run(data)
    path, array = exported(net, data, folder), data.numpy()
    if how == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, {"data": array})[0]
    import openvino
    model = openvino.Core().compile_model(path, "CPU", {
        "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32"})
    request = model.create_infer_request()
    return lambda: request.infer({"data": array})[model.output(0)]


def predict(how, name, batch, threads, repetitions, path):
    net, (data, _) = make(name).eval(), batch_of(name, batch)
    with tempfile.TemporaryDirectory() as folder, torch.inference_mode(how != "compiled"):
        with torch.no_grad():
            run = predictor(how, net, data, threads, folder)
            scores = torch.as_tensor(numpy.asarray(run()))
            write(path, [torch.softmax(scores, 1)])
            return measure(run, repetitions, batch)


def main():
    how, name, path = sys.argv[1], sys.argv[2], sys.argv[6]
    batch, threads, repetitions = (int(number) for number in sys.argv[3:6])
    torch.set_num_threads(threads)
    if how.removeprefix("bf16-") in ("eager", "channels_last", "compile"):
        print_row(f"{name} train", train(how, name, batch, repetitions, path))
    else:
        print_row(f"{name} predict", predict(how, name, batch, threads, repetitions, path))


if __name__ == "__main__":
    main()

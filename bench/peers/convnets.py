# SPDX-License-Identifier: Apache-2.0
"""The networks of symbol/networks, once more: `build(name, layers)` adds the layers of one to a
builder of any library (torch_convnets.py, mxnet_convnets.py), under the same names, and gives its
scores. Weights are a formula of their names, so that nothing has to be copied; dropout is left out.

A builder has: data(), convolution(name, x, filters, kernel, stride, pad, groups, bias),
batch_norm(name, x, eps), relu(name, x), relu6(name, x), max_pool(name, x, kernel, stride, pad,
full), average_pool(...), global_average(name, x), flatten(name, x), dense(name, x, units),
add(name, a, b), concat(name, parts); `classes` is how many scores are wanted.
"""
import zlib

EPS = 1e-5
# Others have SMALL_IMAGE or PHOTOGRAPH.
IMAGES = {"deep-mlp": (64,), "mlp": (1, 28, 28), "lenet": (1, 28, 28), "overfeat": (3, 231, 231)}
SMALL_IMAGE, PHOTOGRAPH = (3, 32, 32), (3, 224, 224)
# Residual networks for small images: units of a stage, widening, form.
SMALL_RESNETS = {"resnet20": (3, 1, "v1"), "resnet56": (9, 1, "v1"), "resnet110": (18, 1, "v1"),
                 "wide-resnet10-2": (1, 2, "v2"), "wide-resnet10-4": (1, 4, "v2"),
                 "wide-resnet16-4": (2, 4, "v2"), "wide-resnet28-10": (4, 10, "v2")}


def image_of(name):
    return IMAGES.get(name, SMALL_IMAGE if name in SMALL_RESNETS else PHOTOGRAPH)


def classes_of(name):
    if name == "deep-mlp":
        return 64
    return 10 if name in ("mlp", "lenet") or name in SMALL_RESNETS else 1000


def stream_of(name):
    """Number of the stream that the values of array `name` are drawn from (timing.formula)."""
    return zlib.crc32(name.encode())


def values_of(numpy, formula, name, shape):
    """First values of a parameter or state by its name: weights uniform by their inputs (He et al.
    2015), scales 0.5, variances 1, all else 0."""
    if name.endswith("_weight"):
        fan_in = int(numpy.prod(shape)) / shape[0]
        return formula(numpy, stream_of(name), shape, (6.0 / fan_in) ** 0.5)
    constant = 0.5 if name.endswith("_gamma") else 1.0 if name.endswith("_var") else 0.0
    return numpy.full(shape, constant, numpy.float32)


def plain(b, layers):
    """"C64,11,4,2" convolution (filters, kernel, stride, pad) and relu; "MP3,2" max pool;
    "FC4096" fully connected, all but the last ("FC") with relu."""
    x, counts, flat = b.data(), {}, False

    def number(kind):
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}{counts[kind]}"

    for layer in layers.split():
        kind = layer.rstrip("0123456789,")
        sizes = [int(size) for size in layer[len(kind):].split(",") if size]
        if kind == "C":
            sizes += [1, 0][len(sizes) - 2:]
            x = b.convolution(number("conv"), x, *sizes, bias=True)
            x = b.relu(number("relu"), x)
        elif kind == "MP":
            x = b.max_pool(number("pool"), x, *sizes)
        else:
            if not flat:
                x, flat = b.flatten("flatten", x), True
            x = b.dense(number("fc"), x, *(sizes or [b.classes]))
            if sizes:
                x = b.relu(number("relu"), x)
    return x


def vgg(b, counts):
    filters, layers = 64, []
    for count in counts:
        layers += [f"C{filters},3,1,1"] * count + ["MP2,2"]
        filters = min(2 * filters, 512)
    return plain(b, " ".join(layers) + " FC4096 FC4096 FC")


def googlenet(b):
    def layer(name, x, filters, kernel=1, stride=1, pad=0):
        x = b.convolution(name, x, filters, kernel, stride, pad, bias=True)
        return b.relu(f"{name}_relu", x)

    x = b.max_pool("pool1", layer("conv1", b.data(), 64, 7, 2, 3), 3, 2, 1)
    x = layer("conv2", layer("conv2_reduce", x, 64), 192, 3, 1, 1)
    x = b.max_pool("pool2", x, 3, 2, 1)
    for module in ("3a 64 96 128 16 32 32|3b 128 128 192 32 96 64|pool3|4a 192 96 208 16 48 64|"
                   "4b 160 112 224 24 64 64|4c 128 128 256 24 64 64|4d 112 144 288 32 64 64|"
                   "4e 256 160 320 32 128 128|pool4|5a 256 160 320 32 128 128|"
                   "5b 384 192 384 48 128 128").split("|"):
        if module.startswith("pool"):
            x = b.max_pool(module, x, 3, 2, 1)
            continue
        name, *sizes = module.split()
        name = f"in{name}"
        one, reduce3, three, reduce5, five, projection = map(int, sizes)
        first = layer(f"{name}_1x1", x, one)
        second = layer(f"{name}_3x3", layer(f"{name}_3x3_reduce", x, reduce3), three, 3, 1, 1)
        third = layer(f"{name}_5x5", layer(f"{name}_5x5_reduce", x, reduce5), five, 5, 1, 2)
        pool = b.max_pool(f"{name}_pool", x, 3, 1, 1)
        x = b.concat(name, [first, second, third, layer(f"{name}_pool_proj", pool, projection)])
    return b.dense("fc1", b.global_average("global_pool", x), b.classes)


def inception_bn(b):
    def layer(name, x, filters, kernel=1, stride=1, pad=0):
        x = b.convolution(name, x, filters, kernel, stride, pad)
        return b.relu(f"{name}_relu", b.batch_norm(f"{name}_bn", x, EPS))

    x = b.max_pool("pool1", layer("conv1", b.data(), 64, 7, 2, 3), 3, 2, full=True)
    x = layer("conv2", layer("conv2_reduce", x, 64), 192, 3, 1, 1)
    x = b.max_pool("pool2", x, 3, 2, full=True)
    for module in ("3a 64 64 64 64 96 avg 32|3b 64 64 96 64 96 avg 64|3c 0 128 160 64 96 max 0|"
                   "4a 224 64 96 96 128 avg 128|4b 192 96 128 96 128 avg 128|"
                   "4c 160 128 160 128 160 avg 128|4d 96 128 192 160 192 avg 128|"
                   "4e 0 128 192 192 256 max 0|5a 352 192 320 160 224 avg 128|"
                   "5b 352 192 320 192 224 max 128").split("|"):
        name, one, reduce3, three, reduced, double, kind, projection = module.split()
        name, one, projection = f"in{name}", int(one), int(projection)
        stride = 1 if one else 2
        parts = [layer(f"{name}_1x1", x, one)] if one else []
        part = layer(f"{name}_3x3_reduce", x, int(reduce3))
        parts.append(layer(f"{name}_3x3", part, int(three), 3, stride, 1))
        part = layer(f"{name}_double_3x3_reduce", x, int(reduced))
        part = layer(f"{name}_double_3x3_0", part, int(double), 3, 1, 1)
        parts.append(layer(f"{name}_double_3x3_1", part, int(double), 3, stride, 1))
        pool = b.average_pool if kind == "avg" else b.max_pool
        part = pool(f"{name}_pool", x, 3, stride, 1)
        parts.append(layer(f"{name}_pool_proj", part, projection) if one else part)
        x = b.concat(name, parts)
    return b.dense("fc1", b.global_average("global_pool", x), b.classes)


def residual_unit(b, x, name, convolutions, projection, before):
    """`convolutions`: (filters, kernel, stride) in order; `before`: normalised before, not after;
    `projection`: stride of a shortcut by convolution, or 0."""
    shortcut, y, filters = x, x, convolutions[-1][0]
    for i, (count, kernel, stride) in enumerate(convolutions, 1):
        if before:
            y = b.relu(f"{name}_relu{i}", b.batch_norm(f"{name}_bn{i}", y, EPS))
            if i == 1 and projection:
                shortcut = b.convolution(f"{name}_proj", y, filters, 1, projection, 0)
        elif i > 1:
            y = b.relu(f"{name}_relu{i - 1}", y)
        y = b.convolution(f"{name}_conv{i}", y, count, kernel, stride, kernel // 2)
        if not before:
            y = b.batch_norm(f"{name}_bn{i}", y, EPS)
    if before:
        return b.add(f"{name}_add", y, shortcut)
    if projection:
        shortcut = b.convolution(f"{name}_proj", x, filters, 1, projection, 0)
        shortcut = b.batch_norm(f"{name}_proj_bn", shortcut, EPS)
    return b.relu(f"{name}_relu", b.add(f"{name}_add", y, shortcut))


def resnet(b, units, bottleneck, form):
    x = b.convolution("conv1", b.data(), 64, 7, 2, 3)
    x = b.max_pool("pool1", b.relu("relu1", b.batch_norm("bn1", x, EPS)), 3, 2, 1)
    return residual_stages(b, x, units, 64, 64, bottleneck, form)


def small_resnet(b, units, widening, form):
    x = b.convolution("conv1", b.data(), 16, 3, 1, 1)
    if form == "v1":
        x = b.relu("relu1", b.batch_norm("bn1", x, EPS))
    return residual_stages(b, x, (units,) * 3, 16, 16 * widening, False, form)


def residual_stages(b, x, units, inputs, filters, bottleneck, form):
    for stage, count in enumerate(units, 1):
        outputs = 4 * filters if bottleneck else filters
        for unit in range(1, count + 1):
            stride = 2 if stage > 1 and unit == 1 else 1
            if bottleneck:
                first, second = (stride, 1) if form == "v1" else (1, stride)
                convolutions = [(filters, 1, first), (filters, 3, second), (outputs, 1, 1)]
            else:
                convolutions = [(filters, 3, stride), (filters, 3, 1)]
            projection = stride if stride > 1 or inputs != outputs else 0
            x = residual_unit(b, x, f"stage{stage}_unit{unit}", convolutions, projection,
                              form == "v2")
            inputs = outputs
        filters *= 2
    if form == "v2":
        x = b.relu("relu_last", b.batch_norm("bn_last", x, EPS))
    return b.dense("fc1", b.global_average("global_pool", x), b.classes)


def mobilenet_v2(b):
    def layer(name, x, filters, kernel=1, stride=1, pad=0, groups=1):
        x = b.convolution(name, x, filters, kernel, stride, pad, groups)
        return b.batch_norm(f"{name}_bn", x, EPS)

    def clipped(name, x, *sizes):
        return b.relu6(f"{name}_relu6", layer(name, x, *sizes))

    x, inputs, number = clipped("conv1", b.data(), 32, 3, 2, 1), 32, 0
    for expansion, outputs, units, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                             (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                             (6, 320, 1, 1)):
        for unit in range(units):
            number += 1
            name, stride, middle = f"block{number}", 1 if unit else first, expansion * inputs
            y = clipped(f"{name}_expand", x, middle) if expansion > 1 else x
            y = clipped(f"{name}_depthwise", y, middle, 3, stride, 1, middle)
            y = layer(f"{name}_project", y, outputs)
            x = b.add(f"{name}_add", x, y) if stride == 1 and inputs == outputs else y
            inputs = outputs
    x = clipped("conv2", x, 1280)
    return b.dense("fc1", b.global_average("global_pool", x), b.classes)


UNITS = {"18": (2, 2, 2, 2), "34": (3, 4, 6, 3), "50": (3, 4, 6, 3), "101": (3, 4, 23, 3),
         "152": (3, 8, 36, 3), "200": (3, 24, 36, 3)}


def build(name, b):
    if name == "deep-mlp":  # measured_network.h
        x = b.data()
        for i in range(1, 21):
            x = b.relu(f"relu{i}", b.dense(f"fc{i}", x, 64))
        return x
    if name == "mlp":
        return plain(b, "FC128 FC64 FC")
    if name == "lenet":
        return plain(b, "C20,5 MP2,2 C50,5 MP2,2 FC500 FC")
    if name == "alexnet":
        return plain(b, "C64,11,4,2 MP3,2 C192,5,1,2 MP3,2 C384,3,1,1 C256,3,1,1 C256,3,1,1 MP3,2 "
                        "FC4096 FC4096 FC")
    if name == "overfeat":
        return plain(b, "C96,11,4 MP2,2 C256,5 MP2,2 C512,3,1,1 C1024,3,1,1 C1024,3,1,1 MP2,2 "
                        "FC3072 FC4096 FC")
    if name.startswith("vgg"):
        return vgg(b, {"vgg-a": (1, 1, 2, 2, 2), "vgg16": (2, 2, 3, 3, 3),
                       "vgg19": (2, 2, 4, 4, 4)}[name])
    if name in SMALL_RESNETS:
        return small_resnet(b, *SMALL_RESNETS[name])
    if name.startswith("resnet"):
        depth, _, form = name[len("resnet"):].partition("-")
        return resnet(b, UNITS[depth], int(depth) >= 50, form or "v1")
    return {"googlenet": googlenet, "inception-bn": inception_bn,
            "mobilenet-v2": mobilenet_v2}[name](b)

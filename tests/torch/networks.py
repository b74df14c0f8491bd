#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps through a built-in network, ours and PyTorch's, of the same values.

networks.py inputs NETWORK SIDE DRAW FILE
    Writes a batch of 2, labels, parameters and states (safetensors, f64) for torch_networks.
    SIDE: height and width of the images; 0: as the network was made for. DRAW: which images, 0 and
    up; the weights are the same. The networks are those of bench/peers/convnets.py.
networks.py compare NETWORK f64|f32|winograd INPUTS RESULTS [INPUTS RESULTS ...]
    Compares what torch_networks wrote, a pair of files for each draw, with PyTorch's f64; exit 1
    where it is too far. f64: the prediction, the step's probabilities and all gradients within
    1e-9. f32: each tensor at most twice as far as PyTorch's own f32, or 1e-5 where that is more;
    winograd: at most five times.
    All by the Euclidean norm, of several draws by the root of the mean square.

ReLU, clipping and maximum pooling have kinks: a unit that is zero but for rounding, or two inputs
of a window that are equal but for rounding, get another gradient with every way to round, and one
such unit is a thousand times as much as all rounding together. So each f32 gradient is compared
with the f64 gradient of the pieces that the f32 run was on: f64 takes its signs and its maxima.
How many differ from f64's own is counted, and may be at most twice as many as PyTorch's, and ten.
"""
import sys

import numpy as np
import torch
from torch import nn
from torch.nn import functional

import convnets
import torch_convnets
from safetensors_file import read_safetensors, write_safetensors
from timing import formula

BATCH = 2
NOISE = 1e-14  # of the norm of all gradients: rounding of those that are zero by mathematics
SINGLE_NOISE = 1e-7  # the same for f32
EXACT, SINGLE, PEERS = 1e-9, 1e-5, {"f32": 2.0, "winograd": 5.0}
OTHERWISE, SOME = 2, 10  # units decided otherwise: times PyTorch's, and more
VALUE, SLOPE = "value.", "slope."  # + layer: what a ReLU or clipping took or gave, and its slope


class DecidedReLU(nn.Module):
    """ReLU or ReLU6 on the pieces where another run had these slopes and values."""

    def __init__(self, slopes, values, top):
        super().__init__()
        self.slopes = slopes
        self.beyond = top * ((slopes == 0) & (values >= top)).double() if top < np.inf else 0.0

    def forward(self, x):
        return x * self.slopes + self.beyond


class DecidedMaxPool(nn.Module):
    """Maximum pooling that takes the elements at `places` of each plane."""

    def __init__(self, places):
        super().__init__()
        self.places = places

    def forward(self, x):
        return x.flatten(2).gather(2, self.places.flatten(2)).view(self.places.shape)


def layers_of(net, *kinds):
    """(name, module) of these kinds."""
    return [(name, module) for name, module in net.named_modules() if isinstance(module, kinds)]


def top_of(module):
    return 6 if isinstance(module, nn.ReLU6) else np.inf


def places_of(net, data, decisions):
    """`net` of f64: where the windows' maxima are in the run that `decisions` are of, by layer.
    Every maximum pooling of these networks reads outputs of ReLUs, through others and concats."""
    places = {}

    def find(name, pool, x):
        places[name] = functional.max_pool2d(x, pool.kernel_size, pool.stride, pool.padding,
                                             ceil_mode=pool.ceil_mode, return_indices=True)[1]

    hooks = []
    for name, module in layers_of(net, nn.ReLU, nn.ReLU6):
        given = torch.from_numpy(decisions[VALUE + name]).double().clamp(0, top_of(module))
        hooks.append(module.register_forward_hook(lambda *_, given=given: given))
    for name, module in layers_of(net, nn.MaxPool2d):
        hooks.append(module.register_forward_pre_hook(
            lambda module, inputs, name=name: find(name, module, inputs[0])))
    with torch.no_grad():
        net(data)
    for hook in hooks:
        hook.remove()
    return places


def decided(net, data, decisions):
    """`net`, on the pieces that the run was on that `decisions` are of."""
    places = places_of(net.eval(), data, decisions)
    for name, module in layers_of(net.train(), nn.ReLU, nn.ReLU6):
        slopes, values = (torch.from_numpy(decisions[what + name]) for what in (SLOPE, VALUE))
        setattr(net, name, DecidedReLU(slopes, values, top_of(module)))
    for name, _ in layers_of(net, nn.MaxPool2d):
        setattr(net, name, DecidedMaxPool(places[name]))
    return net


def step(net, data, label):
    """Probabilities and gradients of the summed loss, and what each ReLU decided."""
    decisions = {}

    def keep(name, module, output):
        values = output.detach().numpy().copy()
        decisions[VALUE + name] = values
        decisions[SLOPE + name] = ((values > 0) & (values < top_of(module))).astype(values.dtype)

    for name, module in layers_of(net, nn.ReLU, nn.ReLU6):
        module.register_forward_hook(
            lambda module, inputs, output, name=name: keep(name, module, output))
    scores = net(data)
    functional.cross_entropy(scores, label, reduction="sum").backward()
    tensors = {"probabilities": torch.softmax(scores, 1).detach()}
    for name, value in torch_convnets.named_values(net):
        if value.grad is not None:
            tensors[f"{name}.grad"] = value.grad
    return {name: value.double().numpy() for name, value in tensors.items()}, decisions


def prediction(net, data):
    with torch.no_grad():
        return torch.softmax(net.eval()(data), 1).double().numpy()


def differences(net, data, decisions, exact):
    """Units that two runs have on other sides, and windows whose maximum is elsewhere."""
    count = sum(int((decisions[key] != exact[key]).sum()) for key in exact
                if key.startswith(SLOPE))
    ours, theirs = (places_of(net.eval(), data, x) for x in (decisions, exact))
    return count + sum(int((ours[name] != theirs[name]).sum()) for name in ours)


def inputs(name, side, draw, path):
    shape = convnets.image_of(name)
    if side:
        shape = (shape[0], side, side)
    stream = convnets.stream_of(f"data{draw}" if draw else "data")
    tensors = {"data": formula(np, stream, (BATCH, *shape), 1.0),
               "label": np.arange(BATCH) * 7 % convnets.classes_of(name)}
    for key, value in torch_convnets.named_values(torch_convnets.make(name, shape)):
        tensors[key] = value.detach().numpy()
    write_safetensors(path, {key: value.astype(np.float64) for key, value in tensors.items()})


class Distances:
    """Squares of norms by tensor, summed over draws: of f64, and how far a run is from it."""

    def __init__(self):
        self.sizes, self.far = {}, {}

    def add(self, results, exact):
        if results.keys() != exact.keys():
            sys.exit(f"tensors differ: {sorted(results.keys() ^ exact.keys())}")
        for key, value in exact.items():
            far = np.linalg.norm(results[key].ravel() - value.ravel())
            self.sizes[key] = self.sizes.get(key, 0.0) + np.linalg.norm(value) ** 2
            self.far[key] = self.far.get(key, 0.0) + far ** 2


def compare(name, how, files):
    ours, theirs, otherwise = Distances(), Distances(), [0, 0]
    for inputs_path, results_path in zip(files[::2], files[1::2]):
        given, found = read_safetensors(inputs_path), read_safetensors(results_path)
        data, label = torch.from_numpy(given["data"]), torch.from_numpy(given["label"]).long()
        shape = tuple(data.shape[1:])

        predicted = prediction(torch_convnets.make(name, shape).double(), data)

        def exact(decisions=None):
            net = torch_convnets.make(name, shape).double().train()
            tensors, own = step(decided(net, data, decisions) if decisions else net, data, label)
            return tensors | {"prediction": predicted}, own

        decisions = {key: value for key, value in found.items() if key.startswith((VALUE, SLOPE))}
        results = {key: value for key, value in found.items() if key not in decisions}
        if how == "f64":
            ours.add(results, exact()[0])
            continue
        single, their_decisions = step(torch_convnets.make(name, shape).train(), data.float(),
                                       label)
        single["prediction"] = prediction(torch_convnets.make(name, shape), data.float())
        ours.add(results, exact(decisions)[0])
        theirs.add(single, exact(their_decisions)[0])
        net, f64s = torch_convnets.make(name, shape).double(), exact()[1]
        for i, taken in enumerate((decisions, their_decisions)):
            otherwise[i] += differences(net, data, taken, f64s)
    gradients = sum(x for key, x in ours.sizes.items() if key.endswith(".grad")) ** 0.5
    noise = (NOISE if how == "f64" else SINGLE_NOISE) * gradients
    worst, worst_name, bad = 0.0, "", 0
    for key, square in ours.far.items():
        size, far = ours.sizes[key] ** 0.5, square ** 0.5
        if how == "f64":
            limit = max(noise, EXACT * size)
        else:
            limit = max(noise, SINGLE * size, PEERS[how] * theirs.far[key] ** 0.5)
        if not far / limit <= worst:
            worst, worst_name = far / limit, key
        if not far <= limit:
            bad += 1
            print(f"{name} {key}: {far:.2e} from PyTorch's f64 of {size:.2e}, at most {limit:.2e} "
                  "is allowed")
    text = (f"{name} {how}: {len(ours.far)} tensors, worst {worst:.2g} of what is allowed "
            f"({worst_name})")
    if how != "f64":
        text += f"; units decided otherwise than by f64: {otherwise[0]}, by PyTorch {otherwise[1]}"
    print(text, flush=True)
    if otherwise[0] > OTHERWISE * otherwise[1] + SOME:
        bad += 1
        print(f"{name} {how}: too many units are decided otherwise")
    return 1 if bad else 0


def main():
    if sys.argv[1] == "inputs":
        return inputs(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    return compare(sys.argv[2], sys.argv[3], sys.argv[4:])


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""MXNet's half of the comparison with Troupe by symbol files (mxnet 1.9.1); see mxnet_files.cc.

mxnet_side.py calls FOLDER | network FOLDER SHAPE | export MODEL FOLDER | again FOLDER
    calls: loads the calls that Troupe saved and compares what both compute; those of operators
        that only Troupe has must be refused
    network: loads FOLDER/symbol.json, a network that Troupe saved, and writes what it computes of
        data of SHAPE (4,1,28,28)
    export: exports MODEL of Gluon's model zoo, or `decoder`, with random weights; the file as it
        is goes to FOLDER/predict, and without dropout to FOLDER/train, each with what MXNet
        computes
    again: loads the again.json that Troupe made of these files and compares
"""
import json
import os
import struct
import sys
from pathlib import Path

os.environ["MXNET_SUBGRAPH_VERBOSE"] = "0"
os.environ["MXNET_STORAGE_FALLBACK_LOG_VERBOSE"] = "0"

import mxnet as mx  # noqa: E402
import numpy as np  # noqa: E402
from mxnet.gluon.model_zoo import vision  # noqa: E402

DTYPES = {"F64": np.float64, "F32": np.float32, "I64": np.int64, "I32": np.int32, "U8": np.uint8}
# MXNet keeps numbers such as eps and scalars in 32 bits.
CALL_BOUND = 2e-6
# Calls with shapes that MXNet refuses, or in f64, which its LRN lacks.
NARROWER = {"broadcast_like 'row'", "softmax_output 'flattened classes'", "pad 'every axis'",
            "lrn 'five channels'", "lrn 'another exponent'", "lrn 'more than there are'",
            "lrn 'whole vectors of channels'"}
# Calls that MXNet reads and computes otherwise: it has no use_ignore there and reads over it; it
# ignores smooth_alpha beside multi_output, and dilate where deconvolution runs in f64; its
# gradients take the output for data (selu) or its sign for data's (slopes below 0).
DIFFERENT = {"softmax_cross_entropy 'ignored label'",
             "softmax_output 'positions of a sample in one axis'",
             "deconvolution 'bias, dilated, one position more'", "leaky_relu 'selu'",
             "leaky_relu 'leaky, a slope below 0'", "leaky_relu 'elu, a slope below 0'"}
AGAIN_BOUND = 1e-12


def read_safetensors(path):
    raw = Path(path).read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = np.frombuffer(raw[begin:end], DTYPES[entry["dtype"]])
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, array in tensors.items():
        dtype = {np.dtype(kind): code for code, kind in DTYPES.items()}[array.dtype]
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())


def of_kind(tensors, kind):
    return {name.split(":", 1)[1]: value for name, value in tensors.items()
            if name.startswith(kind + ":")}


def array(value):
    return mx.nd.array(value, dtype=value.dtype)


def run(symbol, tensors, wanted):
    """predict:, train:, grad: and state: from arg:, aux: and head: of `tensors`."""
    arguments = {name: array(value) for name, value in of_kind(tensors, "arg").items()}
    gradients = {name: mx.nd.zeros(arguments[name].shape, dtype=arguments[name].dtype)
                 for name in wanted}
    states = {name: array(value) for name, value in of_kind(tensors, "aux").items()}
    bound = symbol.bind(mx.cpu(), arguments, args_grad=gradients, aux_states=states,
                        grad_req={name: "write" if name in wanted else "null"
                                  for name in arguments})
    results = {}
    for kind in ("predict", "train"):
        bound.forward(is_train=kind == "train")
        for i, output in enumerate(bound.outputs):
            results[f"{kind}:{i}"] = output.asnumpy()
    if wanted:
        heads = of_kind(tensors, "head")
        # Losses, which have no head gradient in Troupe, have ones.
        bound.backward([array(heads[str(i)].reshape(output.shape)) if str(i) in heads
                        else mx.nd.ones(output.shape, dtype=output.dtype)
                        for i, output in enumerate(bound.outputs)])
        for name, value in gradients.items():
            results[f"grad:{name}"] = value.asnumpy()
        for name, value in states.items():
            results[f"state:{name}"] = value.asnumpy()
    return results


def distance(ours, theirs):
    """The largest difference, as a share of the largest value; shapes may differ in ones."""
    if ours.size != theirs.size:
        return float("inf")
    a, b = (x.astype(np.float64).ravel() for x in (ours, theirs))
    if a.size == 0:
        return 0.0
    found = np.abs(a - b).max() / max(np.abs(b).max(), 1e-300)
    return float("inf") if np.isnan(found) else found


def check_call(stem):
    """One call: (operator, what is wrong with it or None)."""
    tensors, metadata = read_safetensors(f"{stem}.safetensors")
    name = metadata["operator"]
    label = f"{name} '{metadata['title']}'"
    own = metadata["own"] == "yes" or label in NARROWER
    try:
        symbol = mx.sym.load(f"{stem}.json")
        if any(value.ndim == 0 for value in of_kind(tensors, "arg").values()):
            return name, None  # MXNet's arrays have axes; the file is read
        theirs = run(symbol, tensors, list(of_kind(tensors, "grad")))
    except mx.MXNetError as fault:
        lines = [line for line in str(fault).splitlines() if line.strip()]
        return name, None if own else f"{label}: MXNet refuses it: {lines[-1]}"
    if own:
        return name, f"{label}: MXNet has it, too"
    wrong = []
    for kind in ("predict", "train", "grad", "state"):
        for key, value in of_kind(tensors, kind).items():
            found = distance(value, theirs[f"{kind}:{key}"])
            if metadata["random"] == "yes":
                found = float(value.shape != theirs[f"{kind}:{key}"].shape)
            if found > CALL_BOUND:
                wrong.append(f"{kind} {key} {found:.1e}")
    if label in DIFFERENT:
        return name, None if wrong else f"{label}: does not differ any more"
    return name, f"{label}: differs: {', '.join(wrong)}" if wrong else None


def calls(folder):
    stems = sorted((path.with_suffix("") for path in Path(folder).glob("*.json")),
                   key=lambda stem: int(stem.name))
    names, faults = set(), []
    for stem in stems:
        name, fault = check_call(stem)
        names.add(name)
        if fault:
            faults.append(fault)
    print(f"{len(stems)} calls of {len(names)} operators, {len(faults)} faults")
    for fault in faults:
        print(" ", fault)
    return not faults and len(stems) > 0


def random_results(symbol, shapes):
    """Random arrays for everything that `symbol` needs, and what MXNet computes from them."""
    rng = np.random.default_rng(5)
    argument_shapes, _, state_shapes = symbol.infer_shape(**shapes)
    tensors = {}
    for name, shape in zip(symbol.list_arguments(), argument_shapes):
        if name.endswith("label"):
            value = rng.integers(0, 10, shape).astype(np.float64)
        elif name == "data":
            value = rng.uniform(0, 1, shape)
        elif name.endswith("gamma"):
            value = rng.uniform(0.5, 1.5, shape)
        else:  # as Xavier's, so that values keep their size through many layers
            value = rng.uniform(-1, 1, shape) * np.sqrt(3 / max(np.prod(shape[1:]), 1))
        tensors[f"arg:{name}"] = value
    for name, shape in zip(symbol.list_auxiliary_states(), state_shapes):
        tensors[f"aux:{name}"] = rng.uniform(0.5, 1.5, shape)
    return tensors, rng


def write_results(symbol, shapes, folder, loss):
    tensors, rng = random_results(symbol, shapes)
    wanted = [name for name in symbol.list_arguments()
              if name != "data" and not name.endswith("label")]
    if not loss:
        _, outputs, _ = symbol.infer_shape(**shapes)
        for i, shape in enumerate(outputs):
            tensors[f"head:{i}"] = rng.uniform(-1, 1, shape)
    tensors.update(run(symbol, tensors, wanted))
    folder.mkdir(parents=True, exist_ok=True)
    write_safetensors(folder / "mxnet.safetensors", tensors)


class Decoder(mx.gluon.HybridBlock):
    """What the zoo lacks: an image smaller and larger again, by the layers of such networks. Not
    PReLU: behind a convolution MXNet's gradient of its slopes is wrong."""
    def __init__(self):
        super().__init__()
        nn = mx.gluon.nn
        with self.name_scope():
            self.layers = nn.HybridSequential()
            self.layers.add(nn.ReflectionPad2D(2), nn.Conv2D(8, 5, strides=2), nn.ELU(0.5),
                            nn.Conv2DTranspose(4, 4, strides=2, padding=1, groups=2, in_channels=8),
                            nn.GELU(),
                            nn.Conv2DTranspose(6, 3, strides=2, output_padding=1, use_bias=False),
                            nn.LeakyReLU(0.1))

    def hybrid_forward(self, F, x):
        value, gate = F.split(self.layers(x), num_outputs=2, axis=1)
        x = F.UpSampling(value * F.Activation(gate, act_type="softrelu"), scale=2,
                         sample_type="nearest")
        x = F.pad(x, mode="edge", pad_width=(0, 0, 0, 0, 1, 0, 2, 3))
        return F.expand_dims(F.transpose(x, axes=(0, 2, 3, 1)), axis=1)


def export(model, folder):
    """Both forms of a model of the zoo, or of the Decoder."""
    network = (Decoder() if model == "decoder"
               else vision.get_model(model, pretrained=False, classes=10))
    network.initialize()
    network.hybridize()
    shape = (2, 3, 224, 224)
    network(mx.nd.zeros(shape))
    folder.mkdir(parents=True)
    network.export(str(folder / model))
    text = (folder / f"{model}-symbol.json").read_text()
    plain = json.loads(text)
    for node in plain["nodes"]:
        if node["op"] == "Dropout":
            node["attrs"]["p"] = "0"
    for name, content in (("predict", text), ("train", json.dumps(plain))):
        (folder / name).mkdir()
        (folder / name / "symbol.json").write_text(content)
    symbol = mx.sym.load_json(json.dumps(plain))
    write_results(symbol, {"data": shape}, folder / "train", False)
    results, _ = read_safetensors(folder / "train" / "mxnet.safetensors")
    kept = ("arg:", "aux:", "predict:")
    write_safetensors(folder / "predict" / "mxnet.safetensors",
                      {name: value for name, value in results.items() if name.startswith(kept)})


def again(folder):
    """What Troupe made of a file computes the same."""
    tensors, _ = read_safetensors(folder / "mxnet.safetensors")
    symbol = mx.sym.load(str(folder / "again.json"))
    results = run(symbol, tensors, list(of_kind(tensors, "grad")))
    worst = max(distance(value, results[name]) for name, value in tensors.items()
                if name in results)
    print(f"  saved by Troupe, loaded by MXNet: largest difference {worst:.1e}")
    return worst <= AGAIN_BOUND


def main():
    mode, *rest = sys.argv[1:]
    if mode == "calls":
        return calls(rest[0])
    if mode == "network":
        symbol = mx.sym.load(str(Path(rest[0]) / "symbol.json"))
        shape = tuple(int(extent) for extent in rest[1].split(","))
        write_results(symbol, {"data": shape}, Path(rest[0]), True)
        return True
    if mode == "export":
        return export(rest[0], Path(rest[1])) is None
    if mode == "again":
        return again(Path(rest[0]))
    sys.exit(__doc__)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)

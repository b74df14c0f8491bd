# SPDX-License-Identifier: Apache-2.0
"""Writes numpy arrays of f32 and f64 as a safetensors file, for scripts that run a peer."""
import json
import struct

import numpy as np


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, array in tensors.items():
        dtype = {"float32": "F32", "float64": "F64"}[str(array.dtype)]
        header[name] = {"dtype": dtype, "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(np.ascontiguousarray(array).tobytes())

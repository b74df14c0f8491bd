# SPDX-License-Identifier: Apache-2.0
"""Timed repetitions, one JSON line a row as bench/report.h prints it, LeNet's first weights."""
import json
import statistics
import time

KEY_BYTES = [(4 << 10, 300), (256 << 10, 150), (4 << 20, 30), (64 << 20, 9)]  # and repetitions
CHECK_STEP = 20


def measure(function, repetitions, items=1.0, warmup=1):
    """Medians of the clock's and the process's seconds over calls of `function`, by `items`."""
    wall, cpu = [], []
    for i in range(warmup + repetitions):
        begin = time.perf_counter(), time.process_time()
        function()
        end = time.perf_counter(), time.process_time()
        if i >= warmup:
            wall.append((end[0] - begin[0]) / items)
            cpu.append((end[1] - begin[1]) / items)
    return statistics.median(wall), statistics.median(cpu)


def print_row(what, seconds, check=0.0):
    print(json.dumps({"what": what, "seconds": seconds[0], "cpu_seconds": seconds[1],
                      "check": check}), flush=True)


def measure_loop(function, repetitions=5, aim=0.1):
    """As measure, for a function too short to be timed alone: each repetition takes about `aim`."""
    function()
    begin = time.perf_counter()
    function()
    calls = max(1, int(aim / max(time.perf_counter() - begin, 1e-7)))

    def many():
        for _ in range(calls):
            function()

    return measure(many, repetitions, calls)


def formula(numpy, stream, shape, scale):
    """Numbers in [-scale, scale) that bench/lenet_bench.cc draws too."""
    count = int(numpy.prod(shape))
    h = (numpy.arange(1, count + 1, dtype=numpy.uint64) * 2654435761 + stream * 40503) & 0xFFFFFFFF
    h ^= h >> numpy.uint64(15)
    h = (h * 2246822519) & 0xFFFFFFFF
    h ^= h >> numpy.uint64(13)
    unit = h.astype(numpy.float64) / 4294967296.0 * 2.0 - 1.0
    return (scale * unit).astype(numpy.float32).reshape(shape)


def first_weight(numpy, key, shape):
    """LeNet's parameter number `key`: uniform by its inputs, biases 0."""
    if len(shape) == 1:
        return numpy.zeros(shape, numpy.float32)
    fan_in = int(numpy.prod(shape)) / shape[0]
    return formula(numpy, key, shape, (3.0 / fan_in) ** 0.5)

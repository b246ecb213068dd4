"""Counts the calls of the package's Python functions while `load_onnx` reads one Conv.

Run `python tools/count_calls.py`; with `--by module` or `--by function` it lists the most frequent.
"""

import argparse
import collections
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import dml_jax

ROOT = str(Path(dml_jax.__file__).parent)


def counted(function: Callable[[], Any]) -> collections.Counter[tuple[str, str]]:
    """Return how often each function of the package, (module, name), is called by `function`."""
    calls = collections.Counter[tuple[str, str]]()

    def record(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and code.co_name[0] != "<":
            calls[frame.f_code.co_filename[len(ROOT) + 1 :], frame.f_code.co_qualname] += 1

    sys.setprofile(record)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


def one_conv(channels: int, size: int) -> bytes:
    """Return a model of one Conv of an image of `channels`, with a filter and a bias."""
    random = np.random.default_rng(0)
    weights = {"w": random.random((4, channels, 3, 3)), "b": random.random(4)}
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], pads=[1, 1, 1, 1])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, size, size])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, size, size])
    graph = helper.make_graph([node], "one", [x], [y], tensors)
    opset = [helper.make_opsetid("", 21)]
    return helper.make_model(graph, opset_imports=opset, ir_version=10).SerializeToString()


def conv_calls() -> collections.Counter[tuple[str, str]]:
    """Return the calls of `load_onnx` of one Conv, after it has read one of other sizes."""
    dml_jax.load_onnx(one_conv(2, 6))  # declarations of operators are read once
    data = one_conv(3, 8)
    return counted(lambda: dml_jax.load_onnx(data))


def main() -> None:
    """Print the number of calls, and the most frequent."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--by", choices=("module", "function"))
    parser.add_argument("--most", type=int, default=40)
    options = parser.parse_args()
    calls = conv_calls()
    print(f"{sum(calls.values())} calls of {len(calls)} functions")  # noqa: T201
    grouped = collections.Counter[str]()
    for (module, name), count in calls.items():
        grouped[module if options.by == "module" else f"{module}:{name}"] += count
    listed = grouped.most_common(options.most) if options.by else []
    for name, count in listed:
        print(f"{count:6} {name}")  # noqa: T201


if __name__ == "__main__":
    main()

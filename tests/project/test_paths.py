"""What stays while modules move: public paths, names of modules, versions that calls choose.

`python tests/project/test_paths.py` writes `version_choices.json` again, where choices change on
purpose.
"""

import collections
import importlib
import itertools
import json
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import dml_jax
from dml_jax import DmlError, GraphBuilder, OperatorNode, TensorDesc, facts, functional

ROOT = Path(__file__).parents[2]
VERSIONS = Path(__file__).with_name("version_choices.json")

PUBLIC = (
    *("enums", "errors", "facts", "constraints", "functional", "operators", "operator", "graph"),
    *("description.fields", "description.support", "rewrite", "bench", "pydirectml", "genai"),
    *("onnx", "onnx.backend", "onnxruntime", "onnxruntime.errors", "onnxruntime.capi"),
    *("onnxruntime.capi._pybind_state", "onnxruntime.capi.onnxruntime_inference_collection"),
    *("onnxruntime.capi.onnxruntime_pybind11_state", "onnxruntime.capi.onnxruntime_validation"),
    *("onnxruntime.backend", "onnxruntime.datasets"),
    *("__main__", "onnxruntime.__main__", "pydirectml.__main__", "genai.__main__"),
)
"""The modules that users and their pickles name, and those of `python -m`."""

TWICE = {
    "backend",  # ONNX and ONNX Runtime have a module of this name
    *("call", "enumerations", "errors", "model", "tensor"),
}
"""Names of several modules that are no families of operators; the list may only shrink."""


@pytest.mark.parametrize("path", PUBLIC)
def test_public_modules_stay_where_they_are(path: str):
    if path.startswith(("onnx", "rewrite", "genai")):
        pytest.importorskip("onnx")
    module = importlib.import_module(f"dml_jax.{path}")
    assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))


def test_public_names_stay_where_they_are():
    assert all(hasattr(dml_jax, name) for name in dml_jax.__all__)
    (command,) = metadata.entry_points(group="console_scripts", name="dml-jax")
    assert callable(command.load())


def test_a_name_of_a_module_says_one_thing():
    paths = [p.relative_to(ROOT / "dml_jax") for p in (ROOT / "dml_jax").rglob("*.py")]
    families = {path.stem for path in paths if path.parent.name == "operators"}
    stems = collections.Counter(p.stem for p in paths if not p.stem.startswith("__"))
    assert {s for s, count in stems.items() if count > 1} - families == TWICE


def test_fuzzers_count_the_lines_of_modules_that_are_there():
    text = (ROOT / "tests" / "fuzz" / "fuzz_files.py").read_text()
    paths = re.findall(r'"((?:[a-z_]+/)+[a-z_]+\.py)"', text)
    assert paths and not [path for path in paths if not (ROOT / "dml_jax" / path).exists()]


def calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (function, arguments) of each call, with tensors for arrays."""
    for kind in ("FLOAT32", "INT32", "UINT64"):
        for rank in (1, 3, 4, 5):
            x, spatial = TensorDesc(kind, [4] * rank), max(rank - 2, 0)
            for name, each in _arguments(x, rank, spatial).items():
                yield from ((name, given) for given in each)


def every(**options: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the arguments of calls: each option of each argument with all of the others."""
    return [dict(zip(options, some, strict=True)) for some in product(*options.values())]


def _arguments(x: TensorDesc, rank: int, spatial: int) -> dict[str, list[dict[str, Any]]]:
    """Return the arguments of some calls of each function, for inputs `x`."""
    axes = every(input=[x], axes=[None, [-1], [0], [0, -1]])
    clips = every(input=[x], min=[0, -1.5, -(2**63)], max=[1, 2.5, 2**53 + 1, -2])
    orders = every(input=[x], block_size=[2], order=["DEPTH_COLUMN_ROW", "COLUMN_ROW_DEPTH"])
    windows, twos = {"input": [x], "strides": [[1] * spatial]}, [[2] * spatial]
    windows["dilations"] = [None, [1] * spatial, [2] * spatial]
    modes = {"input": [x], "mode": ["NEAREST_NEIGHBOR", "LINEAR"]}
    scales = {"scales": [2.0] * rank}
    offsets = {"input_pixel_offsets": [0.5] * rank, "output_pixel_offsets": [-0.5] * rank}
    samplings = [{}, scales, offsets | scales, {"rounding_direction": "DECREASING"}]
    scaled = {"scale": x, "bias": x, "fused_activation": "RELU"}
    normalized = every(
        input=[x],
        axes=[[0, 2, 3], [1], [*range(1, rank)]],
        normalize_variance=[True, False],
        normalize_mean=[True, False],
    )
    indices = TensorDesc("UINT32", [*[4] * (rank - 1), 1])
    region = {"input": x, "roi": TensorDesc(x.data_type, [3, 4]), "output_height": 2}
    region |= {"batch_indices": TensorDesc("UINT32", [3]), "output_width": 2}
    return {
        "activation_softmax": axes,
        "activation_hardmax": axes,
        "activation_log_softmax": axes,
        "add": every(a=[x], b=[x], fused_activation=[None, "RELU"]),
        "clip": clips,
        "clip_grad": [{**clip, "input_gradient": x} for clip in clips],
        "depth_to_space": orders,
        "space_to_depth": orders,
        "padding": every(
            input=[x],
            padding_mode=["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC"],
            padding_value=[0, 1.5, 2**53 + 1],
            start_padding=[[1] * rank],
            end_padding=[[0] * rank],
        ),
        "slice": every(
            input=[x],
            input_window_offsets=[[0] * rank],
            input_window_sizes=[[2] * rank],
            input_window_strides=[[1] * rank, [-1] * rank, [2] * rank, None],
        ),
        "top_k": every(input=[x], k=[2], axis=[-1], axis_direction=["DECREASING", "INCREASING"]),
        "gather_nd": every(
            input=[x],
            indices=[indices],
            input_dimension_count=[rank],
            indices_dimension_count=[rank],
            batch_dimension_count=[0, 1],
        ),
        "pow": every(input=[x], exponent=[2, 0.5, x]),
        "average_pooling": every(**windows, window_sizes=twos),
        "lp_pooling": every(**windows, window_size=twos),
        "max_pooling": every(**windows, window_size=twos, output_indices=[False, True]),
        "mean_variance_normalization": [*normalized, *(one | scaled for one in normalized)],
        "resample": [
            one | more
            for one in every(**modes, output_sizes=[[8] * rank])
            for more in (*samplings, {"antialiased": True})
        ],
        "resample_grad": [
            one | more for one in every(**modes, output_sizes=[[2] * rank]) for more in samplings
        ],
        "roi_align": [region, region | {"input_pixel_offset": 0.0}],
    }


def version_of(name: str, given: dict[str, Any]) -> str:
    """Return the number of the version of the operator that a call makes, "-" where it is none."""
    builder, numbers = GraphBuilder(), itertools.count()

    def read(value: Any) -> Any:
        if isinstance(value, TensorDesc):
            return builder.input_tensor(f"x{next(numbers)}", value)
        return value

    try:
        getattr(functional, name)(**{key: read(value) for key, value in given.items()})
    except DmlError:
        return "-"
    nodes = [node for node in builder.nodes if isinstance(node, OperatorNode)]
    return str(facts.functions()[name]["operators"].index(nodes[-1].operator.short_name))


def choices() -> dict[str, str]:
    """Return the versions that the calls choose, a character each, by function."""
    found: dict[str, str] = collections.defaultdict(str)
    for name, given in calls():
        found[name] += version_of(name, given)
    return dict(found)


def test_calls_choose_the_versions_that_they_chose():
    """Of each function that has several: the first one that has the fields, types and ranks."""
    known, found = json.loads(VERSIONS.read_text()), choices()
    several = {n for n, entry in facts.functions().items() if len(entry["operators"]) > 1}
    assert several - known.keys() == {"diagonal_matrix", "multihead_attention"}
    listed = collections.defaultdict(list)
    for name, given in calls():
        listed[name].append(given)
    for name, versions in known.items():
        pairs = zip(listed[name], versions, found[name], strict=True)
        assert [(given, new) for given, old, new in pairs if old != new] == [], name


if __name__ == "__main__":
    VERSIONS.write_text(json.dumps(choices(), indent=1) + "\n")

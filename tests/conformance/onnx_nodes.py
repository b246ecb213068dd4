"""ONNX's backend tests of nodes, each as a network through `load_onnx`.

A test gives everything as an input of its network. What DirectML takes as an attribute (the shape
of a Reshape, the bounds of a Slice) becomes an initializer here, as exporters write it.
"""

import importlib
import pkgutil
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx import numpy_helper
from onnx.backend.test.loader import load_model_tests

from dml_jax import DmlError, load_onnx
from dml_jax.errors import Fault, names_cure
from dml_jax.onnx import Network
from dml_jax.onnx.nodes.op_types import OP_TYPES
from dml_jax.onnx.translate.model_graph import FALLBACK, load_translators

Arrays = list[np.ndarray]

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
PROGRAM = 24  # tests that one program computes


_TWO_UNITS = {"float16": 2**-9, "bfloat16": 2**-6}  # in the last place


@dataclass(frozen=True)
class NodeTest:
    """One of ONNX's tests: a model, and data sets of inputs and outputs."""

    name: str
    op_type: str
    model: onnx.ModelProto
    data_sets: list[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@dataclass
class Outcome:
    """What came of a test: nothing where it is right, else why it cannot run, or what is wrong.

    `by_jax` is why DirectML's operators do not suffice, where JAX's functions compute the rest.
    """

    test: NodeTest
    by_jax: str = ""
    left_out: str = ""
    wrong: str = ""


@dataclass
class _Run:
    """A network with the inputs and answers of one data set."""

    outcome: Outcome
    network: Network
    inputs: dict[str, np.ndarray]
    answers: dict[str, Any] = field(default_factory=dict)

    def compare(self, results: dict[str, Any]) -> None:
        test = self.outcome.test
        try:
            whole = self.network.without_padding(results)
            for name, answer in self.answers.items():
                result = np.asarray(whole[name])
                assert (result.shape, result.dtype) == (answer.shape, answer.dtype)
                rtol, atol = max(test.rtol, _TWO_UNITS.get(answer.dtype.name, 0.0)), test.atol
                if test.op_type == "DFT":  # sums of terms that cancel: a unit of the largest
                    atol = max(atol, float(np.finfo(answer.dtype).eps * np.abs(answer).max()))
                np.testing.assert_allclose(wide(result), wide(answer), rtol=rtol, atol=atol)
        except AssertionError as error:
            self.outcome.wrong = f"{test.name}: {error}"


def wide(array: np.ndarray) -> np.ndarray:
    """Return an array in a type that NumPy computes with."""
    return array if array.dtype.kind in "biufc" else array.astype(np.float32)


def inputs_of(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Return the inputs of a model that are no initializers."""
    initialized = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in initialized]


def array_of(value: Any) -> np.ndarray:
    return np.asarray(
        numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value
    )


def reason(fault: Fault) -> str:
    """Return why a fault leaves a test out; "" where it should not."""
    if fault.rule.startswith(FALLBACK):
        return "a plain function computes it"
    if fault.rule in ("have a type of DirectML", "have a type of JAX"):
        return f"DirectML has no type {fault.value}"
    if fault.field.endswith("DataType") and fault.rule.startswith("be one of"):
        return f"its operator does not take {fault.value}"
    no_tensors = ("be a tensor (", "have outputs that are tensors")
    kinds = ("sequence_type", "optional_type")
    if str(fault.value) in kinds or fault.rule.startswith(no_tensors):
        return "sequences and optionals are no tensors"
    if fault.field == "training_mode" or str(fault.value).startswith(("Bernoulli", "Random")):
        return "the answer is that of NumPy's random numbers"
    if fault.rule == "have sizes that are known at load":
        return "the output's size depends on data"
    if fault.field == "reduction":
        return "DirectML's scatters have no reductions"
    if fault.field == "mode" and fault.rule.startswith("be 'avg'"):
        return "the maximum of a region is of other samples in DirectML"
    if fault.field == "op type":
        return "DirectML has no operator for it"
    return ""


def parameters(error: DmlError, model: onnx.ModelProto) -> set[str]:
    """Return the graph inputs that the faults want as known arrays."""
    wanted = {f.field for f in error.faults if f.rule.startswith("be known at load")}
    opsets = {o.domain: o.version for o in model.opset_import}
    found = set()
    for node in model.graph.node:
        try:
            schema = onnx.defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        except (onnx.defs.SchemaError, KeyError):
            continue
        for name, formal in zip(node.input, schema.inputs, strict=False):
            if formal.name in wanted:
                found.add(name)
    return found


def with_initializers(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> onnx.ModelProto:
    """Return the model with some of its inputs as initializers."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    kept = [value for value in model.graph.input if value.name not in values]
    del result.graph.input[:]
    result.graph.input.extend(kept)
    result.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in values.items())
    return result


def network_of(
    model: onnx.ModelProto, inputs: dict[str, np.ndarray], fallback: bool = False
) -> Network:
    """Return the network of a test, with as few initializers as it needs."""
    fixed: dict[str, np.ndarray] = {}
    known = {value.name: value for value in model.graph.input}
    while True:
        shapes = {
            name: array.shape
            for name, array in inputs.items()
            if name not in fixed and known[name].type.HasField("tensor_type")
        }
        try:
            return load_onnx(with_initializers(model, fixed), shapes, fallback=fallback)
        except DmlError as error:
            more = (parameters(error, model) & set(inputs)) - set(fixed)
            if not more and any(f.rule.startswith("be known at load") for f in error.faults):
                # The inside of a function reads them: sizes and the like are small integers.
                small = {
                    name
                    for name, a in inputs.items()
                    if not a.ndim or (a.ndim == 1 and a.dtype.kind in "iub")
                }
                more = small - set(fixed)
            if not more:
                raise
            fixed |= {name: inputs[name] for name in more}


def _runs(outcome: Outcome) -> list[_Run]:
    """Return the networks of a test: of operators, or else with JAX's functions between them."""
    runs = _runs_of(outcome, False)
    if outcome.left_out:
        reason = outcome.left_out
        outcome.left_out = ""
        runs = _runs_of(outcome, True)
        if runs:
            outcome.by_jax = reason
    return runs


def _runs_of(outcome: Outcome, fallback: bool) -> list[_Run]:
    """Return the networks of a test; none, and the reason, where it is left out."""
    test, runs = outcome.test, []
    graph = test.model.graph
    if OP_TYPES["", test.op_type].is_random:
        outcome.left_out = "the answer is that of NumPy's random numbers"
        return []
    try:
        for given, answers in test.data_sets:
            pairs = zip(inputs_of(test.model), given, strict=False)
            inputs = {
                value.name: array_of(array)
                for value, array in pairs
                if value.type.HasField("tensor_type")
            }
            network = network_of(test.model, inputs, fallback)
            expected = zip([value.name for value in graph.output], answers, strict=True)
            runs.append(
                _Run(
                    outcome,
                    network,
                    {name: inputs[name] for name in network.inputs},
                    {name: array_of(value) for name, value in expected},
                )
            )
    except DmlError as error:
        reasons: dict[Any, str] = {}  # a node may break further rules on top of its reason
        for fault in (one for one in error.faults if not names_cure(one)):
            place = fault.context[:1] or fault.field
            reasons[place] = reasons.get(place) or reason(fault)
        if all(reasons.values()):
            outcome.left_out = next(iter(reasons.values()))
        else:
            outcome.wrong = f"{test.name}: {error}"
        return []
    return runs


def outcomes(tests: Sequence[NodeTest]) -> list[Outcome]:
    """Run tests, many in one program."""
    found = [Outcome(test) for test in tests]
    runs = [run for outcome in found for run in _runs(outcome)]
    for k in range(0, len(runs), PROGRAM):
        _compute(runs[k : k + PROGRAM])
    return found


def computed(networks: Sequence[Network], inputs: Sequence[dict[str, Any]]) -> list[Any]:
    """Return the outputs of networks, as one program that is quickly compiled."""

    def program(all_weights: Any, all_inputs: Any) -> Any:
        triples = zip(networks, all_weights, all_inputs, strict=True)
        return [network.apply(weights, own) for network, weights, own in triples]

    arguments = [network.weights for network in networks], list(inputs)
    return jax.jit(program).lower(*arguments).compile(QUICK)(*arguments)


def _compute(runs: Sequence[_Run]) -> None:
    try:
        results = computed([run.network for run in runs], [run.inputs for run in runs])
    except Exception as error:
        if len(runs) == 1:
            runs[0].outcome.wrong = f"{runs[0].outcome.test.name}: {error}"
        else:
            for run in runs:
                _compute([run])
        return
    for run, result in zip(runs, results, strict=True):
        run.compare(result)


def load(op_types: Iterable[str] | None = None) -> dict[str, list[NodeTest]]:
    """Return ONNX's tests by op type: those of some modules, or all."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the package's own arithmetic on the way
        wanted = None if op_types is None else tuple(t.rpartition(".")[2].lower() for t in op_types)
        for module in pkgutil.iter_modules(node_cases.__path__, f"{node_cases.__name__}."):
            name = module.name.rpartition(".")[2].replace("_", "")
            if wanted is None or name.startswith(wanted):  # "rangeop"
                importlib.import_module(module.name)
    cases = {case.name: case for case in node_cases._NodeTestCases}
    found: dict[str, list[NodeTest]] = {}
    for name, case in sorted(cases.items()):
        plain = cases.get(name.partition("_expanded")[0], case)
        op_type = _op_type_of(plain.model)
        if op_types is None or op_type in op_types:
            sets: Any = case.data_sets
            test = NodeTest(name, op_type, case.model, sets, case.rtol, case.atol)  # pyright: ignore[reportArgumentType]
            found.setdefault(op_type, []).append(test)
    return dict(sorted(found.items()))


def _op_type_of(model: Any) -> str:
    """Return the op type that a test is of: that of its only node, or of its last one."""
    node = model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def sample(tests: Sequence[NodeTest], count: int = 2) -> list[NodeTest]:
    """Return some tests, far from each other in the order of their names."""
    step = max(1, len(tests) // count)
    return list(tests[::step][:count])


@cache
def exported() -> list[NodeTest]:
    """Return ONNX's tests of models that PyTorch exported."""
    found = []
    for test in load_model_tests(kind="pytorch-operator"):
        folder = Path(str(test.model_dir))
        model = onnx.load(folder / "model.onnx")
        sets = []
        for part in sorted(folder.glob("test_data_set_*")):
            arrays = [
                [onnx.load_tensor(part / f"{kind}_{k}.pb") for k in range(len(values))]
                for kind, values in (("input", inputs_of(model)), ("output", model.graph.output))
            ]
            sets.append(tuple(arrays))
        found.append(NodeTest(test.name, _op_type_of(model), model, sets, test.rtol, test.atol))
    return found


def translated() -> set[str]:
    """Return the op types of ONNX's own domain that have a translator."""
    load_translators()
    known = ((*key, record.translators) for key, record in OP_TYPES.items())
    return {op_type for domain, op_type, translators in known if translators and not domain}

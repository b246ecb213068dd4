"""Other libraries that compute what a cell computes, each on the same arrays.

A peer takes a cell and its sets of data, and gives a contender whose calls allocate their outputs,
and the answer for the first set. Its threads sleep while another contender is timed.
"""

import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dml_jax.bench.cells import Cell
from dml_jax.bench.expressions import EXPRESSIONS, NUMPY, RANDOM
from dml_jax.bench.measured_functions import Transformed, as_tuple
from dml_jax.bench.memory import Arrays, contender
from dml_jax.bench.timing import Contender, Mark
from dml_jax.errors import DmlError, Fault, Unquoted, nearest
from dml_jax.graph import Graph
from dml_jax.operator import Operator
from dml_jax.system.processor import cores

SETTLING = 3e-3  # seconds for which OpenMP's threads spin after a call
TOLERANCE = {"float16": 2e-2, "bfloat16": 5e-2, "float32": 2e-4, "float64": 1e-9}

Inputs = Sequence[Arrays]
Found = tuple[Contender, Any]


class UnsupportedError(Exception):
    """The library has no such operator."""


def made_of(function: Any, of: Callable[[Operator], Callable[..., Any]]) -> Callable[..., Any]:
    """Return the function of a cell, made of the functions of its operators.

    Raises `UnsupportedError` where an operator has none.
    """
    match function:
        case Operator():
            return of(function)
        case Transformed():
            return function.of(made_of(function.operator, of))
        case Graph() if not function.constants:
            return _of_graph(function, of)
    raise UnsupportedError(str(function))


def _of_graph(graph: Graph, of: Callable[[Operator], Callable[..., Any]]) -> Callable[..., Any]:
    plan = [(i, of(node.operator), sources) for i, node, sources in graph.plan]  # pyright: ignore

    def call(*xs: Any) -> Any:
        values: dict[int, Any] = {-1: xs}
        for index, node, sources in plan:
            values[index] = as_tuple(node(*(values[n][i] for n, i in sources)))
        return tuple(values[n][i] for n, i in graph.results)

    return call


def expression(op: Operator, xp: Any = jnp) -> Callable[..., Any]:
    """Return the plain expression of an operator, of `jax.numpy` or of a module like NumPy."""
    name = op.short_name
    if name not in EXPRESSIONS or (xp is not jnp and name not in NUMPY):
        raise UnsupportedError(name)
    return EXPRESSIONS[name](op, xp)


def _precision() -> str:
    """Return the precision of products: as ours it is full, unless JAX's setting is another."""
    return jax.config.jax_default_matmul_precision or "highest"  # pyright: ignore


def _jnp(device: Any, cell: Cell, inputs: Inputs) -> Found:
    with jax.default_matmul_precision(_precision()):
        made = contender(made_of(cell.function, expression), inputs, device)
    return made, made.call(0)[0]


def _like_numpy(library: str, device: Any, cell: Cell, inputs: Inputs) -> Found:
    if isinstance(cell.function, Transformed):
        raise UnsupportedError(cell.name)
    xp = importlib.import_module(library)
    function = made_of(cell.function, lambda op: expression(op, xp))
    views = [tuple(map(xp.asarray if xp is np else xp.from_dlpack, xs)) for xs in inputs]
    return _calling(function, views, mark=None if xp is np else cuda_mark(xp))


def cuda_mark(library: Any) -> Callable[[], Mark]:
    """Return the `Contender.mark` of PyTorch or CuPy."""

    def mark() -> Mark:
        event = library.cuda.Event()
        event.record()
        passed = event.query if hasattr(event, "query") else lambda: event.done
        return Mark(passed, event.synchronize)

    return mark


def _calling(function: Any, sets: Sequence[Any], **options: Any) -> Found:
    """Return the contender of eager calls, whose results are kept until the next one."""
    held = [function(*sets[0])]

    def call(index: int) -> None:
        held[0] = function(*sets[index % len(sets)])

    return Contender(call, **options), held[0]


def _torch(compiling: bool, device: Any, cell: Cell, inputs: Inputs) -> Found:
    """Compute PyTorch's functions, which the tests of a checkout name."""
    torch: Any = importlib.import_module("torch")
    on_cpu, functions = device.platform == "cpu", _functions_of_pytorch()
    if not isinstance(cell.function, Operator) or cell.operator not in functions:
        raise UnsupportedError(cell.name)
    torch.set_num_threads(cores())
    torch.set_default_device("cpu" if on_cpu else "cuda")
    is_rounded = _precision() not in ("highest", "float32")
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_rounded
    function: Any = functools.partial(functions[cell.operator], cell.function)
    views = [tuple(map(torch.from_dlpack, xs)) for xs in inputs]
    if compiling:
        torch._dynamo.reset()
        function = torch.compile(function, dynamic=False)
    how: dict[str, Any] = {"settle": SETTLING} if on_cpu else {"mark": cuda_mark(torch)}
    found, results = _calling(function, views, **how)
    answer = [y.detach().cpu().numpy() for y in as_tuple(results)]
    if on_cpu:
        return found, answer
    graph, made = torch.cuda.CUDAGraph(), []  # one graph of all sets; it writes to `made`
    try:
        with torch.cuda.graph(graph):
            made.extend(function(*xs) for xs in views)
    except RuntimeError:  # a function that waits for the device
        torch.cuda.synchronize()
        return found, answer
    return replace(found, call=lambda _: (graph.replay(), made), sets=len(views)), answer


@functools.cache
def _functions_of_pytorch() -> dict[str, Any]:
    """Return what makes PyTorch's function of an operator, by its name."""
    folder = Path(__file__).parents[2] / "tests"
    modules = sorted((folder / "conformance").glob("peers_of_*.py"))
    if not modules:
        rule = "run in a checkout, whose tests name PyTorch's functions"
        raise DmlError([Fault("", "--peers torch", rule, Unquoted("an installed package"))])
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    found = (importlib.import_module(f"conformance.{path.stem}") for path in modules)
    return {name: made for module in found for name, made in module.PEERS.items()}


def session_of(model: Any, optimized: bool = True, spins: bool = True) -> Any:
    """Return ONNX Runtime's session of a model, a file or its bytes, on all cores.

    It is `optimized` or not, and `spins` says whether its threads stay busy between calls.
    """
    ort: Any = importlib.import_module("onnxruntime")
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = cores(), 4
    if not optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    if not spins:
        options.add_session_config_entry("session.force_spinning_stop_between_runs", "1")
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _onnxruntime(device: Any, cell: Cell, inputs: Inputs) -> Found:
    network = getattr(cell.function, "network", None)
    if network is None:
        raise UnsupportedError(cell.name)
    session = session_of(network, spins=False)
    shapes = {one.name: one.shape for one in session.get_inputs()}
    pairs = zip(cell.function.names, map(np.asarray, inputs[0]), strict=False)
    feeds = {n: x if shapes[n] else x.reshape(()) for n, x in pairs}
    return Contender(lambda index: session.run(None, feeds)), session.run(None, feeds)


PEERS: dict[str, Callable[[Any, Cell, Inputs], Found]] = {
    "jnp": _jnp,
    "numpy": functools.partial(_like_numpy, "numpy"),
    "cupy": functools.partial(_like_numpy, "cupy"),
    "torch": functools.partial(_torch, False),
    "torch.compile": functools.partial(_torch, True),
    "onnxruntime": _onnxruntime,
}
PACKAGES = {"jnp": "jax", "torch.compile": "torch"}  # where the name is another one


def check_peer(name: str) -> None:
    """Raise `DmlError` if there is no peer of this name."""
    if name not in PEERS:
        rule = f"be of {', '.join(PEERS)}{nearest(name, PEERS)}"
        raise DmlError([Fault("", "--peers", rule, name)])


def find_peer(name: str, device: Any) -> Callable[[Cell, Inputs], Found]:
    """Return the peer of a name on a device. Raises `DmlError` if the machine has it not."""
    check_peer(name)
    package = PACKAGES.get(name, name)
    try:
        importlib.import_module(package)
    except ImportError as error:
        rule = f"have the package {package} (pip install {package})"
        raise DmlError([Fault("", f"--peers {name}", rule, Unquoted(error))]) from None
    if package == "torch":
        _functions_of_pytorch()
    return functools.partial(PEERS[name], device)


def difference(ours: Sequence[Any], theirs: Any, operator: str = "") -> str:
    """Say how a peer's results differ from ours; an empty string if they do not.

    Random numbers differ always: of them only the sizes are compared.
    """
    pairs = zip(ours, as_tuple(theirs), strict=False)
    for index, (a, b) in enumerate((jnp.asarray(a), jnp.asarray(b)) for a, b in pairs):
        if a.size != b.size:
            return f"output {index} has sizes {list(b.shape)}, not {list(a.shape)}"
        kind, limit = jnp.promote_types(a.dtype, b.dtype), TOLERANCE.get(a.dtype.name, 1e-6)
        a, b = a.astype(kind), b.reshape(a.shape).astype(kind)
        near = (
            jnp.isclose(b, a, limit, limit, True) if jnp.issubdtype(kind, jnp.floating) else a == b
        )
        if operator not in RANDOM and not near.all():
            return f"output {index} differs in {1 - float(near.mean()):.1%} of its elements"
    return ""

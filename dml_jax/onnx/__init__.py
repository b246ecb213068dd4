"""Networks in ONNX's format as graphs of DirectML operators. Its modules need the package onnx."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dml_jax.system.files import cache_folder
from dml_jax.system.unchanged_programs import need

if TYPE_CHECKING:
    from dml_jax.onnx.files.model import free_names, free_sizes, sizes_of
    from dml_jax.onnx.network import Network
    from dml_jax.onnx.options import NetworkOptions
    from dml_jax.rewrite import GraphRewrite, Rewrite
    from dml_jax.runtime.weight_store import WeightStore

__all__ = ["Network", "export", "free_names", "free_sizes", "load_onnx", "save_onnx", "sizes_of"]


def load_onnx(
    model: Any,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    free_dimensions: Mapping[str, int] | None = None,
    fallback: bool = False,
    constants: Mapping[str, Any] | None = None,
    rewrites: "Sequence[Rewrite | GraphRewrite] | None" = None,
    layout: str | None = None,
    prepare: bool = True,
    tuned: bool = True,
    cache: bool | str | Path = False,
    precision: str | None = None,
    bounds: Mapping[str, int] | None = None,
    turns: int | None = None,
) -> "Network":
    """Return a network in ONNX's format as a graph of DirectML operators.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto. External data lies in its folder,
            also after symbolic links are followed.
        input_shapes: the sizes of inputs, by name. Sizes are fixed, as DirectML's are.
        free_dimensions: the sizes that stand for the names of free dimensions. They decide names
            that are terms of these too: "past + new".
        fallback: whether nodes go beyond DirectML, where ONNX lists their types. A node of a type
            that its operator lacks computes by the operator's own code; it has no JSON and no
            feature level. A JAX function computes some op types that DirectML has no operator for.
            `network.report()` names all of these.
        constants: the values of inputs that are fixed, by name. They are no inputs of the network,
            and an If or a Loop that depends on them alone is decided at load.
        rewrites: steps of `dml_jax.rewrite` that change the graph before it is compiled. None is
            `dml_jax.rewrite.DEFAULT`, [] is no step. `network.report()` says what each one did.
        layout: how arrays lie in the program: "file" as in the file, or "channels_last". None lets
            convolutions have their channels last on a CPU, where few copies are needed.
        prepare: whether arrays that follow from weights alone are computed once, and kept. They
            take at most as much memory as the weights; integers of 8 bits that products read as
            floats take four times as much, up to 256 MiB. `network.report()` says how much.
        tuned: whether to use what `network.tune` kept for this machine. `layout` and `rewrites`
            come before it.
        cache: whether compiled programs are kept for other processes, or the folder where they are.
            True is DML_JAX_CACHE, or `dml-jax` in the platform's cache folder. Files there are
            machine code: only files of this user, which nobody else may write, are read. A network
            whose programs are there translates its nodes when something asks for `network.graph`.
        precision: how products and convolutions of FLOAT32 are computed. "float32" is in full.
            "tensorfloat32" is faster on GPUs that have it, and "float32" elsewhere. "bfloat16"
            rounds their operands to bfloat16 and sums in FLOAT32, on every device. None is as
            `jax_default_matmul_precision` says, and "float32" where that says nothing.
        bounds: the largest sizes of what data decides while the network runs, as the frames of a
            voice: by the name of the tensor whose size it is, or of its dimension. Where one size
            needs a bound, any name will do. Arrays have the largest sizes, and `NAME.count` of an
            output says how many elements are there. A call whose size exceeds its bound raises
            `DmlError`. In a program of your own, floats are NaN then, and the output `NAME.size`
            says the size.
        turns: how many turns a Loop may take whose number of turns is not known at load, for files
            from strangers. A call of the network whose Loop goes on raises `DmlError`. In a program
            of your own, floats are NaN then. None is any number.

    An input that is an initializer too has a default, which a call may replace by name, unless it
    decided something at load: `network.defaults`, `network.fixed`.

    Raises `DmlError` with everything that is in the way: each node that cannot be had, and why.
    """
    from dml_jax.onnx.options import NetworkOptions, check_named

    sizes = {"free_dimensions": free_dimensions or {}, "input_shapes": input_shapes or {}}
    check_named({**sizes, "constants": constants or {}, "bounds": bounds or {}})
    folder = cache_folder() if cache is True else Path(cache) if cache else None
    options = NetworkOptions(
        *(free_dimensions or {}, {}, input_shapes or {}, constants or {}),
        bounds=bounds or {},
        turns=turns,
        fallback=fallback,
        rewrites=rewrites,
        layout=layout,
        prepare=prepare,
        tuned=tuned,
        precision=precision,
        cache=folder,
    )
    return load_network(model, options)


def load_network(
    model: Any, options: "NetworkOptions", store: "WeightStore | None" = None
) -> "Network":
    """Return the network of a model, as `load_onnx` does; its weights lie in `store`, if given."""
    _need_onnx()
    from dml_jax.onnx import loading

    return loading.load(model, options, store)


def save_onnx(
    model: Any, path: Any, weights: Mapping[str, Any] = {}, dtype: Any = None
) -> list[str]:
    """Write a model in ONNX's format again, with new values of its initializers.

    It does what `Network.save` does, of a model that is not loaded: its sizes may be free.

    Args:
        model: a path, the bytes of a file, or an onnx.ModelProto.
        path: the file to write, another one than the one that is read.
        weights: the new values of initializers, by name.
        dtype: float16 or bfloat16 stores FLOAT initializers so, rounded; None keeps all types.

    Returns the names of the initializers whose values differ from the file's. Raises `DmlError`
    where a value does not fit, or a file cannot be read or written.
    """
    _need_onnx()
    from dml_jax.onnx.files.model import Origin
    from dml_jax.onnx.files.saving import save

    return save(Origin.of(model), path, weights, dtype)


def export(what: Any, *shapes: Any) -> Any:
    """Return a graph, an operator, a network or a function of arrays as an ONNX model.

    Args:
        what: what is written. Constants of a graph, weights of a network and arrays that a function
            is closed over are initializers. A function may be a gradient (`jax.grad`), or batched
            (`jax.vmap`).
        shapes: the arguments of a function: trees of arrays, or of what has a `shape` and a
            `dtype`, as `jax.ShapeDtypeStruct`. Each leaf is an input, named by its path.

    Returns an onnx.ModelProto. Its inputs and outputs have the names of the graph's; those of a
    function are `input_0`, `output_0`, ... where its arguments and results have no names.

    Raises `DmlError` for a step that has no nodes of ONNX.
    """
    _need_onnx()
    from dml_jax.onnx.writing import export_model

    return export_model.export(what, *shapes)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _need_onnx()
    from dml_jax.onnx import network
    from dml_jax.onnx.files import model

    return getattr(network if name == "Network" else model, name)


def _need_onnx() -> None:
    need("onnx", "read ONNX models", "onnx")

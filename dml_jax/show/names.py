"""What each operator is called elsewhere: functions here, DirectMLX, ONNX, JAX and PyTorch."""

import contextlib
import difflib
import functools
from collections.abc import Mapping

from dml_jax import facts
from dml_jax.errors import suggested

LIBRARIES = ("function", "DirectMLX", "ONNX", "JAX", "PyTorch")

Names = Mapping[str, tuple[str, ...]]
"""The names of one operator, by library."""

_MODULES_OF_JAX = ("jax.numpy", "jax.nn", "jax.lax", "jax")
_SHORT = {**dict.fromkeys(("jnp.", "np.", "numpy."), "jax.numpy."), "F.": "torch.nn.functional."}
_IN_JAX = {  # what has another name in JAX, and no operator
    "dropout": "jax.random.bernoulli",
    "flatten": "jax.numpy.ravel",
    "permute": "jax.numpy.transpose",
    "unsqueeze": "jax.numpy.expand_dims",
    "view": "jax.numpy.reshape",
}


_OTHER_ROADS = {  # what other libraries begin with
    "device": "jax.devices() lists devices; dml_jax.pydirectml has Device",
    "devices": "jax.devices() lists devices",
    "inferencesession": "dml_jax.load_onnx loads a network, which is called with arrays",
    "session": "dml_jax.load_onnx loads a network, which is called with arrays",
    "load": "dml_jax.load_onnx loads networks, dml_jax.load_model models of DxDispatch",
    "bind": "dml_jax.compile(operator).bind(inputs, outputs)",
    "save": "a network saves itself: network.save",
    "transpose": "jax.numpy.transpose",
    "scatteradd": "x.at[indices].add(updates)",
    "cubic": "jax.image.resize has cubic",
    "export": "from dml_jax.onnx import export",
    "instancenorm": "dml_jax.mean_variance_normalization(x, axes=[2, 3])",
    "layernorm": "dml_jax.mean_variance_normalization(x, axes=-1)",
    "groupnorm": "dml_jax.mean_variance_normalization of x.reshape(n, groups, -1), axes=-1",
    "convtranspose": "dml_jax.convolution(x, w, direction='BACKWARD')",
    "hardtanh": "dml_jax.clip(x, -1, 1)",
    "relu6": "dml_jax.clip(x, 0, 6)",
    "softshrink": "dml_jax.activation_shrink(x, bias=0.5)",
    "standardize": "dml_jax.mean_variance_normalization(x, axes=-1)",
    "scan": "jax.lax.scan",
    "sum": "dml_jax.reduce(x, 'SUM')",
    "prod": "dml_jax.reduce(x, 'MULTIPLY')",
    "logsumexp": "dml_jax.reduce(x, 'LOG_SUM_EXP')",
    "avgpool": "dml_jax.average_pooling",
    "logsigmoid": "jax.nn.log_sigmoid",
    "maskedfill": "dml_jax.if_(mask, value, x)",
    "fromonnx": "dml_jax.load_onnx",
    "toonnx": "from dml_jax.onnx import export",
    "dense": "dml_jax.gemm(x, w, b)",
    "linear": "dml_jax.gemm(x, w, b)",
    "matrixmultiply": "dml_jax.gemm",
    "batchnorm": "dml_jax.batch_normalization; batch_normalization_training where it trains",
    "rmsnorm": "dml_jax.mean_variance_normalization(x, axes=-1, normalize_mean=False)",
    "nn": "functions are names of dml_jax itself, as dml_jax.activation_relu",
    "gelu": "dml_jax.activation_gelu; jax.nn.gelu(x, approximate=False) is the same",
    "tril": "jax.numpy.tril",
    "triu": "jax.numpy.triu",
    "rsqrt": "jax.lax.rsqrt",
    "segmentsum": "jax.ops.segment_sum",
    "hardsigmoid": "dml_jax.activation_hard_sigmoid; alpha=1 / 6 is that of JAX and PyTorch",
}


@functools.cache
def names() -> Mapping[str, Names]:
    """Return the names of every operator, by its name without DML_OPERATOR_.

    Versions of an operator have the names of the first version, where they have none of their own.
    """
    known = facts.names()
    found: dict[str, dict[str, list[str]]] = {}
    for name in facts.catalogue():
        elsewhere = known.get(name, known.get(name.rstrip("123"), {}))
        parts = {"ONNX": "onnx", "JAX": "jax", "PyTorch": "torch"}
        found[name] = {library: list(elsewhere.get(key, ())) for library, key in parts.items()}
    for function, entry in facts.functions().items():
        for name in entry["operators"]:
            found[name].setdefault("function", []).append(function)
            if "directmlx" in entry:
                found[name].setdefault("DirectMLX", []).append(entry["directmlx"])
    return {
        name: {library: tuple(own.get(library, ())) for library in LIBRARIES}
        for name, own in found.items()
    }


def plain(name: str) -> str:
    """Return one spelling for `ElementWiseClip1`, `element_wise_clip1` and the full name."""
    word = "".join(filter(str.isalnum, name.casefold()))
    return word.removeprefix("dmloperator").removeprefix("dmljax")


def called(name: str, word: str, whole: bool = False) -> list[str]:
    """Return the names elsewhere, with their library, of the operator `name` that have `word`.

    Modules are no part of a name, unless the word has a module too: `jax.nn.relu`. If `whole`, the
    word is the whole name.
    """
    word, wanted = _in_full(word), plain(_in_full(word))
    return [
        other if "." in other else f"{library} {other}"
        for library, others in names().get(name, {}).items()
        if library != "function"
        for other in others
        for known in [plain(other if "." in word else other.rpartition(".")[2])]
        if (wanted == known if whole else wanted in known)
    ]


def search(word: str) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the operators that `word` names, and those with `word` in a name.

    Each has the names elsewhere by which it was found. If no name has the word, its part behind the
    last dot is searched for, and then modules: `nn.Conv` finds Conv, and `optax` a function of it.
    """
    for way in (word, word.rpartition(".")[2], f"{word}."):
        wanted = plain(_in_full(way))
        exact, others = {}, {}
        for name, own in names().items() if wanted else ():
            same = called(name, way, whole=True)
            if same or wanted in map(plain, own["function"]):
                exact[name] = same
            elif wanted in plain(name) or called(name, way):
                others[name] = [] if wanted in plain(name) else called(name, way)
        if exact or others:
            return exact, others
    return {}, {}


def in_jax(word: str) -> str:
    """Return the function of JAX that `word` names, if no operator has its name; "" for others."""
    path = _IN_JAX.get(word.rpartition(".")[2].casefold(), _in_full(word))
    places = [path] if "." in path else [f"{m}.{path}" for m in _MODULES_OF_JAX]
    import jax

    path, value = "", None
    for path in places:
        root, *parts = path.split(".")
        with contextlib.suppress(AttributeError):
            value = functools.reduce(getattr, parts, jax) if root == "jax" else None
            break
    known = any(f.startswith("jax.") for own in search(word)[0].values() for f in own)
    return "" if known or isinstance(value, type) or not callable(value) else path


def call_of(function: str) -> str:
    """Return a function of this package with its arguments: `dml_jax.if_(condition, a, b)`."""
    return f"dml_jax.{function}({', '.join(facts.functions()[function]['arguments'])})"


def _in_full(word: str) -> str:
    """Return `word` with its module in full: `jax.numpy.sum` for `jnp.sum`."""
    return next((long + word[len(s) :] for s, long in _SHORT.items() if word.startswith(s)), word)


def attribute_hint(name: str) -> str:
    """Return what `dml_jax` has in place of an attribute that it lacks, for its message, or "".

    DirectML's own names come first, also without ELEMENT_WISE, and then those of other libraries.
    """
    short, is_class = name.removeprefix("activation_"), name[:1].isupper()
    word = plain(short)
    if word in _OTHER_ROADS:
        return f" ({_OTHER_ROADS[word]})"
    own_names = {plain(n).removeprefix("elementwise"): n for n in [*names()][::-1]}
    own_names |= {plain(alias): n for alias, n in facts.names_of_aliases().items()}
    operator = own_names.get(plain(name).removeprefix("elementwise"))
    for library in () if operator else ("JAX", "PyTorch", "ONNX", "DirectMLX"):
        found = [n for n, own in names().items() if word in map(_last, own[library])]
        if found:  # the most general: interpolate is RESAMPLE, and not UPSAMPLE_2D
            operator = max(found, key=lambda n: sum(map(len, names()[n].values())))
            break
    if operator:
        found = facts.class_name_of(operator) if is_class else names()[operator]["function"][0]
        return f" (dml_jax.{found}; `dml-jax operators {short}`)"
    if path := "" if is_class else in_jax(short):
        return f" ({path})"
    known = [*facts.names_of_classes()] if is_class else [*facts.functions()]
    elsewhere = (_last(n) for own in names().values() for n in own["JAX"])
    close = difflib.get_close_matches(name, known if is_class else [*known, *elsewhere], 1, 0.75)
    near = close[0] if close else None
    if near is None or near in known:
        return suggested(near)
    return f"{suggested(near)[:-1]} {attribute_hint(near)[2:]}"


def caveat(name: str) -> str:
    """Return what to know of a name of another library before its operator is called, or ""."""
    word = _last(name)
    return _OTHER_ROADS.get(word, "dml_jax.slice takes sizes, not ends" * (word == "slice"))


def _last(name: str) -> str:
    return plain(name.rpartition(".")[2])

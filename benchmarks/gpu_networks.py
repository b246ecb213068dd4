"""Networks on one GPU beside PyTorch: `python benchmarks/gpu_networks.py results.json [NAME ...]`.

PyTorch makes the models of `gpu_networks.json` with random weights, exports them, and computes
them: eagerly, as NCHW and as channels_last (the faster one counts), and in FLOAT16 by torch.compile
too. dml_jax loads the files in two processes for each network: one that finds nothing in its cache,
and one that finds what the first one kept. It needs torch, torchvision, transformers, onnx and
onnxscript.
"""

# pyright: reportMissingImports=false

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, difference, measure, parser, run, said_by, wanted

from dml_jax.bench.peers import cuda_mark
from dml_jax.bench.timing import Contender, interleave, jax_contender
from dml_jax.system.processor import cores

TIMEOUT = 300  # seconds of one process
TOGETHER = 10  # processes that export models and fill the cache of torch.compile
KINDS = ("FLOAT32", "FLOAT16")  # of the files, of which TF32 and BFLOAT16 use the first
PRECISIONS = {"TF32": "tensorfloat32", "BFLOAT16": "bfloat16"}


def _of_torchvision(name: str, **options: Any) -> Any:
    import torchvision.models as models

    return models.get_model(name, weights=None, **options)


def _of_transformers(model: str, config: str, result: str, **options: Any) -> Any:
    """Return a model of tokens alone, which returns one result."""
    import torch
    import transformers

    class Tokens(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            made = getattr(transformers, config)(attn_implementation="eager", **options)
            self.model = getattr(transformers, model)(made)

        def forward(self, tokens: Any) -> Any:
            return getattr(self.model(input_ids=tokens), result)

    return Tokens()


def _unet_block(channels: int, groups: int, heads: int) -> Any:
    """Return a level of a UNet: residual blocks, a self attention at half the size, and a join."""
    import torch
    from torch import nn
    from torch.nn import functional

    class Residual(nn.Module):
        def __init__(self, given: int, made: int) -> None:
            super().__init__()
            first, second = (nn.Conv2d(size, made, 3, padding=1) for size in (given, made))
            norms = nn.GroupNorm(groups, given), nn.GroupNorm(groups, made)
            self.inner = nn.Sequential(norms[0], nn.SiLU(), first, norms[1], nn.SiLU(), second)
            self.skip = nn.Conv2d(given, made, 1) if given != made else nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.inner(x) + self.skip(x)

    class Attention(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.norm = nn.GroupNorm(groups, width)
            self.parts, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

        def forward(self, x: Any) -> Any:
            n, c, h, w = x.shape
            parts = self.parts(self.norm(x)).reshape(n, 3, heads, c // heads, h * w)
            seen = functional.scaled_dot_product_attention(*parts.transpose(3, 4).unbind(1))
            return x + self.out(seen.transpose(2, 3).reshape(n, c, h, w))

    class Level(nn.Module):
        def __init__(self, wide: int) -> None:
            super().__init__()
            self.before, self.after = Residual(channels, channels), Residual(wide, channels)
            down, up = nn.Conv2d(channels, wide, 3, 2, 1), nn.Conv2d(wide, channels, 3, padding=1)
            larger = nn.Upsample(scale_factor=2.0, mode="nearest")
            self.inner = nn.Sequential(down, Residual(wide, wide), Attention(wide), larger, up)

        def forward(self, x: Any) -> Any:
            x = self.before(x)
            return self.after(torch.cat([x, self.inner(x)], 1))

    return Level(2 * channels)


MAKERS = {"torchvision": _of_torchvision, "transformers": _of_transformers, "unet": _unet_block}
CASES: Row = json.loads(Path(__file__).with_suffix(".json").read_text())


def _milliseconds(contender: Contender) -> float:
    """Return the median time of a call."""
    return 1e3 * interleave({"": contender})[""].median


# PyTorch.


def _timed(model: Any, x: Any) -> float:
    import torch

    mark = cuda_mark(torch) if x.is_cuda else None
    return _milliseconds(Contender(lambda _: model(x), mark=mark))


def _model(name: str, kind: str, device: str = "") -> tuple[Any, Any]:
    """Return a model with its random weights, and its input: the same in each process.

    They are on the GPU, if there is one, or on a device that is named.
    """
    import torch

    torch.manual_seed(0)
    case, place = CASES[name], device or ("cuda" if torch.cuda.is_available() else "cpu")
    model, tokens = MAKERS[case["of"]](**case["given"]).eval(), case.get("tokens")
    x = torch.randint(0, tokens, case["sizes"]) if tokens else torch.randn(case["sizes"])
    dtype = {"FLOAT16": torch.float16, "BFLOAT16": torch.bfloat16}.get(kind, torch.float32)
    return model.to(place, dtype), x.to(place, None if tokens else dtype)


def _channels_last(model: Any, x: Any) -> tuple[Any, Any]:
    """Return a model and its input, of pictures with channels last."""
    import torch

    layout: Any = {"memory_format": torch.channels_last}
    return (model.to(**layout), x.to(**layout)) if x.ndim == 4 else (model, x)


def prepare(name: str, kind: str, folder: str) -> Row:
    """Export a model, and let torch.compile keep its kernels; return the sizes of its input."""
    import torch

    torch.set_num_threads(2)
    model, x = _model(name, kind, "cpu")
    options: Any = {"opset_version": 18, "dynamo": True, "external_data": True}
    torch.onnx.export(model, (x,), f"{folder}/{kind}.onnx", verbose=False, **options)
    if kind == "FLOAT16":
        with torch.no_grad():
            model, x = _channels_last(*_model(name, kind))
            torch.compile(model)(x)
    return {"sizes": [*x.shape]}


def _all_prepared(folders: Mapping[str, Path]) -> None:
    """Prepare all models, several at once."""

    def one(pair: tuple[str, str]) -> None:
        try:
            said_by(__file__, "prepare", *pair, folders[pair[0]], seconds=TIMEOUT)
        except RuntimeError as error:
            print(*pair, str(error)[-600:], flush=True)

    with ThreadPoolExecutor(TOGETHER) as pool:
        list(pool.map(one, [(name, kind) for kind in KINDS[::-1] for name in folders]))


def _peers(name: str, kind: str, folder: Path) -> dict[str, float]:
    """Return the times of PyTorch; write the input and the answer."""
    import torch

    is_rounded = kind == "TF32"
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = is_rounded
    torch.compiler.reset()
    model, x = _model(name, kind)
    shown = x.float() if x.is_floating_point() else x
    np.save(folder / f"{kind}-input.npy", shown.cpu().numpy())
    with torch.no_grad():
        answer = model(x)
        answer = answer["out"] if isinstance(answer, dict) else answer
        np.save(folder / f"{kind}-answer.npy", answer.float().cpu().numpy())
        eager = [_timed(model, x)]
        model, x = _channels_last(model, x)
        eager += [_timed(model, x)] if x.ndim == 4 else []
        times = {"eager_ms": min(eager)}
        if kind == "FLOAT16":
            times["compile_ms"] = _timed(torch.compile(model), x)
    return times


# dml_jax, in processes of its own.


def each(kinds: Iterable[str], call: Callable[[str], Row]) -> Row:
    """Return what a call returns of each type; of one that fails, what is wrong."""
    found: Row = {}
    for kind in kinds:
        try:
            found[kind] = call(kind)
        except Exception as error:  # the other types are measured
            found[kind] = {"failed": f"{type(error).__name__}: {str(error)[-600:]}"}
    return found


def own(folder: str, kinds: str, *first_alone: str) -> Row:
    """Return the figures of a network by type; `first_alone` asks for those of the first answer."""
    import jax

    jax.block_until_ready(jax.numpy.ones(8) + 1)
    return each(kinds.split(","), lambda kind: _own(Path(folder), kind, bool(first_alone)))


def _own(folder: Path, kind: str, first_alone: bool) -> Row:
    """Return the figures of a type; `first_s` are the seconds of loading and the first answer."""
    import jax

    import dml_jax

    jax.clear_caches()
    file = folder / f"{kind if kind == 'FLOAT16' else 'FLOAT32'}.onnx"
    x = np.load(folder / f"{kind}-input.npy")
    start = time.perf_counter()
    network = dml_jax.load_onnx(file, cache=folder / "cache", precision=PRECISIONS.get(kind))
    (name,) = network.inputs
    feed = {name: jax.device_put(x.astype(network.inputs[name].dtype))}
    call = lambda _: network(feed)  # noqa: E731
    if kind == "BFLOAT16":
        held = network.prepared(network.weights_as(jax.numpy.bfloat16))
        program = jax.jit(network.apply_prepared)
        if feed[name].dtype == np.float32:
            feed = {name: feed[name].astype(jax.numpy.bfloat16)}
        call = lambda _: program(held, feed)  # noqa: E731
    result = jax.block_until_ready(call(0))
    row: Row = {"first_s": time.perf_counter() - start}
    if first_alone:
        return row
    answer = np.load(folder / f"{kind}-answer.npy")
    # Random weights may leave nothing of FLOAT16.
    row["error"] = difference(next(iter(result.values())), answer) if answer.any() else None
    row["ms"] = _milliseconds(jax_contender(call, jax.devices()[0]))
    return row


# The results.


def _measured(name: str, folder: Path) -> Row:
    """Return the figures of a network by type: those of both libraries."""
    import torch

    peers = each(CASES[name]["kinds"], lambda kind: _peers(name, kind, folder))
    torch.cuda.empty_cache()
    there = [kind for kind, times in peers.items() if "failed" not in times]
    found = said_by(__file__, "own", folder, ",".join(there), seconds=TIMEOUT)
    row = {kind: {**peers[kind], **found.get(kind, {})} for kind in peers}
    for kind in [kind for kind, cell in row.items() if "failed" in cell]:
        print(name, kind, row.pop(kind)["failed"], flush=True)
    if not row:
        raise RuntimeError("no type was measured")
    if KINDS[0] in row:
        with contextlib.suppress(RuntimeError):
            again = said_by(__file__, "own", folder, KINDS[0], "again", seconds=TIMEOUT)
            row[KINDS[0]]["kept_s"] = again[KINDS[0]].get("first_s")
    return row


def main() -> int:
    """Measure networks; return how many fail."""
    given = parser(__doc__, "networks").parse_intermixed_args()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import torch

    torch.set_num_threads(cores())
    with tempfile.TemporaryDirectory() as root:
        folders = {name: Path(root) / str(place) for place, name in enumerate(CASES)}
        made = {name: folders[name] for name in wanted(given, "networks", CASES)}
        for folder in made.values():
            folder.mkdir()
        _all_prepared(made)
        every = {name: partial(_measured, name, folder) for name, folder in folders.items()}
        return measure(given, networks=every)


if __name__ == "__main__":
    run(main, prepare, own)

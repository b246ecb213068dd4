"""The forms that lowering/reduction.py chooses between, in ms: `python benchmarks/lowerings.py`.

plain: XLA's own reduction. chosen: what the package lowers to. numpy: for scale. The maximum of
"plain" is not the right answer on CPU: it drops NaN.
"""

import functools
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from timing import interleaved, row

from dml_jax.lowering import reduction

CELLS = [
    ((8, 64, 256, 256), [(0,), (1,), (2,), (3,), (2, 3), (0, 2, 3), (0, 1, 2, 3)]),
    ((64, 65536), [(0,), (1,)]),
    ((1024, 32768), [(0,)]),
    ((4096, 4096), [(0,), (1,)]),
    ((4096, 7), [(0,), (1,)]),
    ((7, 4096), [(0,), (1,)]),
]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Prints a row a cell."""
    say(f"{jax.devices()[0].device_kind}, jax {jax.__version__}, float32, ms")
    for shape, all_axes in CELLS:
        x = jax.random.normal(jax.random.key(0), shape, jnp.float32)
        host = np.asarray(x)
        for axes in all_axes:
            forms = {
                "sum": (lambda x, a=axes: lax.reduce_sum(x, a), reduction.sum_, host.sum),
                "max": (lambda x, a=axes: lax.reduce_max(x, a), reduction.max_, host.max),
            }
            for name, (plain, chosen, peer) in forms.items():
                partial = functools.partial
                functions = {
                    "plain": partial(jax.jit(plain), x),
                    "chosen": partial(jax.jit(chosen, static_argnums=1), x, axes),
                    "numpy": partial(peer, axis=axes),
                }
                times = interleaved(functions, samples=5)
                say(row(f"{name} {list(shape)} over {list(axes)}", times))


if __name__ == "__main__":
    main()

"""Learns to fill in a missing pixel of the photograph, by DirectML's Adam and by optax's.

    python examples/adam.py

A network of two layers sees the 48 grey pixels around a missing one, and corrects the mean of its
four neighbours. It learns from the left half of the photograph and is tested on the right half.
Two copies of it start from the same parameters and see the same pixels: ADAM_OPTIMIZER
(`dml_jax.adam_optimizer`) updates one of them, `optax.adam` the other.

The optimizers differ in one place. With the moments M and V after step T,

    ADAM_OPTIMIZER  X - rate * sqrt(1 - beta2**T) / (1 - beta1**T) * M / (sqrt(V) + epsilon)
    optax.adam      X - rate * M / (1 - beta1**T) / (sqrt(V / (1 - beta2**T)) + epsilon)

so that an epsilon of optax is the same as sqrt(1 - beta2**T) times as much of DirectML's. With an
epsilon of 1e-8 both copies learn the same, up to rounding. With a large one they do not, unless
DirectML's is multiplied by that factor in each step: the program shows both.

Writes out/adam.png.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from album import photograph, write_losses
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.typing import ArrayLike

import dml_jax

RATE, BETA1, BETA2, EPSILON = 3e-3, 0.9, 0.999, 1e-8
SIDE, WIDTH, BATCH, STEPS = 7, 32, 256, 400

Optimizer = Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]]


def missing(half: slice, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what lies around random pixels of some columns, and the pixels themselves.

    Both are less the mean of the pixel's four neighbours.
    """
    grey, rng = photograph()[0].mean(0)[:, half], np.random.default_rng(seed)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (SIDE, SIDE))
    places = [rng.integers(0, n, count) for n in windows.shape[:2]]
    chosen, centre = windows[tuple(places)].reshape(count, -1), SIDE * SIDE // 2
    neighbours = [centre - SIDE, centre - 1, centre + 1, centre + SIDE]
    chosen = chosen - chosen[:, neighbours].mean(1, keepdims=True)
    return np.delete(chosen, centre, 1), chosen[:, centre]


def network(key: jax.Array) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Return parameters as one vector of rank 4, and the function that makes layers of it."""
    inner = jax.random.normal(key, (SIDE * SIDE - 1, WIDTH)) * 0.4
    layers = (inner, jnp.zeros((1, WIDTH)), jnp.zeros(WIDTH))
    flat, layers_of = ravel_pytree(layers)
    return flat.reshape(1, 1, 1, -1), lambda x: layers_of(x.reshape(-1))


def directml(state: Any, parameters: jax.Array, gradient: jax.Array) -> tuple[Any, jax.Array]:
    """Update parameters by DirectML's operator; the state is two moments and the step."""
    first, second, step = state
    new = dml_jax.adam_optimizer(
        *(parameters, first, second, gradient, step), RATE, BETA1, BETA2, EPSILON
    )
    return (new.first_moment, new.second_moment, step + 1), new.parameters


def by_optax(state: Any, parameters: jax.Array, gradient: jax.Array) -> tuple[Any, jax.Array]:
    """Update parameters by optax."""
    updates, state = optax.adam(RATE, BETA1, BETA2, EPSILON).update(gradient, state)
    return state, parameters + updates  # pyright: ignore[reportOperatorIssue]


def trained(
    optimizer: Optimizer, loss: Any, state: Any, parameters: jax.Array, batches: Any
) -> tuple[jax.Array, jax.Array]:
    """Return the parameters after all batches, and the loss before each step."""

    def step(carry: Any, batch: Any) -> tuple[Any, jax.Array]:
        state, parameters = carry
        value, gradient = jax.value_and_grad(loss)(parameters, *batch)
        return optimizer(state, parameters, gradient), value

    (_, parameters), losses = lax.scan(step, (state, parameters), batches)
    return parameters, losses


def differences(step: int, epsilon: float) -> list[float]:
    """Return by how much an update differs from optax's: with the same epsilon, and with its own.

    Args:
        step: the number of the step.
        epsilon: that of optax.
    """
    x, m, g = np.random.default_rng(step).standard_normal((3, 1, 1, 1, 1000), np.float32)
    v = m * m
    state = optax.ScaleByAdamState(jnp.asarray(step - 1, jnp.int32), m, v)  # pyright: ignore
    update, _ = optax.scale_by_adam(BETA1, BETA2, epsilon).update(g, state)  # pyright: ignore
    count = np.full((1, 1, 1, 1), step, np.uint32)
    found = []
    for own in (epsilon, epsilon * (1 - BETA2**step) ** 0.5):
        new = dml_jax.adam_optimizer(x, m, v, g, count, RATE, BETA1, BETA2, own)
        found.append(float(abs(new.parameters - (x - RATE * np.asarray(update))).max()))
    return found


def main() -> None:
    """Train both copies, print what they reach, and check that they agree."""
    start, layers_of = network(jax.random.key(0))

    def loss(parameters: jax.Array, around: ArrayLike, pixels: ArrayLike) -> jax.Array:
        """Return the root of the mean squared error, in grey levels of 255."""
        inner, bias, outer = layers_of(parameters)
        return 255 * jnp.sqrt(
            ((jnp.tanh(jnp.dot(around, inner) + bias) @ outer - pixels) ** 2).mean()
        )

    around, pixels = missing(slice(0, 256), BATCH * STEPS, seed=1)
    batches = around.reshape(STEPS, BATCH, -1), pixels.reshape(STEPS, BATCH)
    unseen = missing(slice(256, None), 20000, seed=2)
    print(f"the neighbours' mean: off by {loss(start, *unseen):.2f} grey levels on unseen pixels")
    zero = jnp.zeros_like(start)
    states = {
        directml: (zero, zero, jnp.ones((1, 1, 1, 1), jnp.uint32)),
        by_optax: optax.adam(RATE, BETA1, BETA2, EPSILON).init(start),
    }
    losses, reached = [], []
    for optimizer, state in states.items():
        run = jax.jit(functools.partial(trained, optimizer, loss))
        parameters, course = run(state, start, batches)
        losses.append(np.asarray(course))
        reached.append(float(loss(parameters, *unseen)))
        first, last = course[:20].mean(), course[-20:].mean()
        name = optimizer.__name__.removeprefix("by_")
        print(f"{name}: loss {first:.3f} to {last:.3f}; off by {reached[-1]:.2f} on unseen pixels")
    apart = float(np.max(abs(losses[0] / losses[1] - 1)))
    print(f"the losses of a step differ by at most {apart:.0e} of themselves")
    assert apart < 1e-3
    assert max(reached) < 0.9 * float(loss(start, *unseen))

    print("an update with an epsilon of 0.1 differs from optax's")
    for step in (1, 10, 1000):
        same, own = differences(step, 0.1)
        print(f"  in step {step}: by {same:.0e}; by {own:.0e} with an epsilon of its own")
        assert own < 1e-6 < same
    names = ("ADAM_OPTIMIZER", "optax.adam")
    write_losses(Path("out/adam.png"), dict(zip(names, losses, strict=True)))


if __name__ == "__main__":
    main()

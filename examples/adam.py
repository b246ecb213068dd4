"""Learns which way up a patch of the photograph is, by DirectML's Adam and by optax's.

    python examples/adam.py

A network of two layers sees grey patches of 16 x 16 pixels, each turned by 0, 90, 180 or 270
degrees, and says by how much. It learns from the left of the photograph and is tested on the right.
Two copies of it start from the same parameters and see the same patches: ADAM_OPTIMIZER
(`dml_jax.adam_optimizer`) updates one of them, `optax.adam` the other.

The optimizers differ in one place. With the moments M and V after step T,

    ADAM_OPTIMIZER  X - rate * sqrt(1 - beta2**T) / (1 - beta1**T) * M / (sqrt(V) + epsilon)
    optax.adam      X - rate * M / (1 - beta1**T) / (sqrt(V / (1 - beta2**T)) + epsilon)

so that optax's epsilon is DirectML's divided by sqrt(1 - beta2**T). With an epsilon of 1e-8 both
copies learn the same, up to rounding. With a large epsilon they do not, unless DirectML's is
multiplied by sqrt(1 - beta2**T): both are shown.

Writes nothing.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from album import photograph
from jax import lax
from jax.flatten_util import ravel_pytree

import dml_jax

RATE, BETA1, BETA2, EPSILON = 3e-3, 0.9, 0.999, 1e-8
SIDE, WIDTH, BATCH, STEPS = 16, 64, 128, 400

Optimizer = Callable[[Any, jax.Array, jax.Array], tuple[Any, jax.Array]]


def patches(columns: slice, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return [count, SIDE * SIDE] turned patches of some columns, and how often each is turned."""
    grey = photograph()[0].mean(0)[::2, ::2][:, columns]
    rng = np.random.default_rng(seed)
    windows = np.lib.stride_tricks.sliding_window_view(grey, (SIDE, SIDE))
    chosen = windows[tuple(rng.integers(0, n, count) for n in windows.shape[:2])]
    turns = rng.integers(0, 4, count)
    turned = [np.rot90(patch, k) for patch, k in zip(chosen, turns, strict=True)]
    return np.stack(turned).reshape(count, -1) - 0.5, turns


def network(key: jax.Array) -> tuple[jax.Array, Callable[[jax.Array], Any]]:
    """Return parameters as one vector of rank 4, and the function that makes layers of it."""
    sizes = [SIDE * SIDE, WIDTH, 4]
    keys = jax.random.split(key, 2)
    layers = [
        (jax.random.normal(k, (n, m)) * n**-0.5, jnp.zeros((1, m)))
        for k, n, m in zip(keys, sizes, sizes[1:], strict=False)
    ]
    flat, layers_of = ravel_pytree(layers)
    return flat.reshape(1, 1, 1, -1), lambda x: layers_of(x.reshape(-1))


def directml(state: Any, parameters: jax.Array, gradient: jax.Array) -> tuple[Any, jax.Array]:
    """Update parameters by DirectML's operator; the state is two moments and the step."""
    first, second, step = state
    new = dml_jax.adam_optimizer(
        *(parameters, first, second, gradient, step), RATE, BETA1, BETA2, EPSILON
    )
    return (new.first_moment, new.second_moment, step + 1), new.parameters


def with_optax(state: Any, parameters: jax.Array, gradient: jax.Array) -> tuple[Any, jax.Array]:
    """Update parameters by optax."""
    updates, state = optax.adam(RATE, BETA1, BETA2, EPSILON).update(gradient, state)
    return state, optax.apply_updates(parameters, updates)  # pyright: ignore[reportReturnType]


def trained(
    optimizer: Optimizer, state: Any, parameters: jax.Array, loss: Any, batches: Any
) -> tuple[jax.Array, jax.Array]:
    """Return the parameters after all batches, and the loss before each step."""

    def step(carry: Any, batch: Any) -> tuple[Any, jax.Array]:
        state, parameters = carry
        value, gradient = jax.value_and_grad(loss)(parameters, *batch)
        return optimizer(state, parameters, gradient), value

    (_, parameters), losses = lax.scan(step, (state, parameters), batches)
    return parameters, losses


def differences(step: int, epsilon: float) -> Iterator[float]:
    """Yield by how much a step differs from optax's: with the same epsilon, and with its own."""
    x, m, g = np.random.default_rng(step).standard_normal((3, 1, 1, 1, 1000), np.float32)
    v = m * m
    adam = optax.scale_by_adam(BETA1, BETA2, epsilon)
    state = optax.ScaleByAdamState(jnp.asarray(step - 1, jnp.int32), m, v)  # pyright: ignore
    expected = x - RATE * np.asarray(adam.update(jnp.asarray(g), state)[0])
    count = np.full((1, 1, 1, 1), step, np.uint32)
    for factor in (1, (1 - BETA2**step) ** 0.5):
        arguments = (x, m, v, g, count, RATE, BETA1, BETA2, epsilon * factor)
        yield float(abs(dml_jax.adam_optimizer(*arguments).parameters - expected).max())


def main() -> None:
    """Train both copies, print what they reach, and check that they agree."""
    start, layers_of = network(jax.random.key(0))

    def logits(parameters: jax.Array, x: jax.Array) -> jax.Array:
        (inner, bias), (outer, last) = layers_of(parameters)
        return jnp.tanh(x @ inner + bias) @ outer + last

    def loss(parameters: jax.Array, x: jax.Array, turns: jax.Array) -> jax.Array:
        return optax.softmax_cross_entropy_with_integer_labels(logits(parameters, x), turns).mean()

    x, turns = patches(slice(0, 192), BATCH * STEPS, seed=1)
    batches = (x.reshape(STEPS, BATCH, -1), turns.reshape(STEPS, BATCH))
    zero = jnp.zeros_like(start)
    states = {
        directml: (zero, zero, jnp.ones((1, 1, 1, 1), jnp.uint32)),
        with_optax: optax.adam(RATE, BETA1, BETA2, EPSILON).init(start),
    }
    unseen, answers = patches(slice(192, None), 2000, seed=2)
    results = []
    for optimizer, state in states.items():
        run = jax.jit(functools.partial(trained, optimizer, loss=loss))
        parameters, losses = run(state, start, batches=batches)
        right = np.mean(logits(parameters, unseen).argmax(1) == answers)
        first, last = losses[0], losses[-20:].mean()
        print(f"{optimizer.__name__:<10} loss {first:.3f} -> {last:.3f}; {right:.0%} right")
        results.append((np.asarray(losses), right))
    (ours, right), (theirs, _) = results
    apart = abs(ours - theirs).max()
    print(f"losses differ by at most {apart:.1e}")
    assert apart < 1e-2 and right > 0.4, "both should learn, and the same"

    print("one step with an epsilon of 0.1 differs from optax's by")
    for step in (1, 10, 1000):
        same, own = differences(step, 0.1)
        print(f"  step {step:>4}: {same:.1e} with the same epsilon, {own:.1e} with its own")
        assert own < 1e-6 < same


if __name__ == "__main__":
    main()

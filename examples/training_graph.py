"""Trains a network of convolutions twice: by jax.grad, and by one graph of DirectML's operators.

    python examples/training_graph.py

The network tells discs, squares, crosses and rings apart: two CONVOLUTIONs with
ACTIVATION_RELU, MAX_POOLING and AVERAGE_POOLING, and a dense layer, GEMM. The functions that
describe it take arrays as well as expressions of a graph, so that both ways share them:

- `by_jax_grad` differentiates the forward operators with JAX;
- `training_graph` is one DML_GRAPH_DESC for a whole step: the forward operators; the backward ones,
  MAX_POOLING_GRAD, AVERAGE_POOLING_GRAD, ACTIVATION_RELU_GRAD and a CONVOLUTION whose direction is
  BACKWARD; and ADAM_OPTIMIZER. Its outputs are the loss, and all that the next step needs.

Both ways use ADAM_OPTIMIZER, start from the same numbers and see the same pictures. The program
checks that their losses are the same, up to rounding.

Writes out/training_graph.png, and the graph as out/training_graph.json.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from album import write_losses

import dml_jax
from dml_jax import Expression, Graph, GraphBuilder, TensorDesc

RATE, BETA1, BETA2 = 1e-3, 0.9, 0.999
EPSILON = 1e-5  # far above the rounding of gradients: a step does not depend on it
BATCH, SIDE, STEPS = 64, 16, 200
HALVES, ONES, NONE = [2, 2], [1, 1], [0, 0]  # of windows: sizes and strides, dilations, padding
SHAPES = ("disc", "square", "cross", "ring")

Tensor = TypeVar("Tensor", jax.Array, Expression)  # what can be computed, can be built


class State(NamedTuple):
    """The parameters by name, their two moments, and the number of the next step."""

    parameters: dict[str, Any]
    first_moment: dict[str, Any]
    second_moment: dict[str, Any]
    step: Any


class Seen(NamedTuple):
    """The tensors of the network that its gradients need, from the pictures to the logits."""

    sum1: Any
    active1: Any
    pooled1: Any
    sum2: Any
    pooled2: Any
    logits: Any


def drawn(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy pictures [count, 1, SIDE, SIDE] of shapes, and which: [1, 1, count, 4], 0 or 1.

    Args:
        count: how many pictures.
        seed: of the random numbers.
    """
    random = np.random.default_rng(seed)
    size, down, across = random.uniform([4, 6, 6], [6, 10, 10], (count, 3)).T[..., None, None]
    y, x = np.indices((SIDE, SIDE))[:, None]
    y, x = abs(y - down), abs(x - across)
    radius, side, near = np.hypot(y, x), np.maximum(y, x), np.minimum(y, x)
    ring, cross = abs(radius - size + 0.7) < 1, (side < size) & (near < 1.2)
    shapes = np.stack([radius < size, side < size * 0.9, cross, ring])
    kind = random.integers(0, len(SHAPES), count)
    pictures = shapes[kind, np.arange(count)] + random.normal(0, 0.25, (count, SIDE, SIDE))
    return pictures[:, None].astype(np.float32), np.eye(4, dtype=np.float32)[kind][None, None]


def started(key: jax.Array) -> State:
    """Return random filters, and biases and moments of 0."""
    sizes = {"filter1": (8, 1, 5, 5), "filter2": (16, 8, 3, 3), "weights": (1, 1, 256, 4)}
    scales = {"filter1": 0.2, "filter2": 0.15, "weights": 0.05}
    parameters = {
        name: scales[name] * jax.random.normal(jax.random.fold_in(key, index), shape, jnp.float32)
        for index, (name, shape) in enumerate(sizes.items())
    }
    shapes = {"bias1": (1, 8, 1, 1), "bias2": (1, 16, 1, 1), "bias3": (1, 1, 1, 4)}
    parameters |= {name: jnp.zeros(shape, jnp.float32) for name, shape in shapes.items()}
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return State(parameters, zeros, zeros, jnp.ones((1, 1, 1, 1), jnp.uint32))


# The network, on arrays or on expressions.


def flat(x: Tensor) -> Tensor:
    """Return {N, C, H, W} as a matrix {1, 1, N, C * H * W}: the same bytes."""
    sizes = (1, 1, x.shape[0], int(np.prod(x.shape[1:])))
    return x.reinterpret(sizes) if isinstance(x, Expression) else x.reshape(sizes)


def padded(by: int) -> dict[str, Any]:
    """Return the arguments of a convolution for `by` zeros on each side."""
    return {"start_padding": [by, by], "end_padding": [by, by]}


def forward(pictures: Any, p: dict[str, Any]) -> Seen:
    """Return the tensors of the network with parameters `p`."""
    sum1 = dml_jax.convolution(pictures, p["filter1"], p["bias1"], **padded(2))
    active1 = dml_jax.activation_relu(sum1)
    pooled1 = dml_jax.max_pooling(active1, HALVES, strides=HALVES).values
    sum2 = dml_jax.convolution(pooled1, p["filter2"], p["bias2"], **padded(1))
    pooled2 = dml_jax.average_pooling(
        dml_jax.activation_relu(sum2), HALVES, HALVES, NONE, NONE, ONES, False
    )
    logits = dml_jax.gemm(flat(pooled2), p["weights"], p["bias3"])
    return Seen(sum1, active1, pooled1, sum2, pooled2, logits)


def loss_of(logits: Tensor, labels: Any) -> Tensor:
    """Return the mean over the pictures of -log(chance of the right shape)."""
    chances = dml_jax.activation_log_softmax(logits, [3])
    total = dml_jax.reduce(dml_jax.multiply(chances, labels), "SUM", [0, 1, 2, 3])
    return dml_jax.multiply(total, -1 / BATCH)


def updated(state: State, gradients: dict[str, Any]) -> State:
    """Return the state after a step of ADAM_OPTIMIZER."""
    new = {
        name: dml_jax.adam_optimizer(
            *(x, state.first_moment[name], state.second_moment[name], gradients[name], state.step),
            *(RATE, BETA1, BETA2, EPSILON),
        )
        for name, x in state.parameters.items()
    }
    return State(
        {name: made.parameters for name, made in new.items()},
        {name: made.first_moment for name, made in new.items()},
        {name: made.second_moment for name, made in new.items()},
        state.step + 1,
    )


# The first way.


@jax.jit
def by_jax_grad(state: State, pictures: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
    """Return the state after a step, and the loss before it."""

    def loss(parameters: dict[str, jax.Array]) -> jax.Array:
        return loss_of(forward(pictures, parameters).logits, labels).sum()  # of one element

    value, gradients = jax.value_and_grad(loss)(state.parameters)
    return updated(state, gradients), value


# The second way.


def swapped(x: Expression) -> Expression:
    """Return {N, C, H, W} as {C, N, H, W}: the same bytes, by other strides."""
    n, c, height, width = x.sizes
    return x.reinterpret([c, n, height, width], [height * width, c * height * width, width, 1])


def filter_gradient(x: Expression, gradient: Expression, padding: int) -> Expression:
    """Return the gradient of a convolution's filter: a convolution whose roles are turned.

    The batch is what is summed over, as channels are in the forward convolution; the gradient of
    the output is the filter.
    """
    turned = dml_jax.convolution(swapped(x), swapped(gradient), **padded(padding))
    return swapped(turned)


def backward(
    pictures: Expression, labels: Expression, p: dict[str, Expression], seen: Seen
) -> dict[str, Expression]:
    """Return the gradient of the loss for each parameter, from the last layer to the first."""
    logits = (dml_jax.activation_softmax(seen.logits, [3]) - labels) * (1 / BATCH)
    pooled2 = dml_jax.gemm(logits, p["weights"], trans_b="TRANSPOSE").reinterpret(
        seen.pooled2.sizes
    )
    active2 = dml_jax.average_pooling_grad(pooled2, HALVES, HALVES, NONE, NONE, False)
    sum2 = dml_jax.activation_relu_grad(seen.sum2, active2)
    pooled1 = dml_jax.convolution(sum2, p["filter2"], direction="BACKWARD", **padded(1))
    active1 = dml_jax.max_pooling_grad(seen.active1, pooled1, HALVES, HALVES, NONE, NONE, ONES)
    sum1 = dml_jax.activation_relu_grad(seen.sum1, active1)
    return {
        "weights": dml_jax.gemm(flat(seen.pooled2), logits, trans_a="TRANSPOSE"),
        "bias3": dml_jax.reduce(logits, "SUM", [2]),
        "filter2": filter_gradient(seen.pooled1, sum2, 1),
        "bias2": dml_jax.reduce(sum2, "SUM", [0, 2, 3]),
        "filter1": filter_gradient(pictures, sum1, 2),
        "bias1": dml_jax.reduce(sum1, "SUM", [0, 2, 3]),
    }


def training_graph(state: State) -> Graph:
    """Return a step as one graph.

    Its inputs are the pictures, the labels and the leaves of `state`; its outputs are the loss and
    the leaves of the next state.
    """
    builder = GraphBuilder()
    pictures = builder.input_tensor("pictures", TensorDesc("FLOAT32", [BATCH, 1, SIDE, SIDE]))
    labels = builder.input_tensor("labels", TensorDesc("FLOAT32", [1, 1, BATCH, 4]))
    paths, tree = jax.tree_util.tree_flatten_with_path(state)
    names = [jax.tree_util.keystr(path, simple=True, separator=" ") for path, _ in paths]
    leaves = [
        builder.input_tensor(name, TensorDesc.of(leaf))
        for name, (_, leaf) in zip(names, paths, strict=True)
    ]
    given: State = jax.tree.unflatten(tree, leaves)
    seen = forward(pictures, given.parameters)
    gradients = backward(pictures, labels, given.parameters, seen)
    after = jax.tree.leaves(updated(given, gradients))
    outputs = {f"new {name}": leaf for name, leaf in zip(names, after, strict=True)}
    return builder.build({"loss": loss_of(seen.logits, labels), **outputs})


# Both ways.


def main(argv: Sequence[str] | None = None) -> None:
    """Train both ways, compare the losses, and draw them."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--steps", type=int, default=STEPS, help=f"{STEPS} by default")
    options = parser.parse_args(argv)

    first = started(jax.random.key(0))
    graph = training_graph(first)
    print(
        f"a graph of {len(graph.nodes)} nodes, from feature level {graph.minimum_feature_level} on"
    )
    program = dml_jax.compile(graph)
    state, leaves = first, jax.tree.leaves(first)
    losses = np.empty((2, options.steps))
    for step in range(options.steps):
        batch = drawn(BATCH, seed=step)
        state, value = by_jax_grad(state, *batch)
        loss, *leaves = program(*batch, *leaves)
        losses[:, step] = float(value), loss.item()
        if (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {losses[0, step]:.6f} and {losses[1, step]:.6f}")

    apart = abs(losses[0] / losses[1] - 1)
    print(f"the losses differ by {apart[:20].max():.0e} of themselves in the first 20 steps,")
    print(f"and by {apart.max():.0e} in all {options.steps}")
    assert apart[:20].max() < 1e-5
    assert apart.max() < 1e-2
    pictures, labels = drawn(1000, seed=options.steps)
    trained = {"jax.grad": state, "graph": jax.tree.unflatten(jax.tree.structure(first), leaves)}
    for name, result in trained.items():
        found = forward(pictures, result.parameters).logits
        right = (np.argmax(found, 3) == np.argmax(labels, 3)).mean()
        print(f"{name}: {right:.1%} of 1000 new pictures are told apart")
    names = ("jax.grad", "one graph of DirectML's operators")
    write_losses(Path("out/training_graph.png"), dict(zip(names, losses, strict=True)))
    graph.save(Path("out/training_graph.json"))
    print("out/training_graph.json written: dml-jax show out/training_graph.json")


if __name__ == "__main__":
    main()

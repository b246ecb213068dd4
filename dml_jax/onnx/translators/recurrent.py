"""Recurrent networks."""

from typing import Any

from dml_jax import functional as dml
from dml_jax import operators
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import of_rank, permute, without_owner

# The operator of each activation, and the defaults of its parameters; None for one without.
ACTIVATIONS: dict[str, tuple[str, dict[str, float | None]]] = {
    "affine": ("ActivationLinear", {"alpha": None, "beta": None}),
    "elu": ("ActivationElu", {"alpha": 1.0}),
    "hardsigmoid": ("ActivationHardSigmoid", {"alpha": 0.2, "beta": 0.5}),
    "leakyrelu": ("ActivationLeakyRelu", {"alpha": 0.01}),
    "relu": ("ActivationRelu", {}),
    "scaledtanh": ("ActivationScaledTanh", {"alpha": 1.0, "beta": 1.0}),
    "sigmoid": ("ActivationSigmoid", {}),
    "softplus": ("ActivationSoftplus", {"steepness": 1.0}),
    "softsign": ("ActivationSoftsign", {}),
    "tanh": ("ActivationTanh", {}),
    "thresholdedrelu": ("ActivationThresholdedRelu", {"alpha": 1.0}),
}
DIRECTIONS = {"forward": "FORWARD", "foward": "FORWARD"}  # the second is version 1's default
DIRECTIONS |= {"reverse": "BACKWARD", "bidirectional": "BIDIRECTIONAL"}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def activations(node: Node, directions: int, default: list[str]) -> list[Any]:
    """Return the activations of the gates, forward first."""
    count = len(default) * directions
    names = (node.attribute("activations") or default * directions)[:count]
    node.expect(len(names) == count, "activations", f"have {count} entries", len(names))
    given = {n: list(node.attribute(f"activation_{n}") or []) for n in ("alpha", "beta")}
    found = []
    for name in names:
        if name.lower() not in ACTIVATIONS:
            raise node.refusal("activations", f"be of {', '.join(ACTIVATIONS)}", name)
        operator, parameters = ACTIVATIONS[name.lower()]
        values = {n: given[n].pop(0) if given.get(n) else v for n, v in parameters.items()}
        if None in values.values():
            raise node.refusal("activation_alpha", f"have a value for {name}", given["alpha"])
        found.append(getattr(operators, operator).fused(**values))
    return found


def check_lengths(node: Node, index: int, steps: int) -> None:
    """Raise `DmlError` where input `index` is known, and has lengths above the number of steps."""
    known = node.known(index)
    is_right = known is None or ((known >= 0) & (known <= steps)).all()
    node.expect(is_right, "sequence_lens", f"be in [0, {steps}]", known)


def _of_no_steps(node: Node) -> Any:
    """Return the outputs where the sequence has no steps: the first states, or zeros."""
    return [
        None
        if kind is None or kind.is_empty
        else node.tensor(4 + k)
        if node.has(4 + k)
        else dml.fill_value_constant(kind.shape or (), kind.inner, 0, graph=node.builder)
        for k, kind in enumerate(node.types)
    ]


@translates("GRU", "LSTM", "RNN", written_as=early_versions.RECURRENT)
def _recurrent(node: Node) -> Any:
    """Return the outputs of a recurrent network.

    With layout 1 the batch is the first dimension of the sequence and of the states.
    """
    if node.type().is_empty:
        return _of_no_steps(node)
    is_batch_first, clip = bool(node.attribute("layout", 0)), node.attribute("clip")
    check_lengths(node, 4, node.shape()[is_batch_first])
    if clip and node.op_type != "LSTM":
        raise node.refusal("clip", "be left out (DirectML has it in LSTM)", "a number")
    direction = DIRECTIONS[node.choice("direction", DIRECTIONS)]
    directions = 2 if direction == "BIDIRECTIONAL" else 1

    def tensor(index: int, is_turned: bool = False) -> Any:
        """Return an input with ones in front, four dimensions in all."""
        x = node.get(index)
        if x is None:
            return None
        return of_rank(without_owner(permute(x, (1, 0, 2)) if is_turned else x), 4)

    lengths, more = tensor(4), dict[str, Any]()
    if node.op_type == "GRU":
        is_before = bool(node.attribute("linear_before_reset", 0))
        more = {"linear_before_reset": is_before, "output_options": "BOTH"}
    elif node.op_type == "LSTM":
        more = {"cell_mem_init": tensor(6, is_batch_first), "peephole": tensor(7)}
        more |= {"clip_threshold": clip or 0.0, "use_clip_threshold": clip is not None}
        more["couple_input_forget"] = bool(node.attribute("input_forget"))
    outputs: Any = node.function(
        input=tensor(0, is_batch_first),
        weight=tensor(1),
        recurrence=tensor(2),
        bias=tensor(3),
        hidden_init=tensor(5, is_batch_first),
        sequence_lengths=None if lengths is None else dml.cast(lengths, "UINT32"),
        activation_descs=activations(node, directions, DEFAULTS[node.op_type]),
        direction=direction,
        **more,
    )
    made = tuple(outputs)[: len(node.types)]
    if not is_batch_first:
        return [*made]
    orders = (2, 0, 1, 3), *[(0, 2, 1, 3)] * 2  # of all steps, and of the last states
    pairs = zip(made, orders, strict=False)
    return [None if x is None else permute(x, order) for x, order in pairs]

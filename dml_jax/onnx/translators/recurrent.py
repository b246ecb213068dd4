"""Recurrent networks."""

from typing import Any

from dml_jax import functional as dml
from dml_jax import operators
from dml_jax.onnx.nodes import early_versions
from dml_jax.onnx.nodes.node import Node
from dml_jax.onnx.nodes.op_types import translates
from dml_jax.onnx.nodes.reshapes import of_rank, permuted, reshaped, unowned

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
DIRECTIONS = {
    "forward": "FORWARD",
    "foward": "FORWARD",  # the default of version 1
    "reverse": "BACKWARD",
    "bidirectional": "BIDIRECTIONAL",
}
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


def check_lengths(node: Node, steps: int) -> None:
    """Raise `DmlError` where a sequence is known to have more steps than there are."""
    known = node.known(4)
    is_right = known is None or ((known >= 0) & (known <= steps)).all()
    node.expect(is_right, "sequence_lens", f"be in [0, {steps}]", known)


class _Parts:
    """The inputs of a recurrent network as DirectML's operators have them.

    With layout 1 the batch is the first dimension of the sequence and of the states.
    """

    def __init__(self, node: Node):
        self.node, self.is_batch_first = node, bool(node.attribute("layout", 0))
        check_lengths(node, node.shape()[self.is_batch_first])
        if node.attribute("clip") and node.op_type != "LSTM":
            raise node.refusal("clip", "be left out (DirectML has it in LSTM)", "a number")
        self.direction = DIRECTIONS[node.choice("direction", DIRECTIONS)]
        directions = 2 if self.direction == "BIDIRECTIONAL" else 1
        self.activations = activations(node, directions, DEFAULTS[node.op_type])

    def tensor(self, index: int) -> Any:
        """Return an input with ones in front, up to four dimensions."""
        x = self.node.given(index)
        if x is None:
            return None
        return of_rank(unowned(x), 4)

    def batched(self, index: int) -> Any:
        """Return an input whose batch is the second dimension, with a dimension in front."""
        x = self.node.given(index)
        if x is None:
            return None
        x = permuted(x, (1, 0, 2)) if self.is_batch_first else x
        return reshaped(unowned(x), (1, *x.sizes))

    def lengths(self) -> Any:
        x = self.tensor(4)
        return None if x is None else dml.cast(x, "UINT32")

    def results(self, outputs: Any) -> list[Any]:
        """Return the outputs as the node has them."""
        made = tuple(outputs)[: len(self.node.types)]
        if not self.is_batch_first:
            return [*made]
        orders = (2, 0, 1, 3), *[(0, 2, 1, 3)] * 2  # of all steps, and of the last states
        pairs = zip(made, orders, strict=False)
        return [None if x is None else permuted(x, order) for x, order in pairs]

    def common(self) -> dict[str, Any]:
        """Return the arguments that all recurrent networks have."""
        return {
            "input": self.batched(0),
            "weight": self.tensor(1),
            "recurrence": self.tensor(2),
            "bias": self.tensor(3),
            "hidden_init": self.batched(5),
            "sequence_lengths": self.lengths(),
            "activation_descs": self.activations,
            "direction": self.direction,
        }


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


@translates("LSTM", written_as=early_versions.RECURRENT)
def _lstm(node: Node) -> Any:
    if node.type().is_empty:
        return _of_no_steps(node)
    parts, clip = _Parts(node), node.attribute("clip")
    made = dml.lstm(
        **parts.common(),
        cell_mem_init=parts.batched(6),
        peephole=parts.tensor(7),
        clip_threshold=clip or 0.0,
        use_clip_threshold=clip is not None,
        couple_input_forget=bool(node.attribute("input_forget")),
    )
    return parts.results(made)


@translates("GRU", written_as=early_versions.RECURRENT)
def _gru(node: Node) -> Any:
    if node.type().is_empty:
        return _of_no_steps(node)
    parts, is_before = _Parts(node), bool(node.attribute("linear_before_reset", 0))
    return parts.results(
        dml.gru(**parts.common(), linear_before_reset=is_before, output_options="BOTH")
    )


@translates("RNN", written_as=early_versions.RECURRENT)
def _rnn(node: Node) -> Any:
    if node.type().is_empty:
        return _of_no_steps(node)
    parts = _Parts(node)
    return parts.results(dml.rnn(**parts.common()))

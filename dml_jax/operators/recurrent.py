"""Recurrent networks: RNN, LSTM, GRU."""

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
from jax import lax

from dml_jax.errors import DmlError, Fault
from dml_jax.lowering import recurrent
from dml_jax.lowering.dtypes import wide, wide_type
from dml_jax.lowering.element_wise import identity
from dml_jax.lowering.mesh_axes import alike
from dml_jax.lowering.platform_forms import by_platform
from dml_jax.lowering.recurrent import UNROLLED
from dml_jax.operator import Operator
from dml_jax.operators.activation import ActivationSigmoid, ActivationTanh

TURNED = "turned"
"""The layout in which weights are [1, I, D, G*K], and recurrences [1, D, K, G*K]."""

Weights = Callable[[jax.Array], jax.Array]

_OPTIONS = "be Both, Sequence or Single: the outputs to make"


class Recurrent(Operator):
    """Reads sequences step by step.

    Letters name sizes: S steps, N sequences, I inputs, K hidden units, D directions (2 of
    BIDIRECTIONAL, else 1). In each direction and step t, X_t is [N, I] of the input, W of the
    weights, R of the recurrences, Wb and Rb the two halves of the bias, and H_(t-1) the output of
    the step before, at first `hidden_init_tensor`. f, g and h are the activations in the order of
    `activation_descs`, `*` multiplies matrices, `^T` transposes, and `.` multiplies elements.

    Choices: a sequence that is shorter than S has output 0 beyond its end. Its states do not change
    there, and its backward pass begins at its last step. Its last states are those after the last
    step of the pass. A length above S is S; a sequence of length 0 keeps its first
    states. Bias, first states and peepholes that are left out are 0. Everything is computed in
    FLOAT32, the states of FLOAT16 too; outputs are rounded once. On an NVIDIA GPU the product with
    the recurrence reads states of FLOAT16 cells rounded to FLOAT16.

    Gradient: back through the steps of each sequence; 0 for inputs beyond its end.

    Fields:
        input_tensor: the sequences, [1, S, N, I].
        weight_tensor: what multiplies the inputs, [1, D, G*K, I] for G gates.
        recurrence_tensor: what multiplies the output of the step before, [1, D, G*K, K].
        bias_tensor: what is added, [1, 1, D, 2*G*K]: first beside the weights, then beside the
            recurrences.
        hidden_init_tensor: the output before the first step, [1, D, N, K].
        sequence_lengths_tensor: the number of steps of each sequence, [1, 1, 1, N].
        output_sequence_tensor: the output of each step, [S, D, N, K], by the time of the input.
        output_single_tensor: the output of the last step of each pass, [1, D, N, K].
        activation_descs: the activations of the forward pass, then of the backward pass.
        direction: FORWARD, BACKWARD, or BIDIRECTIONAL: both passes, forward first.
    """

    gate_count: ClassVar[int]
    state_count: ClassVar[int] = 1
    usual_activations: ClassVar[tuple[Any, ...]]
    """The activations of one pass, as ONNX and PyTorch have them."""

    def functions(self) -> list[recurrent.Function]:
        """Return the activations f, g, ... as functions of all directions."""
        directions = self.weight_tensor.sizes[1]
        each = len(self.activation_descs) // directions
        return [recurrent.by_direction(self.activation_descs[k::each]) for k in range(each)]

    def lower(self, *arrays, layout=""):
        given = alike(arrays)

        def computed(weights: Weights, unroll: int | None, *there: jax.Array) -> Any:
            left = iter(there)
            every = [None if x is None else next(left) for x in given]
            return self._run(every, weights, layout == TURNED, unroll)

        there = [x for x in given if x is not None]
        if there[0].dtype.itemsize > 2:
            return computed(wide, None, *there)
        plain = functools.partial(computed, wide, None)
        unrolled = functools.partial(computed, lambda x: x, UNROLLED)
        return by_platform(plain, cuda=unrolled, whole_arrays=False)(*there)

    @abstractmethod
    def cell(
        self, recurrence: jax.Array, bias: Any, *peephole: Any, is_turned: bool
    ) -> tuple[Callable[..., recurrent.States], jax.Array | None]:
        """Return the step of a cell, and what is added to the products of the inputs.

        The recurrence lies as a product reads it where it `is_turned`.
        """

    def _run(
        self, arrays: Sequence[Any], weights: Weights, is_turned: bool, unroll: int | None
    ) -> tuple[jax.Array, ...]:
        """Return the outputs of the arrays of the tensors, None for one that is left out.

        `weights` converts weights and recurrences to the type that products read. They lie as a
        product reads them where it `is_turned`; `unroll` is as for `recurrent.passes`.
        """
        x, weight, recurrence, bias, *others = arrays
        states, (lengths, *peephole) = others[: self.state_count], others[self.state_count :]
        step, added = self.cell(weights(recurrence)[0], bias, *peephole, is_turned=is_turned)
        directions, rows = self.weight_tensor.sizes[1:3]
        sizes = (directions, x.shape[2], rows // self.gate_count)
        zeros = lax.full_like(x, 0, wide_type(x.dtype), sizes)
        first = tuple(zeros if s is None else wide(s)[0] for s in states)
        backward = {"FORWARD": [False], "BACKWARD": [True]}.get(
            self.direction.suffix, [False, True]
        )
        steps = None if lengths is None else lengths.reshape(-1)
        read = wide(x)[0], weights(weight)[0]
        sequence, last = recurrent.passes(
            step, *read, added, first, steps, backward, is_turned, unroll
        )
        made = (sequence, *(state[None] for state in last))
        return tuple(lax.convert_element_type(array, x.dtype) for array in made)

    @classmethod
    def infer_from(cls, **fields: Any) -> Self:
        """Return the network that a function describes, with the usual activations."""
        if fields.get("activation_descs") is None:
            weight = fields["weight_tensor"]
            directions = weight.sizes[1] if weight.dimension_count == 4 else 1
            fields["activation_descs"] = cls.usual_activations * directions
        return super().infer_from(**fields)


def _summed(bias: jax.Array | None) -> jax.Array | None:
    """Return both halves of a bias tensor added up, [D, G*K]."""
    if bias is None:
        return None
    inputs, recurrences = jnp.split(wide(bias)[0, 0], 2, -1)
    return inputs + recurrences


class Rnn(Recurrent, op="RNN"):
    """Runs a simple recurrent network: each step activates a sum of its input and its last output.

    `H_t = f(X_t * W^T + H_(t-1) * R^T + Wb + Rb)`

    Fields:
        activation_descs: f of the forward pass, then f of the backward pass.
    """

    gate_count, usual_activations = 1, (ActivationTanh,)

    def cell(self, recurrence, bias, *, is_turned):
        (f,) = self.functions()
        return recurrent.rnn(recurrence, f, is_turned), _summed(bias)


class Lstm(Recurrent, op="LSTM"):
    """Runs a long short-term memory: gates decide what a cell takes in, forgets and gives out.

    `i = f(X_t * Wi^T + H_(t-1) * Ri^T + Pi . C_(t-1) + Wbi + Rbi)`

    `ft = f(X_t * Wf^T + H_(t-1) * Rf^T + Pf . C_(t-1) + Wbf + Rbf)`, or `1 - i` where
    `couple_input_forget`

    `c = g(X_t * Wc^T + H_(t-1) * Rc^T + Wbc + Rbc)`

    `C_t = ft . C_(t-1) + i . c`

    `o = f(X_t * Wo^T + H_(t-1) * Ro^T + Po . C_t + Wbo + Rbo)`

    `H_t = o . h(C_t)`

    The gates lie in the order i, o, f, c. Where `use_clip_threshold`, f and g read numbers limited
    to [-clip_threshold, clip_threshold].

    Choices: the output gate's peephole reads C_t, as in ONNX; an older text of the page has
    C_(t-1). The threshold limits what f and g take, not what h takes.

    Fields:
        cell_mem_init_tensor: the cell before the first step, [1, D, N, K].
        peephole_tensor: Pi, Po and Pf, [1, 1, D, 3*K].
        output_cell_single_tensor: the cell after the last step of each pass, [1, D, N, K].
        activation_descs: f, g and h of the forward pass, then of the backward pass.
        clip_threshold: what f and g take is limited to [-clip_threshold, clip_threshold]; 0 or
            more where it is used.
        use_clip_threshold: whether there is a limit.
        couple_input_forget: whether the forget gate is `1 - i`.
    """

    gate_count, usual_activations = 4, (ActivationSigmoid, ActivationTanh, ActivationTanh)
    state_count = 2

    def cell(self, recurrence, bias, peephole, *, is_turned):
        limit = self.clip_threshold
        step = recurrent.lstm(
            recurrence,
            None if peephole is None else wide(peephole)[0, 0],
            self.functions(),
            (lambda v: jnp.clip(v, -limit, limit)) if self.use_clip_threshold else identity,
            self.couple_input_forget,
            is_turned,
        )
        return step, _summed(bias)


class Gru(Recurrent, op="GRU"):
    """Runs gated recurrent units: gates decide how much of the last output stays.

    `z = f(X_t * Wz^T + H_(t-1) * Rz^T + Wbz + Rbz)`

    `r = f(X_t * Wr^T + H_(t-1) * Rr^T + Wbr + Rbr)`

    `h = g(X_t * Wh^T + (r . H_(t-1)) * Rh^T + Wbh + Rbh)`, or where `linear_before_reset`
    `h = g(X_t * Wh^T + r . (H_(t-1) * Rh^T + Rbh) + Wbh)`

    `H_t = (1 - z) . h + z . H_(t-1)`

    The gates lie in the order z, r, h.

    Fields:
        activation_descs: f and g of the forward pass, then of the backward pass.
        linear_before_reset: whether r multiplies after the product with Rh.
    """

    gate_count, usual_activations = 3, (ActivationSigmoid, ActivationTanh)
    arguments = ("output_options",)

    @classmethod
    def call_of(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with the outputs that `output_options` names."""
        option = arguments.pop("output_options")
        names = ["output_sequence_tensor", "output_single_tensor"]
        options = {"BOTH": names, "SEQUENCE": names[:1], "SINGLE": names[1:]}
        outputs = options.get(str(getattr(option, "name", option)).upper())
        if outputs is None:
            raise DmlError([Fault(cls.c_name, "output_options", _OPTIONS, option)])
        return {**arguments, "outputs": frozenset(outputs)}

    def cell(self, recurrence, bias, *, is_turned):
        added, hidden = _summed(bias), None
        if self.linear_before_reset:  # r multiplies the last of the biases too
            directions, rows = self.weight_tensor.sizes[1:3]
            units = rows // 3
            hidden = jnp.zeros((directions, units), wide_type(recurrence.dtype))
            if bias is not None:
                inputs, recurrences = jnp.split(wide(bias)[0, 0], 2, -1)
                hidden = recurrences[:, 2 * units :]
                added = inputs + recurrences.at[:, 2 * units :].set(0)
        return recurrent.gru(recurrence, hidden, self.functions(), is_turned), added

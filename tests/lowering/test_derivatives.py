"""Derivatives of functions of each element, of first and second order, by their formulas in mpmath.

Points are zeros, ties, the middle of a range and its far ends, where an intermediate leaves the
range of the type, or cancels, and the derivative does not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from forms import compiled_soon
from mpmath import cosh, erfc, exp, log, mpf, pi, sinh, sqrt, tanh
from nightly import NIGHTLY, sample
from records import fused_activations, why_no_derivatives

from dml_jax import ScaleBias, TensorDesc
from dml_jax.facts import PREFIX
from dml_jax.operator import OPERATORS

mpmath.mp.dps = 40
Formula = Callable[..., Any]
FAR = mpf(10) ** 150  # stands for infinity in a formula
ONE = float(np.nextafter(np.float32(1), np.float32(0)))
LARGEST = float(np.finfo(np.float32).max)
TINY = float(np.finfo(np.float32).tiny)
POINTS = [
    0, TINY, 2e-38, 6e-20, 1e-20, 1e-10, 1e-7, 1e-6, 1e-4, 1e-3, 0.01, 0.1, 0.25, 0.5, 0.99, ONE,
    1, 2 - ONE, 1.1, 1.5, 2, 3, 4, 5, 8, 9, 10, 12, 20, 40, 85, 88, 90, 100, 1e3, 1e4, 65504, 1e7,
    1e10, 1e13, 1e19, 2e19, 1e20, 1e30, 1e38, LARGEST,
]  # fmt: skip


@dataclass(frozen=True)
class Slopes:
    """The derivatives of a function of one number, by formulas.

    Attributes:
        first, second: the derivatives, as numbers or functions.
        attributes: the operator's attributes, as FLOAT32 has them.
        low, high: the range of numbers that have a derivative.
        left_out: whether numbers are not compared, as an infinity that has no limit.
    """

    first: Any
    second: Any = 0
    attributes: Mapping[str, Any] = field(default_factory=dict)
    low: float = -np.inf
    high: float = np.inf
    left_out: Callable[[float], bool] = lambda x: False

    def points(self, dtype: Any) -> np.ndarray:
        """Return the numbers that are compared, both zeros and infinities among them."""
        with np.errstate(over="ignore"):
            both = np.unique(np.array([*POINTS, np.inf, *(-p for p in POINTS), -np.inf], dtype))
        kept = [p for p in both.tolist() if self.low <= p <= self.high and not self.left_out(p)]
        return np.array([*kept, *[-p for p in kept if p == 0], np.nan], dtype)

    def expected(self, order: int, x: float) -> Any:
        """Return a derivative; None where nothing is compared."""
        formula = self.second if order == 2 else self.first
        if np.isnan(x):
            return np.nan if order == 1 and self.second != 0 else None
        return _at(formula, _exact(x))


def _exact(x: float, far: Any = FAR) -> Any:
    return int(np.sign(x)) * far if np.isinf(x) else mpf(float(x))


def _if(holds: Callable[[Any], bool], one: Any, other: Any) -> Formula:
    return lambda x: _at(one if holds(x) else other, x)


def _at(formula: Any, *xs: Any) -> Any:
    return formula(*xs) if callable(formula) else formula


def is_above(x: Any) -> bool:
    return x > 0


def is_from_0(x: Any) -> bool:
    return x >= 0


def sech2(x: Any) -> Any:
    return 1 / cosh(x) ** 2


def sigmoid(x: Any) -> Any:
    return 1 / (1 + exp(-x))


def of_sigmoid(x: Any) -> Any:
    return sigmoid(x) * sigmoid(-x)


def bell(x: Any) -> Any:
    return exp(-x * x / 2) / sqrt(2 * pi)


def power(factor: float, x: Any, exponent: float) -> Any:
    if factor == 0 or exponent == 0:
        return factor
    if x == 0:
        return factor * (0 if exponent > 0 else np.inf)
    return factor * mpf(x) ** mpf(exponent)


def constant_power(e: float) -> Slopes:
    return Slopes(
        lambda x: power(e, x, e - 1),
        0 if e in (0, 1) else lambda x: power(e * (e - 1), x, e - 2),
        {"exponent": e},
        0 if e % 1 else -np.inf,
        # At 0 the sign of an infinity is nobody's; of subnormal factors a CPU makes 0.
        left_out=lambda x: (x == 0 and e < 2) or (0 < abs(x) < 1e-18 and e > 3),
    )


def swish(s: float) -> Slopes:
    return Slopes(
        lambda x: sigmoid(s * x) + s * x * of_sigmoid(s * x),
        lambda x: s * of_sigmoid(s * x) * (2 - s * x * tanh(s * x / 2)),
        {"sigmoid_input_scale": s},
        left_out=lambda x: 1.9 < abs(s * x) < 2.6,  # where the second derivative is 0
    )


def celu(alpha: float) -> Slopes:
    return Slopes(
        _if(is_from_0, 1, lambda x: exp(x / alpha)),
        _if(is_from_0, 0, lambda x: exp(x / alpha) / alpha),
        {"alpha": alpha},
    )


def softplus(alpha: float, beta: float, /, **attributes: float) -> Slopes:
    a, b = (mpf(float(np.float32(v))) for v in (alpha, beta))
    return Slopes(
        lambda x: a * b * sigmoid(b * x), lambda x: a * b * b * of_sigmoid(b * x), attributes
    )


def scaled_tanh(alpha: float, beta: float) -> Slopes:
    return Slopes(
        lambda x: alpha * beta * sech2(beta * x),
        lambda x: -2 * alpha * beta**2 * sech2(beta * x) * tanh(beta * x),
        {"alpha": alpha, "beta": beta},
    )


def hard_swish(alpha: float, beta: float) -> Slopes:
    def is_between(x: Any) -> bool:
        return 0 < alpha * x + beta < 1

    is_one = _if(lambda x: alpha * x + beta >= 1, 1, 0)
    return Slopes(
        _if(is_between, lambda x: 2 * alpha * x + beta, is_one),
        _if(is_between, 2 * alpha, 0),
        {"alpha": alpha, "beta": beta},
        left_out=lambda x: abs(2 * alpha * x + beta) < 1e-6,
    )


CLIP = _if(lambda x: -1.5 < x < 2, 1, 0)
BOUNDS = {"min": -1.5, "max": 2.0}
TANH = Slopes(sech2, lambda x: -2 * sech2(x) * tanh(x))
UNARY: dict[str, Slopes | list[Slopes]] = {
    "ELEMENT_WISE_IDENTITY": Slopes(1),
    "ELEMENT_WISE_ABS": Slopes(_if(is_from_0, 1, -1)),
    "ELEMENT_WISE_ACOS": Slopes(
        lambda x: -1 / sqrt(1 - x * x), lambda x: -x / sqrt(1 - x * x) ** 3, low=-ONE, high=ONE
    ),
    "ELEMENT_WISE_ASIN": Slopes(
        lambda x: 1 / sqrt(1 - x * x), lambda x: x / sqrt(1 - x * x) ** 3, low=-ONE, high=ONE
    ),
    "ELEMENT_WISE_ATAN": Slopes(lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "ELEMENT_WISE_CEIL": Slopes(0),
    "ELEMENT_WISE_CLIP": Slopes(CLIP, 0, BOUNDS),
    "ELEMENT_WISE_CLIP1": Slopes(CLIP, 0, {**BOUNDS, "min_max_data_type": "FLOAT32"}),
    "ELEMENT_WISE_COS": Slopes(
        lambda x: -mpmath.sin(x), lambda x: -mpmath.cos(x), left_out=np.isinf
    ),
    "ELEMENT_WISE_EXP": Slopes(exp, exp),
    "ELEMENT_WISE_FLOOR": Slopes(0),
    "ELEMENT_WISE_LOG": Slopes(lambda x: 1 / x, lambda x: -1 / (x * x), low=TINY),
    "ELEMENT_WISE_CONSTANT_POW": [
        constant_power(e) for e in (0, 1, 2, 3, 0.5, 1.5, -1, -2, -0.5, 4, 3.5)
    ],
    "ELEMENT_WISE_RECIP": Slopes(
        lambda x: -1 / (x * x), lambda x: 2 / x**3, left_out=lambda x: x == 0
    ),
    "ELEMENT_WISE_SIN": Slopes(mpmath.cos, lambda x: -mpmath.sin(x), left_out=np.isinf),
    "ELEMENT_WISE_SQRT": Slopes(
        lambda x: 1 / (2 * sqrt(x)), lambda x: -1 / (4 * sqrt(x) ** 3), low=TINY
    ),
    "ELEMENT_WISE_TAN": Slopes(
        lambda x: 1 / mpmath.cos(x) ** 2,
        lambda x: 2 * mpmath.tan(x) / mpmath.cos(x) ** 2,
        left_out=np.isinf,
    ),
    "ELEMENT_WISE_THRESHOLD": Slopes(_if(lambda x: x > 1.5, 1, 0), 0, {"min": 1.5}),
    "ELEMENT_WISE_SIGN": Slopes(0),
    "ELEMENT_WISE_NEGATE": Slopes(-1),
    "ELEMENT_WISE_ERF": Slopes(
        lambda x: 2 / sqrt(pi) * exp(-x * x), lambda x: -4 * x / sqrt(pi) * exp(-x * x)
    ),
    "ELEMENT_WISE_SINH": Slopes(cosh, sinh),
    "ELEMENT_WISE_COSH": Slopes(sinh, cosh),
    "ELEMENT_WISE_TANH": TANH,
    "ELEMENT_WISE_ASINH": Slopes(
        lambda x: 1 / sqrt(x * x + 1), lambda x: -x / sqrt(x * x + 1) ** 3
    ),
    "ELEMENT_WISE_ACOSH": Slopes(
        lambda x: 1 / sqrt(x * x - 1), lambda x: -x / sqrt(x * x - 1) ** 3, low=1 + 1e-7
    ),
    "ELEMENT_WISE_ATANH": Slopes(
        lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2, low=-ONE, high=ONE
    ),
    "ELEMENT_WISE_ROUND": Slopes(0, 0, {"rounding_mode": "HALVES_TO_NEAREST_EVEN"}),
    "ACTIVATION_ELU": Slopes(
        _if(is_from_0, 1, lambda x: 1.5 * exp(x)),
        _if(is_from_0, 0, lambda x: 1.5 * exp(x)),
        {"alpha": 1.5},
    ),
    "ACTIVATION_CELU": [
        celu(2),
        celu(0.25),
        celu(-2.0),
        Slopes(_if(is_above, 1, 0), 0, {"alpha": 0}),
    ],
    "ACTIVATION_HARD_SIGMOID": Slopes(
        _if(lambda x: 0 < 0.25 * x + 0.5 < 1, 0.25, 0), 0, {"alpha": 0.25, "beta": 0.5}
    ),
    "ACTIVATION_IDENTITY": Slopes(1),
    "ACTIVATION_LEAKY_RELU": Slopes(_if(is_from_0, 1, 0.25), 0, {"alpha": 0.25}),
    "ACTIVATION_LINEAR": Slopes(4, 0, {"alpha": 4, "beta": 1}),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": [
        softplus(a, b, alpha=a, beta=b)
        for a, b in ((1.5, 2), (2, -0.5), (1e-20, 1e20), (1e20, 1e-20))
    ],
    "ACTIVATION_RELU": Slopes(_if(is_above, 1, 0)),
    "ACTIVATION_SCALED_ELU": Slopes(
        _if(is_above, 2, exp), _if(is_above, 0, exp), {"alpha": 0.5, "gamma": 2}
    ),
    "ACTIVATION_SCALED_TANH": [scaled_tanh(1.5, 0.5), scaled_tanh(-2, 4)],
    "ACTIVATION_SIGMOID": Slopes(of_sigmoid, lambda x: -of_sigmoid(x) * tanh(x / 2)),
    "ACTIVATION_SOFTPLUS": [
        softplus(1 / mpf(float(np.float32(s))), s, steepness=s) for s in (1, 4, 0.5, -2, 1e20)
    ],
    "ACTIVATION_SOFTSIGN": Slopes(
        lambda x: 1 / (1 + abs(x)) ** 2,
        lambda x: -2 * mpmath.sign(x) / (1 + abs(x)) ** 3,
        left_out=lambda x: x == 0,
    ),
    "ACTIVATION_TANH": TANH,
    "ACTIVATION_THRESHOLDED_RELU": Slopes(_if(lambda x: x > 1.5, 1, 0), 0, {"alpha": 1.5}),
    "ACTIVATION_SHRINK": Slopes(
        _if(lambda x: abs(x) > 1.5, 1, 0), 0, {"bias": 0.5, "threshold": 1.5}
    ),
    "ACTIVATION_GELU": Slopes(
        lambda x: erfc(-x / sqrt(2)) / 2 + x * bell(x), lambda x: bell(x) * (2 - x * x)
    ),
    "ACTIVATION_SWISH": [swish(s) for s in (1, 0.5, -2, 4)],
    "ACTIVATION_HARD_SWISH": [hard_swish(0.25, 0.5), hard_swish(-0.5, 0.25)],
}


# Functions of two numbers: derivatives by a and by b, then by a twice, by both, by b twice.

Both = tuple[Any, Any, Any, Any, Any]


def _linear(a: Any, b: Any) -> Both:
    return a, b, 0, 0, 0


def _larger(a: Any, b: Any) -> Both:
    share = mpf(1) / 2 if a == b else int(a > b)
    return share, 1 - share, 0, 0, 0


def _quotient(a: Any, b: Any) -> Both:
    return 1 / b, -a / b**2, 0, -1 / b**2, 2 * a / b**3


def _angle(a: Any, b: Any) -> Both:
    square = a * a + b * b
    if square == 0:
        return 0, 0, None, None, None
    curved = 2 * a * b / square**2
    return b / square, -a / square, -curved, (a * a - b * b) / square**2, curved


def _power(x: Any, e: Any) -> Both:
    known = x > 0
    logarithm = log(x) if known else 0
    whole = power(1, x, e) if known else 0
    both = 1 + e * logarithm
    return (
        power(e, x, e - 1),
        whole * logarithm,
        None if x == 0 and e < 2 else power(e * (e - 1), x, e - 2),
        power(1, x, e - 1) * both
        if known and abs(both) > 0.2 and not (x >= FAR and e == 1)
        else None,
        whole * logarithm**2,
    )


def _slope(x: Any, slope: Any) -> Both:
    return (1, 0, 0, 0, 0) if x >= 0 else (slope, x, 0, 1, 0)


SIDES = [0, TINY, 1e-20, 6e-20, 1e-7, 0.5, 1, 1.5, 3, 7, 1e7, 1e19, 1e20, 1e38, LARGEST, np.inf]
EXPONENTS = [-4, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 7]


def _no_power(x: float, e: float) -> bool:
    is_far = np.isinf(x) and (x < 0 or e == 0)
    return is_far or (x < 0 and e % 1 != 0) or (x == 0 and e < 1)


BINARY: dict[str, Callable[..., Both]] = {
    "ELEMENT_WISE_ADD": lambda a, b: _linear(1, 1),
    "ELEMENT_WISE_ADD1": lambda a, b: _linear(1, 1),
    "ELEMENT_WISE_SUBTRACT": lambda a, b: _linear(1, -1),
    "ELEMENT_WISE_MULTIPLY": lambda a, b: (b, a, 0, 1, 0),
    "ELEMENT_WISE_DIVIDE": _quotient,
    "ELEMENT_WISE_MAX": _larger,
    "ELEMENT_WISE_MIN": lambda a, b: _larger(-a, -b),
    "ELEMENT_WISE_MEAN": lambda a, b: _linear(mpf(1) / 2, mpf(1) / 2),
    "ELEMENT_WISE_DIFFERENCE_SQUARE": lambda a, b: (2 * (a - b), 2 * (b - a), 2, -2, 2),
    "ELEMENT_WISE_ATAN_YX": _angle,
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda a, b: _linear(1, -int(a / b)),
    "ELEMENT_WISE_MODULUS_FLOOR": lambda a, b: _linear(1, -mpmath.floor(a / b)),
    "ELEMENT_WISE_POW": _power,
    "ELEMENT_WISE_CLIP_GRAD": lambda x, dy: _linear(0, CLIP(x)),
    "ELEMENT_WISE_CLIP_GRAD1": lambda x, dy: _linear(0, CLIP(x)),
    "ACTIVATION_RELU_GRAD": lambda x, dy: _linear(0, int(x > 0)),
    "ACTIVATION_PARAMETERIZED_RELU": _slope,
}
# Pairs of numbers that have no derivatives.
WITHOUT: dict[str, Callable[[float, float], bool]] = {
    "ELEMENT_WISE_DIVIDE": lambda a, b: b == 0,
    "ELEMENT_WISE_MODULUS_TRUNCATE": lambda a, b: b == 0 or np.isinf(a),
    "ELEMENT_WISE_MODULUS_FLOOR": lambda a, b: b == 0 or np.isinf(a),
    "ELEMENT_WISE_POW": _no_power,
}


# What no formula of one or two numbers is compared for, and why.
LEFT_OUT = {
    "ELEMENT_WISE_IF": "copies an element; finite differences compare it",
    "VALUE_SCALE_2D": "linear; finite differences compare it",
    "ADAM_OPTIMIZER": "of four tensors; finite differences compare it",
}


def test_all_functions_of_elements_have_formulas():
    known = {*UNARY, *BINARY, *LEFT_OUT}
    differentiable = {
        op.short_name
        for op in OPERATORS.values()
        if op.family in ("element_wise", "activation", "arithmetic", "logic")
        and not why_no_derivatives(op)
    }
    assert differentiable == known


Function = Callable[..., jax.Array]


def backward(f: Function, at: int = 0) -> Function:
    """Return the derivative by one argument, by reverse mode."""

    def slope(*xs: jax.Array) -> jax.Array:
        y, transposed = jax.vjp(f, *xs)
        return transposed(jnp.ones_like(y))[at]

    return slope


def forward(f: Function, at: int = 0) -> Function:
    """Return the derivative by one argument, by forward mode."""

    def slope(*xs: jax.Array) -> jax.Array:
        def of_one(x: jax.Array) -> jax.Array:
            return f(*xs[:at], x, *xs[at + 1 :])

        return jax.jvp(of_one, (xs[at],), (jnp.ones_like(xs[at]),))[1]

    return slope


def looped(f: Function) -> Function:
    """Return the function as a loop of one turn, for which JAX has derivatives of its own."""
    return lambda *xs: jax.lax.scan(lambda _, xs: (None, f(*xs)), None, [x[None] for x in xs])[1][0]


def compiled(function: Callable[..., Any]) -> Any:
    return jax.jit(function) if NIGHTLY else compiled_soon(function)


def check(results: Any, expected: Sequence[Any], where: Any) -> None:
    """Assert that results are within 4 units in the last place; of FLOAT16 within 1.

    Below the smallest normal number of FLOAT32 a CPU may have 0, also of a part of the result.
    """
    results = np.asarray(results)
    most = 4 if jax.default_backend() == "cpu" else 8  # CUDA's functions have fewer digits
    units, dtype = (1, np.float16) if results.dtype == np.float16 else (most, np.float32)
    for k, (result, value) in enumerate(zip(results.tolist(), expected, strict=True)):
        if value is None:
            continue
        with np.errstate(over="ignore", invalid="ignore"):
            near = dtype(float(value))
            spacing = max(float(np.spacing(abs(near))), TINY)
        if np.isfinite(near):
            is_close = np.isfinite(result) and abs(result - mpf(value)) <= units * spacing
        else:
            is_close = result == near or (np.isnan(near) and np.isnan(result))
        assert is_close, f"{where[k]}: {result!r}, not {float(value)!r}"


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(n, d) for turn, d in enumerate(("float32", "float16")) for n in sample([*UNARY], turn)],
)
def test_derivatives_of_functions_of_one_number(name: str, dtype: str):
    found = UNARY[name]
    cases = found if isinstance(found, list) else [found]
    points = [case.points(dtype) for case in cases]
    operators = []
    for case, x in zip(cases, points, strict=True):
        attributes = dict(case.attributes)
        if "min_max_data_type" in attributes:
            attributes["min_max_data_type"] = dtype.upper()
        tensor = TensorDesc(dtype.upper(), x.shape)
        operators.append(OPERATORS[f"{PREFIX}{name}"].infer(input_tensor=tensor, **attributes))

    def derivatives(f: Any) -> dict[tuple[int, str], Function]:
        made = {
            (1, "reverse"): backward(f),
            (1, "forward"): forward(f),
            (2, "forward of reverse"): forward(backward(f)),
            (2, "reverse of reverse in a loop"): backward(backward(looped(f))),
        }
        if NIGHTLY:
            made[2, "reverse of forward"] = backward(forward(f))
            made[2, "forward of forward"] = forward(forward(f))
            made[2, "reverse of reverse"] = backward(backward(f))
            made[2, "forward of reverse in a loop"] = forward(backward(looped(f)))
        return made

    @compiled
    def run(points: Any) -> Any:
        return [
            {key: f(x) for key, f in derivatives(op).items()}
            for op, x in zip(operators, points, strict=True)
        ]

    for case, x, results in zip(cases, points, run(points), strict=True):
        for (order, way), result in results.items():
            expected = [case.expected(order, float(p)) for p in x]
            check(result, expected, [f"{way}, {dict(case.attributes)}, at {p}" for p in x])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", BINARY)
def test_derivatives_of_functions_of_two_numbers(name: str, dtype: str):
    formula, is_left_out = BINARY[name], WITHOUT.get(name, lambda a, b: False)
    with np.errstate(over="ignore"):
        side = np.unique(np.array([*SIDES, *(-p for p in SIDES)], dtype)).tolist()
    pairs = [
        (a, b)
        for a in [*side, -0.0]
        for b in (EXPONENTS if name == "ELEMENT_WISE_POW" else side)
        if not is_left_out(a, b) and not (np.isinf(a) and np.isinf(b))
    ]
    a, b = np.array(pairs, dtype).T
    op_class, tensor = OPERATORS[f"{PREFIX}{name}"], TensorDesc(dtype.upper(), a.shape)
    inputs = [f.name for f in op_class.fields if f.tensor and not f.tensor.output]
    attributes: dict[str, Any] = dict(BOUNDS) if "CLIP" in name else {}
    if name.endswith("GRAD1"):
        attributes["min_max_data_type"] = dtype.upper()
    op = op_class.infer(**dict.fromkeys(inputs, tensor), **attributes)

    @compiled
    def run(a: Any, b: Any) -> Any:
        ways: list[tuple[Any, Any]] = [(backward, forward)]
        if NIGHTLY:
            ways = [(f, g) for f in (backward, forward) for g in (backward, forward)]
        made = {
            (at, way.__name__): way(op, at)(a, b) for at in (0, 1) for way in (backward, forward)
        }
        for first, second in ways:
            for order, (i, j) in enumerate([(0, 0), (0, 1), (1, 1), (1, 0)], 2):
                way = f"{second.__name__} by {j} of {first.__name__} by {i}"
                made[3 if order == 5 else order, way] = second(first(op, i), j)(a, b)
        return made

    values = [[_exact(v, FAR * 10**50) for v in pair] for pair in pairs]
    known = [formula(*pair) for pair in values]
    for (order, way), result in run(a, b).items():
        check(result, [k[order] for k in known], [f"{way}, at {pair}" for pair in pairs])


def test_scale_bias_multiplies_derivatives():
    x = np.array([-3, -1e-7, 0.5, 1e19], np.float32)
    tensor, map_ = TensorDesc("FLOAT32", x.shape), ScaleBias(scale=-2, bias=0)
    op = OPERATORS[f"{PREFIX}ELEMENT_WISE_ASINH"].infer(input_tensor=tensor, scale_bias=map_)
    slopes = UNARY["ELEMENT_WISE_ASINH"]
    assert isinstance(slopes, Slopes)
    first = [-2 * slopes.first(-2 * mpf(float(v))) for v in x]
    second = [4 * slopes.second(-2 * mpf(float(v))) for v in x]
    check(backward(op)(x), first, x)
    check(forward(backward(op))(x), second, x)


def test_fused_activations_have_the_derivatives_of_the_activations():
    """ADD1 applies them to a sum: here of x and 0."""
    x = np.array([-1e30, -20, -0.5, 0, 1e-7, 3, 1e30], np.float32)
    tensor = TensorDesc("FLOAT32", x.shape)

    @compiled_soon
    def run(x: Any) -> Any:
        made = {}
        for fused in fused_activations():
            alone = fused.operator.infer(input_tensor=tensor, **fused.attributes)
            add = OPERATORS[f"{PREFIX}ELEMENT_WISE_ADD1"].infer(
                a_tensor=tensor, b_tensor=tensor, fused_activation=fused
            )
            added = lambda x, add=add: add(x, jnp.zeros_like(x))  # noqa: E731
            made[repr(fused)] = [(backward(f)(x), forward(backward(f))(x)) for f in (added, alone)]
        return made

    for name, (added, alone) in run(x).items():
        for one, other in zip(added, alone, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)

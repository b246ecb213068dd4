"""Arrays that tests share, and the operators that a function makes of them."""

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def float32(values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def float16(values: Any) -> np.ndarray:
    return np.array(values, np.float16)


def normal(*sizes: int, seed: int = 0) -> np.ndarray:
    """Return random FLOAT32 elements."""
    return float32(np.random.default_rng([seed, *sizes]).standard_normal(sizes))


def made_by(function: Callable[..., Any], *xs: Any) -> set[str]:
    """Return the names of the operators that a function makes, without DML_OPERATOR_."""
    text = jax.jit(function).lower(*xs).as_text(debug_info=True)
    return set(re.findall(r"DML_OPERATOR_(\w+)", text))

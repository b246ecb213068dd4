"""The exponential of what is not above 0, which a CPU computes elementwise in a form of its own.

XLA's own is for any argument, and takes nearly twice as long.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

# e^r - 1 over r, for r in [-ln(2)/2, ln(2)/2], so that the relative error of e^r is least.
_POWERS = (
    1.0,
    0.4999999403953552,
    0.16666431725025177,
    0.04166800156235695,
    0.008374153636395931,
    0.0013843636261299253,
)
# ln(2) in two parts: a whole number times the first is exact.
_LN2, _LN2_REST = np.float32(0.693359375), np.float32(np.log(2) - 0.693359375)
# The exponential of less is a denormal, which XLA's CPU reads as 0.
_LEAST = np.float32(-88.0296)


@jax.jit  # traced once, and not for each of the pieces that are combined
def exp_of_negative(x: jax.Array) -> jax.Array:
    """Return exp(x) for x up to 0 and NaN, on a CPU; above 0 it may be anything.

    It is for what a program is lowered to, since it has not the derivative of the exponential. Only
    float32 has the form: to one unit in the last place, as XLA's own.
    """
    if x.dtype != jnp.float32:
        return lax.exp(x)
    x = lax.max(x, _LEAST)
    whole = lax.round(x * np.float32(np.log2(np.e)), lax.RoundingMethod.TO_NEAREST_EVEN)
    rest = x - whole * _LN2 - whole * _LN2_REST
    power = lax.full_like(rest, _POWERS[-1])
    for coefficient in (*_POWERS[-2::-1], 1.0):
        power = power * rest + np.float32(coefficient)
    shifted = lax.convert_element_type(whole, np.int32) << np.int32(23)
    bits = lax.bitcast_convert_type(power, np.int32) + shifted
    return lax.bitcast_convert_type(bits, np.float32)

"""What becomes of a reduction's results, in the kernel that reduces.

XLA's GPU puts behind a reduction what has one operand (a square root, a conversion), and so not a
product with a constant, or a function of two parts of one number: these are another kernel. A
`stablehlo.map` has one operand, whatever its function is. What calls this decides where: XLA takes
no map into kernels that hold a row, nor into Triton's, which are faster for short columns.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo
from jax.interpreters import mlir

Function = Callable[[jax.Array], jax.Array]

_epilogue = Primitive("dml_epilogue")


def epilogue(function: Function, x: jax.Array) -> jax.Array:
    """`function(x)`, which is elementwise, and of primitives; for a GPU as one operation.

    It has neither derivative nor batching: it is for what a program is lowered to.
    """
    return _epilogue.bind(x, function=function)


@_epilogue.def_abstract_eval
def _shape(x: Any, *, function: Function) -> Any:
    y = jax.eval_shape(function, jax.ShapeDtypeStruct(x.shape, x.dtype))
    return x.update(dtype=y.dtype, weak_type=False)


def _as_it_is(ctx: Any, x: Any, *, function: Function) -> Any:
    return mlir.lower_fun(function, multiple_results=False)(ctx, x)


def _mapped(ctx: Any, x: Any, *, function: Function) -> Any:
    (before,), (after,) = ctx.avals_in, ctx.avals_out
    op = stablehlo.MapOp(_type(after), [x], mlir.dense_int_array(range(before.ndim)))
    one, result = (ShapedArray((), aval.dtype) for aval in (before, after))
    body = op.regions[0].blocks.append(_type(one))
    with ir.InsertionPoint(body):
        inside = ctx.replace(avals_in=[one], avals_out=[result])
        stablehlo.return_(_as_it_is(inside, *body.arguments, function=function))
    return op.results


def _type(aval: Any) -> Any:
    return ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(aval.dtype))


mlir.register_lowering(_epilogue, _as_it_is)
mlir.register_lowering(_epilogue, _mapped, platform="cuda")

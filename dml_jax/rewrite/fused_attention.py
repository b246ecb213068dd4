"""Products, a softmax and products become one attention, for which a GPU has one kernel.

Files hold GEMM(ACTIVATION_SOFTMAX1(GEMM(queries, keys)), values). On an NVIDIA GPU cuDNN computes
MULTIHEAD_ATTENTION of FLOAT16 without storing the scores.
"""

from dml_jax import functional as dml
from dml_jax.enums import MatrixTransform, TensorDataType
from dml_jax.graph import Expression
from dml_jax.graph.parts import same_layout
from dml_jax.lowering.attention import HEAD_MOST, HEAD_MULTIPLE
from dml_jax.lowering.masking import HIDING
from dml_jax.rewrite.pattern import Found, Rewrite
from dml_jax.rewrite.weight_layouts import transpose

_BY_HEADS = (0, 2, 1, 3)


def _is_product(node: Found) -> bool:
    """Return whether a node multiplies packed FLOAT16 matrices, and does nothing else."""
    op = node.operator
    is_plain = op.trans_a == MatrixTransform.NONE and op.fused_activation is None
    is_half = op.a_tensor.data_type == TensorDataType.FLOAT16 and len(op.a_tensor.sizes) == 4
    is_packed = all(x.desc.is_packed for x in node.inputs) and node.output.is_packed
    return is_plain and is_half and is_packed and op.c_tensor is None


def _refusal(values: Found, softmax: Found, scores: Found) -> bool | str:
    """Return why two products around a softmax are no attention that cuDNN computes."""
    if not (_is_product(values) and _is_product(scores)):
        return False
    if any(node.readers > 1 or node.is_output for node in (softmax, scores)):
        return "another node reads the scores or the weights"
    if not same_layout(softmax[0].desc, scores.output):
        return "the softmax reads the scores in other strides or sizes"
    if not same_layout(values[0].desc, softmax.output) or [*softmax.operator.axes] != [3]:
        return "the softmax is not over the keys"
    size, own = scores[0].sizes[3], values.operator
    if own.trans_b != MatrixTransform.NONE or own.alpha != 1:
        return "the values are transposed or scaled"
    if size != values[1].sizes[3]:
        return "a key and a value have different sizes"
    if size % HEAD_MULTIPLE or size > HEAD_MOST:
        return f"a head has {size} elements, no multiple of {HEAD_MULTIPLE} up to {HEAD_MOST}"
    return ""


def _attention(values: Found, softmax: Found, scores: Found) -> Expression:
    """Return the attention, whose arrays have the heads behind the sequence."""
    (batches, heads, queries, size), keys = scores[0].sizes, values[1].sizes[2]
    is_turned = scores.operator.trans_b == MatrixTransform.TRANSPOSE
    order = _BY_HEADS if is_turned else (0, 3, 1, 2)
    made = dml.multihead_attention(
        scores.operator.alpha,
        HIDING,
        heads,
        heads,
        "NONE",
        query=transpose(scores[0], _BY_HEADS).reinterpret([batches, queries, heads * size]),
        key=transpose(scores[1], order).reinterpret([batches, keys, heads * size]),
        value=transpose(values[1], _BY_HEADS).reinterpret([batches, keys, heads * size]),
    )
    return transpose(made.output.reinterpret([batches, queries, heads, size]), _BY_HEADS)


ATTENTIONS = Rewrite("attentions", ("GEMM", "ACTIVATION_SOFTMAX1", "GEMM"), _attention, _refusal)

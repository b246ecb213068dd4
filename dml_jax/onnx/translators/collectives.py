"""Sums over devices, as ONNX Runtime's domain has them. `Network.shard` writes them."""

from collections.abc import Sequence
from typing import Any

from jax import lax

from dml_jax.errors import Unquoted
from dml_jax.onnx.files.attributes import MICROSOFT
from dml_jax.onnx.nodes.graph_context import Site
from dml_jax.onnx.nodes.node import refused
from dml_jax.onnx.nodes.op_types import inlines
from dml_jax.onnx.nodes.tensor import Tensor

AXIS = "axis_name"
"""The attribute that names the axis of the mesh, which ONNX Runtime's op type has not."""


@inlines("AllReduce", domain=MICROSOFT)
def _sum_of_devices(site: Site) -> list[Tensor | None]:
    axis, tensor = site.attribute(AXIS), site.inputs[0]
    if axis is None:
        rule = "be a sum of devices (network.shard divides a model of one device among several)"
        raise refused("AllReduce", rule, Unquoted("the model of one device of several"))

    def run(_: Sequence[Any], arrays: Sequence[Any]) -> Sequence[Any]:
        return [lax.psum(arrays[0], axis)]

    reason = "devices add up their parts"
    return site.translation.function(site.proto, reason, [tensor], [tensor.type], run)

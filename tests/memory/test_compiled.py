"""Compiled operators: call, cost, export, and tables of bound memory."""

import copy
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from several_devices import SEVERAL, by_default

from dml_jax import (
    ActivationRelu,
    Argmax,
    Buffer,
    BufferBinding,
    ConstantNode,
    DmlError,
    ElementWiseAdd,
    ElementWiseClip,
    Graph,
    GraphBuilder,
    Join,
    Reduce,
    Split,
    TensorDesc,
    compile,
    gemm,
)

T = TensorDesc
loose: Any = compile  # for calls that a type checker refuses, too
LooseBuffer: Any = Buffer
LooseBinding: Any = BufferBinding
HERE = jax.sharding.SingleDeviceSharding(jax.devices()[0])


def clip(tensor: TensorDesc, output: TensorDesc | None = None) -> ElementWiseClip:
    return ElementWiseClip(input_tensor=tensor, output_tensor=output or tensor, min=-1, max=1)


def rows(sizes: list[int]) -> Reduce:
    return Reduce.infer(function="SUM", input_tensor=T("FLOAT32", sizes), axes=[1])


def values(*sizes: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(sizes).astype(np.float32) * 2


def test_call_and_cost():
    compiled = compile(rows([64, 128]))
    x = values(64, 128)
    np.testing.assert_allclose(compiled(x), x.sum(1, keepdims=True), rtol=1e-5, atol=1e-4)
    cost = compiled.cost()
    assert (cost.bytes_in, cost.bytes_out) == (64 * 128 * 4, 64 * 4)
    # On a CPU there are a comparison and an `or` beside each sum.
    assert 64 * 127 <= cost.flops <= 64 * 128 * 4
    assert cost.bytes_accessed >= cost.bytes_in + cost.bytes_out
    assert "HloModule" in compiled.as_text()
    assert compiled.inputs == (T("FLOAT32", [64, 128]),)
    assert compiled.outputs == (T("FLOAT32", [64, 1]),)


def test_a_function_of_operators():
    op = clip(T("FLOAT32", [4, 8]))

    def function(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        return op(x) + y, rows([4, 8])(x)

    compiled = compile(function, T("FLOAT32", [4, 8]), jax.ShapeDtypeStruct((4, 8), np.float32))
    x, y = values(4, 8), values(4, 8) + 1
    clipped, summed = compiled(x, y)
    np.testing.assert_array_equal(clipped, np.clip(x, -1, 1) + y)
    outputs = [Buffer(jnp.zeros(32, jnp.float32)), Buffer(jnp.zeros((4, 1), jnp.float32))]
    compiled.bind([Buffer(x), Buffer(y)], outputs).dispatch()
    np.testing.assert_array_equal(outputs[0].array, np.ravel(clipped))
    np.testing.assert_array_equal(outputs[1].array, summed)


def test_an_operator_knows_its_inputs():
    with pytest.raises(DmlError, match="inputs to be left out"):
        compile(rows([2, 2]), T("FLOAT32", [2, 2]))


def test_bound_outputs_are_replaced():
    x = values(4, 8)
    source, target = Buffer(x), Buffer.of(T("FLOAT32", [4, 8]))
    table = compile(clip(T("FLOAT32", [4, 8]))).bind([source], [target])
    before = target.array
    table.dispatch()
    np.testing.assert_array_equal(target.array, np.clip(x, -1, 1))
    assert before.is_deleted()  # its memory is what the dispatch wrote to
    assert not source.array.is_deleted()
    source.array = jnp.asarray(-x)
    table.dispatch()
    np.testing.assert_array_equal(target.array, np.clip(-x, -1, 1))


def test_parts_of_buffers_strides_and_other_types():
    """A tensor inside a larger buffer of another type; what lies around it stays."""
    x = values(3, 4)
    tensor = T("FLOAT32", [3, 4], strides=[6, 1])
    memory = np.arange(256, dtype=np.uint8)
    memory[32 : 32 + 64].view(np.float32)[[0, 1, 2, 3, 6, 7, 8, 9, 12, 13, 14, 15]] = x.ravel()
    target = Buffer(jnp.full(40, 7, jnp.int16))
    index = Argmax.infer(input_tensor=tensor, axes=[1], axis_direction="INCREASING")
    assert index.output_tensor == T("UINT32", [3, 1])
    parts = [BufferBinding(Buffer(memory), offset=32)], [BufferBinding(target, 16, 16)]
    compile(index).bind(*parts).dispatch()
    expected = np.full(40, 7, np.int16)
    expected[8 : 8 + 6] = x.argmax(1).astype(np.uint32).view(np.int16)
    np.testing.assert_array_equal(target.array, expected)


def test_owned_inputs_are_copied_when_bound():
    x = values(8)
    source, target = Buffer(x), Buffer(np.zeros(8, np.float32))
    owned = T("FLOAT32", [8], flags="OWNED_BY_DML")
    table = compile(clip(owned, T("FLOAT32", [8]))).bind([source], [target])
    source.array = jnp.zeros(8, jnp.float32)
    table.dispatch()
    np.testing.assert_array_equal(target.array, np.clip(x, -1, 1))


def broken():
    tensor = T("FLOAT32", [8])
    one, two = Buffer(np.zeros(64, np.float32)), Buffer(np.zeros(64, np.float32))
    clipped, part = clip(tensor), LooseBinding
    split = Split(input_tensor=tensor, output_tensors=[T("FLOAT32", [4])] * 2, axis=0)
    aligned = clip(T("FLOAT32", [8], guaranteed_base_offset_alignment=64))
    slightly = clip(T("FLOAT32", [8], guaranteed_base_offset_alignment=4))
    larger = T("FLOAT32", [8], total_tensor_size_in_bytes=64)
    return [
        (clipped, [], [two], "inputs to be a list of 1 buffers, got 0"),
        (clipped, [one], [two, two], "outputs to be a list of 1 buffers, got 2"),
        (clipped, [np.zeros(8)], [two], "InputTensor to be bound to a Buffer, got float64[8]"),
        (clipped, [part(np.zeros(8))], [two], "to a Buffer, got a BufferBinding of float64[8]"),
        (clipped, [Buffer(np.zeros(7, np.float32))], [two], "at least 32 bytes"),
        (clipped, [one], [part(two, 240)], "got 16 bytes of 'outputs[0]'"),
        (clipped, [part(one, 0, 16)], [two], "InputTensor to be bound to at least 32 bytes"),
        (clipped, [part(one, 0, 512)], [two], "stay within the 256 bytes"),
        (clipped, [part(one, 8)], [two], "start at a multiple of 16 bytes, got byte 8"),
        (aligned, [part(one, 32)], [two], "start at a multiple of 64 bytes, got byte 32"),
        (clipped, [one], [part(one, 16)], "OutputTensor to lie exactly where InputTensor does"),
        (split, [one], [one, two], "OutputTensors[0] to not overlap InputTensor"),
        (split, [one], [two, two], "OutputTensors[1] to not overlap OutputTensors[0]"),
        (clipped, [part(one, -32)], [two], "InputTensor.offset to be a number of bytes, got -32"),
        (clipped, [part(one, 0, True)], [two], "InputTensor.size_in_bytes to be a number of bytes"),
        (clipped, one, [two], "inputs to be a list of 1 buffers, got a Buffer"),
        (clipped, [one], [Buffer(one.array)], "which holds the same array"),
        (clipped, [Buffer(np.zeros(31, np.uint8))], [two], "got 31 bytes of 'inputs[0]'"),
        (slightly, [part(one, 4)], [two], "start at a multiple of 16 bytes, got byte 4"),
        (clip(tensor, larger), [one], [one], "OutputTensor to lie exactly where InputTensor does"),
    ]


@pytest.mark.parametrize("case", range(20))
def test_broken_bindings(case: int):
    op, inputs, outputs, message = broken()[case]
    with pytest.raises(DmlError) as refused:
        compile(op).bind(inputs, outputs)
    assert message in str(refused.value)
    assert refused.value.operator == op.c_name


def test_bytes_that_make_no_element_are_left():
    x, raw = np.arange(5, dtype=np.float16), np.zeros(11, np.uint8)
    raw[:10], raw[10] = x.view(np.uint8), 77
    compiled, out = compile(clip(T("FLOAT16", [5]))), Buffer(np.full(11, 77, np.uint8))
    compiled.bind([Buffer(raw)], [out]).dispatch()
    expected = np.clip(x, -1, 1).view(np.uint8).tolist()
    assert np.asarray(out.array).tolist() == [*expected, 77]


def test_neighbours_in_one_buffer():
    """Ranges that touch do not overlap."""
    x = values(8)
    buffer = Buffer(x)
    low, high = BufferBinding(buffer, 0, 16), BufferBinding(buffer, 16, 16)
    compile(clip(T("FLOAT32", [4]))).bind([high], [low]).dispatch()
    np.testing.assert_array_equal(buffer.array, [*np.clip(x[4:], -1, 1), *x[4:]])
    tensors = [T("FLOAT32", [4])] * 2
    split = Split(input_tensor=T("FLOAT32", [8]), output_tensors=tensors, axis=0)
    compile(split).bind([Buffer(x)], [low, high]).dispatch()
    np.testing.assert_array_equal(buffer.array, x)


def test_outputs_in_any_structure():
    op = clip(T("FLOAT32", [4]))
    compiled = compile(lambda x: {"b": op(x), "a": (2 * x, x)}, T("FLOAT32", [4]))
    x = values(4)
    outputs = [Buffer(np.zeros(4, np.float32)) for _ in range(3)]
    compiled.bind([Buffer(x)], outputs).dispatch()
    for buffer, expected in zip(outputs, (2 * x, x, np.clip(x, -1, 1)), strict=True):
        np.testing.assert_array_equal(buffer.array, expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: loose(None), "function to be an operator, a graph or a function, got None"),
        (
            lambda c: loose(abs, "x"),
            "inputs[0] to be a TensorDesc or an array, an argument for each, got a str",
        ),
        (lambda c: loose(jnp.sum, T("FLOAT32", [4])), "outputs[0].DimensionCount to be in [1, 8]"),
        (lambda c: compile(rows([2, 2]), device="cpu"), "device to be a jax.Device, got 'cpu'"),
        (
            lambda c: compile(rows([2, 2]), device=jax.devices()[0], in_shardings=HERE),
            "in_shardings to be left out where there is a device",
        ),
        (lambda c: c(np.zeros((2, 3), np.float32)), "InputTensor to be an array float32[4,8]"),
        (lambda c: c(np.zeros((4, 8))), "got float64[4,8]"),
        (lambda c: c(np.zeros((4, 8), np.int32)), "(x.astype('float32') converts), got int32"),
        (lambda c: c(), "the number of arrays to be 1, one for each input tensor, got 0"),
        (lambda c: c.export("cpu"), "platforms to be a list of cpu, cuda, rocm, tpu, got 'cpu'"),
        (lambda c: c.export(["xpu"]), "platforms to be a list of"),
        (lambda c: Buffer(np.zeros(2, bool)), "got bool"),
        (lambda c: LooseBuffer([1.0]), "be an array, got a list"),
        (
            lambda c: Buffer(np.zeros(2, "uint4")),
            "have elements of whole bytes (UINT8 ones hold 4-bit elements: Buffer.of(tensor)), "
            "got UINT4",
        ),
    ],
)
def test_what_cannot_be_compiled_or_bound(call, message: str):
    with pytest.raises(DmlError) as refused:
        call(compile(clip(T("FLOAT32", [4, 8]))))
    assert message in str(refused.value)


def test_64_bits_are_never_narrowed(no_x64: None):
    tensor = T("INT64", [2])
    for call in (
        lambda: Buffer(np.zeros(2, np.int64)),
        lambda: Buffer.of(tensor),
        lambda: tensor.read(np.zeros(2, np.int64)),  # pyright: ignore[reportArgumentType]
        lambda: compile(lambda x: x, tensor),
    ):
        with pytest.raises(DmlError, match="jax_enable_x64"):
            call()


@pytest.mark.parametrize(("source", "target"), [("int8", "uint16"), ("int16", "uint8")])
def test_bytes_by_way_of_a_wider_type(source: str, target: str):
    """XLA made one bitcast of two, which is none."""
    tensor = T("FLOAT32", [4])
    op = Join(input_tensors=[tensor], output_tensor=tensor, axis=0)
    given = np.arange(16, dtype=np.int8).view(source)
    written = Buffer(np.zeros(16 // np.dtype(target).itemsize, target))
    compile(op).bind([Buffer(given)], [written]).dispatch()
    assert np.asarray(written.array).tobytes() == given.tobytes()


def test_a_range_that_is_given_holds_the_whole_tensor():
    """Its bytes are rounded up to 4; only a buffer may end before."""
    tensor, memory = T("FLOAT16", [5]), Buffer(np.zeros(64, np.float16))
    bind = compile(clip(tensor)).bind
    for size in (10, 12):
        parts = [BufferBinding(memory, 0, size)], [BufferBinding(memory, 64, size)]
        if size == 12:
            bind(*parts)
            continue
        with pytest.raises(DmlError, match=r"at least 12 bytes .*got 10 bytes"):
            bind(*parts)
    bind([Buffer(np.zeros(5, np.float16))], [Buffer(np.zeros(5, np.float16))])


def test_buffers_on_a_device():
    """A table runs where its buffers lie; one compiled for a device takes none of another."""
    here, *others = jax.devices()
    op, x = rows([4, 8]), values(4, 8)
    source, target = Buffer(jax.device_put(x, here)), Buffer.of(op.output_tensor, here)
    table = compile(op, device=here).bind([source], [target])
    table.dispatch()
    assert jax.block_until_ready(target) is target
    assert target.array.devices() == {here}
    np.testing.assert_allclose(target.array.reshape(4, 1), x.sum(1, keepdims=True), rtol=1e-5)
    for other in others[:1]:
        with pytest.raises(DmlError, match=f"OutputTensor to lie on {re.escape(str(here))}"):
            compile(op, device=here).bind([source], [Buffer.of(op.output_tensor, other)])


def test_shardings():
    mesh = Mesh(np.array(SEVERAL[:8]), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec("d"))
    compiled = compile(rows([16, 32]), in_shardings=sharding, out_shardings=sharding)
    x = values(16, 32)
    result = compiled(jax.device_put(x, sharding))
    assert result.sharding.is_equivalent_to(sharding, 2)
    np.testing.assert_allclose(result, x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    assert "all-" not in compiled.as_text()
    whole = NamedSharding(mesh, PartitionSpec())
    gathers = compile(rows([16, 32]), in_shardings=sharding, out_shardings=whole)
    assert gathers(jax.device_put(x, sharding)).sharding.is_equivalent_to(whole, 2)


def test_an_exported_program_runs_where_there_is_only_jax(tmp_path):
    x = values(4, 8)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "program").write_bytes(compile(rows([4, 8])).export())
    program = (
        "import sys; sys.modules['dml_jax'] = None\n"
        "import jax.export, numpy, pathlib\n"
        "program = jax.export.deserialize(bytearray(pathlib.Path('program').read_bytes()))\n"
        "numpy.save('y.npy', program.call(numpy.load('x.npy')))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), x.sum(1, keepdims=True), rtol=1e-5)


@pytest.mark.parametrize(
    ("tensor", "shape"),
    [
        (T("FLOAT32", [2, 3]), (2, 3)),
        (T("FLOAT32", [2, 3], [3, 1]), (2, 3)),
        (T("FLOAT32", [2, 3], [1, 2]), (6,)),
        (T("FLOAT32", [2, 3], [4, 1]), (7,)),
        (T("FLOAT32", [2, 3], total_tensor_size_in_bytes=32), (8,)),
        (T("UINT8", [1, 3]), (1, 3)),
    ],
)
def test_memory_has_the_sizes_of_what_fills_it(tensor: TensorDesc, shape: tuple[int, ...]):
    assert Buffer.of(tensor).array.shape == shape


def on(device: int, shape: tuple[int, ...] = (3, 4)) -> jax.Array:
    return jax.device_put(jnp.zeros(shape, jnp.float32), jax.devices()[device])


SOME = TensorDesc("FLOAT32", [3, 4])
LOG = Reduce.infer(function="LOG_SUM", input_tensor=SOME, axes=[1])
BOUNDED = ElementWiseClip.infer(input_tensor=SOME, min=1, max=2)


def test_memory_that_an_exception_took_is_named():
    source, target = Buffer(on(0) - 5), Buffer.of(LOG.output_tensor)
    table = compile(LOG).bind([source], [target])
    with jax.debug_nans(True), pytest.raises(Exception, match="nan"):
        table.dispatch()
    with pytest.raises(DmlError, match=r"OutputTensor to be bound to memory .*got a deleted"):
        table.dispatch()
    target.array = jnp.zeros((3, 2), jnp.float32)
    message = r"OutputTensor to be bound to float32\[3,1\] on .*, as it was, got float32\[3,2\]"
    with pytest.raises(DmlError, match=message):
        table.dispatch()
    target.array, source.array = jnp.zeros((3, 1), jnp.float32), on(0) + 1
    table.dispatch()
    np.testing.assert_allclose(target.array, np.full((3, 1), np.log(4)), rtol=1e-6)


def test_what_fails_while_it_runs_is_said():
    """The memory is lost, but that is not why."""

    def fails(x: np.ndarray) -> np.ndarray:
        raise RuntimeError("the disk is full")

    def function(x: jax.Array) -> jax.Array:
        return jax.pure_callback(fails, jax.ShapeDtypeStruct((3, 4), np.float32), x)

    table = compile(function, SOME).bind([Buffer(on(0))], [Buffer.of(SOME)])
    with pytest.raises(jax.errors.JaxRuntimeError, match="the disk is full"):
        table.dispatch()
        table.wait()


def test_memory_that_another_dispatch_took_is_named():
    array = on(0)
    memory = Buffer(array)
    compile(BOUNDED).bind([memory], [memory]).dispatch()
    with pytest.raises(DmlError, match=r"InputTensor to be bound .*got a deleted float32\[3,4\]"):
        compile(BOUNDED).bind([Buffer(array)], [Buffer.of(SOME)])
    with pytest.raises(DmlError, match=r"InputTensor to be there, got a deleted float32\[3,4\]"):
        compile(BOUNDED)(array)


@by_default
def test_devices_are_named():
    message = "OutputTensor to lie on (.*:1), as InputTensor does, got .*:2"
    with pytest.raises(DmlError, match=message):
        compile(BOUNDED).bind([Buffer(on(1))], [Buffer(on(2))])
    with pytest.raises(DmlError, match=r"InputTensor to lie on .*:0, for which it is compiled"):
        compile(BOUNDED)(on(1))
    with pytest.raises(DmlError, match=r"InputTensor to lie on .*:1, for which it is compiled"):
        compile(BOUNDED, device=jax.devices()[1])(on(2))


@by_default
def test_what_lies_on_no_device_in_particular_is_moved():
    there = jax.devices()[1]
    for source, target in (
        (Buffer(on(1)), Buffer.of(SOME)),
        (Buffer(np.zeros((3, 4), np.float32)), Buffer.of(SOME, there)),
    ):
        table = compile(BOUNDED).bind([source], [target])
        for _ in range(2):
            table.dispatch()
        assert target.array.devices() == {there}
    assert compile(BOUNDED, device=there)(jnp.zeros((3, 4), jnp.float32)).devices() == {there}


@by_default
def test_what_is_not_read_may_lie_anywhere():
    compiled = compile(lambda x, y: y + 1, SOME, SOME)
    assert compiled(on(1), on(0)).devices() == {jax.devices()[0]}
    with pytest.raises(DmlError, match=r"inputs\[1\] to be there: .*traced"):
        jax.grad(lambda y: compiled(on(0), y).sum())(on(0))


@by_default
def test_what_a_buffer_is_given_is_checked():
    memory = Buffer(on(0))
    table = compile(BOUNDED).bind([memory], [memory])
    memory.array = np.full((3, 4), 9, np.float32)
    table.dispatch()
    assert memory.array.tolist() == np.full((3, 4), 2).tolist()
    with pytest.raises(DmlError, match="be an array, got a list"):
        memory.array = [1]  # pyright: ignore[reportAttributeAccessIssue]
    memory.array = on(1)
    with pytest.raises(DmlError, match=r"float32\[3,4\] on .*:0, as it was, got .* on .*:1"):
        table.dispatch()


@pytest.mark.parametrize("transformed", [jax.vmap, jax.jit, jax.grad])
def test_what_is_compiled_is_not_transformed(transformed: Callable[..., Any]):
    x = on(0, (2, 3, 4)) if transformed is jax.vmap else on(0)
    with pytest.raises(DmlError, match=r"InputTensor to be there: .*got an array that is traced"):
        transformed(compile(BOUNDED))(x)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_what_is_compiled_stays_where_it_is(copied: Callable[..., Any]):
    with pytest.raises(TypeError, match="send what it is made of, and compile that"):
        copied(compile(BOUNDED))


def test_what_was_compiled_with_64_bits():
    with jax.enable_x64(True):
        tensor = TensorDesc("INT64", [3])
        compiled = compile(Split(input_tensor=tensor, output_tensors=[tensor], axis=0))
    with (
        jax.enable_x64(False),
        pytest.raises(DmlError, match=r"InputTensor.DataType to have at most 32 bits"),
    ):
        compiled(np.ones(3, np.int64))


def test_without_jit():
    memory = Buffer(on(0))
    with jax.disable_jit():
        assert compile(BOUNDED)(on(0)).tolist() == np.ones((3, 4)).tolist()
        compile(BOUNDED).bind([memory], [memory]).dispatch()
    assert memory.array.tolist() == np.ones((3, 4)).tolist()


@pytest.mark.parametrize(
    ("array", "got"),
    [
        (jax.ShapeDtypeStruct((3, 4), np.float32), "one of JAX or NumPy, got a ShapeDtypeStruct"),
        (
            np.ma.masked_array(np.ones(2, np.float32), np.array([0, 1])),
            "one of JAX or NumPy, got a Masked",
        ),
        (np.ones(2, ">f4"), r"in the machine's byte order \(x.astype\('float32'\)"),
    ],
)
def test_what_is_no_memory(array: Any, got: str):
    with pytest.raises(DmlError, match=f"a buffer's array to be {got}"):
        Buffer(array)


def test_what_is_not_there_is_no_memory():
    x = on(0)
    for take in (Buffer, ConstantNode):  # the one's array, the other's Array
        with pytest.raises(DmlError, match=r"rray to be there, got a traced float32\[3,4\]"):
            jax.jit(lambda x, take=take: take(x) and x)(x)
    x.delete()
    with pytest.raises(DmlError, match=r"Array to be there, got a deleted float32\[3,4\]"):
        ConstantNode(x)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("shape", [(), (0,), (1,) * 9])
def test_memory_may_have_any_shape(shape: tuple[int, ...]):
    memory, one = Buffer(np.full(shape, 9, np.float32)), TensorDesc("FLOAT32", [1])
    clip = ElementWiseClip.infer(input_tensor=one, min=1, max=2)
    if 0 in shape:
        with pytest.raises(DmlError, match=r"at least 4 bytes .*got 0 bytes of"):
            compile(clip).bind([memory], [memory])
    else:
        compile(clip).bind([memory], [memory]).dispatch()
        np.testing.assert_array_equal(memory.array, np.full(shape, 2))


def test_zeros_are_no_transfer_by_accident():
    with jax.transfer_guard("disallow"):
        assert Buffer.of(SOME).array.shape == (3, 4)


# Constants of graphs.


def product(rows: int, size: int) -> tuple[Graph, np.ndarray, np.ndarray]:
    """Return the graph of x times a constant, x, and the product in float64."""
    x, weights = values(1, 1, rows, size), values(1, 1, size, 8)
    builder = GraphBuilder()
    y = gemm(builder.input_tensor("x", T("FLOAT32", x.shape)), builder.constant(weights))
    return builder.build([y]), x, x.astype(np.float64) @ weights


def test_constants_are_arguments():
    lengths = []
    for size in (64, 4096):
        graph, x, expected = product(2, size)
        compiled = compile(graph)
        assert compiled.cost().bytes_in == x.nbytes + size * 8 * 4
        target = Buffer.of(graph.outputs[0])
        compiled.bind([Buffer(x)], [target]).dispatch()
        for result in (compiled(x), target.array, graph(x), jax.jit(graph)(x)):
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
        program = jax.jit(lambda x, *held, graph=graph: graph.call_with(held, x))
        lengths.append(len(program.lower(x, *graph.constants).as_text()))
    assert lengths[1] < lengths[0] + 100


def test_constants_are_sent_once(monkeypatch: pytest.MonkeyPatch):
    graph, x, expected = product(2, 128)
    compiled = compile(graph)
    sent: list[Any] = []
    put = jax.device_put
    monkeypatch.setattr(jax, "device_put", lambda a, *p: sent.append(a) or put(a, *p))
    for device in jax.devices()[:1] * 2 + SEVERAL[1:2] * 2:
        placed = put(x, device)
        result = graph(placed)
        assert result.devices() == {device}
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
    assert len(sent) == 2  # one to each device
    for _ in range(2):
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-3)
    assert len(sent) == 3


def test_constants_beside_sharded_inputs():
    mesh = Mesh(np.array(SEVERAL[:8]), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = NamedSharding(mesh, PartitionSpec(None, None, "d"))
    graph, x, expected = product(16, 128)
    for given in (sharding, (sharding,)):
        compiled = compile(graph, in_shardings=given, out_shardings=sharding)
        result = compiled(jax.device_put(x, sharding))
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-3)
        assert "all-" not in compiled.as_text()
    np.testing.assert_allclose(graph(jax.device_put(x, sharding)), expected, rtol=1e-4, atol=1e-3)


def test_an_exported_program_has_its_constants():
    graph, x, expected = product(2, 128)
    program = jax.export.deserialize(bytearray(compile(graph).export()))
    np.testing.assert_allclose(program.call(x), expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(4, 16, 64), (4096,), (5000,)])
def test_a_dispatch_in_place_allocates_nothing(shape: tuple[int, ...]):
    """Elements are mapped where they lie, in memory of the tensor's shape and of others."""
    x = TensorDesc("FLOAT32", [4, 16, 64])
    for op in (
        ElementWiseClip.infer(input_tensor=x, min=0, max=1),
        ActivationRelu.infer(input_tensor=x),
        ElementWiseAdd.infer(a_tensor=x, b_tensor=x),
    ):
        buffers = [Buffer(jnp.ones(shape, jnp.float32)) for _ in op.inputs]
        parts = [BufferBinding(buffer, 0, 4 * 4096) for buffer in buffers]
        table = compile(op).bind(parts, parts[:1])
        assert table.bytes_temporary == 0
        assert " copy(" not in table.as_text()

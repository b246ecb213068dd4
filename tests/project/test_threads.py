"""The first use of each part of the package by eight threads at once, in a fresh process."""

from pathlib import Path

import pytest
from dispatch_models import guide_model, model_file, tensor
from nightly import sample
from processes import python

PROGRAM = """
import numpy as np
import dml_jax as D
{before}
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
a, barrier = np.ones((4, 4), np.float32), Barrier(8)
def work(_):
    barrier.wait()
    return {use}
with ThreadPoolExecutor(8) as pool:
    made = [*pool.map(work, range(8))]
expected = {expected}
assert all(one == expected for one in made), made
"""

DESC = 'D.TensorDesc("FLOAT32", [4])'
JSON = tensor([4])
IDENTITY = {"InputTensor": JSON, "OutputTensor": JSON}
NETWORK = """
from onnx import parser
model = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
g (float[4] x) => (float[4] y) { y = Sqrt (x) }''')
"""
SESSION = """
import dml_jax.onnxruntime as ort
from onnx import parser
model = parser.parse_model('''<ir_version: 8, opset_import: ["": 17]>
g (float[n, 4] x) => (int64[2, m] y) { z = Sqrt (x)  c = NonZero (z)  y = Neg (c) }''')
session = ort.InferenceSession(model.SerializeToString())
def sums():
    return [int(session.run(None, {"x": a[:n].astype("f")})[0].sum()) for n in (1, 2, 3, 1)]
"""
GRAPH = f"""
def graph():
    builder = D.GraphBuilder()
    return builder.build([D.sqrt(builder.input_tensor("x", {DESC}))])(a[0]).tolist()
"""
USES = {  # what is before it, the use, and what each thread gets
    "class": ("", f"D.ActivationRelu.infer(input_tensor={DESC}).outputs[0].sizes", "(4,)"),
    "registry": ("", "len(D.OPERATORS)", "177"),
    "JSON": (
        "",
        f"D.operator_from_json({{'Type': 'ELEMENT_WISE_IDENTITY', 'Desc': {IDENTITY}}})",
        "made[0]",
    ),
    "function": ("", "float(D.gemm(a, a)[0, 0])", "4.0"),
    "one function": ("", "D.max_pooling", "made[0]"),
    "one tuple": ("", "type(D.top_k(a, 1, 2, 'DECREASING'))", "made[0]"),
    "graph": (GRAPH, "graph()", "[1.0] * 4"),
    "model": ("", "[*D.load_model('model.json').dispatchables]", "['sum']"),
    "network": (NETWORK, "D.load_onnx(model)(a[0])['y'].tolist()", "[1.0] * 4"),
    "session": (SESSION, "sums()", "[-6, -16, -30, -6]"),
    "PyDirectML": (
        "",
        "__import__('dml_jax.pydirectml', fromlist=['x']).TensorDataType.FLOAT32.name",
        "'FLOAT32'",
    ),
}


@pytest.mark.parametrize("name", sample([*USES]))
def test_first_use_by_eight_threads(name: str, tmp_path: Path):
    model_file(guide_model(), tmp_path)
    before, use, expected = USES[name]
    program = PROGRAM.format(before=before, use=use, expected=expected)
    done = python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr

"""Sessions of `dml_jax.onnxruntime` beside those of ONNX Runtime: answers, facts and exceptions."""

import concurrent.futures
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime as real
import pytest
from build import alike, parse

import dml_jax
import dml_jax.onnxruntime as own
from dml_jax.lowering.dtypes import has_x64
from dml_jax.onnxruntime.capi import onnxruntime_pybind11_state as own_state
from dml_jax.system import aligned_memory, slow_notice

real_state: Any = importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")
real.set_default_logger_severity(4)


def of_text(text: str, opset: int = 17, **weights: np.ndarray) -> bytes:
    """Return the model of `(inputs) => (outputs) { nodes }`."""
    return parse(f"graph {text}", opset, **weights).SerializeToString()


def sums():
    """Return z = x + y, with a default of y, and j = i."""
    made = parse("""graph (float[N, 3] x, float[3] y = {1, 1, 1}, int64[M] i)
        => (float[N, 3] z, int64[M] j) { [add] z = Add (x, y)  j = Identity (i) }""")
    made.graph.input[2].type.tensor_type.shape.dim[0].Clear()
    made.graph.output[1].type.tensor_type.shape.dim[0].Clear()
    made.metadata_props.add(key="labels", value="a,b")
    made.producer_name, made.doc_string, made.domain = "maker", "text", "domain"
    made.graph.doc_string, made.model_version = "graph text", 3
    return made


BYTES = sums().SerializeToString()
X, PLACES = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([2**40, -1])
FEEDS = {"x": X, "i": PLACES}


def both(data, **arguments):
    return tuple(m.InferenceSession(data, **arguments) for m in (own, real))


def same(sessions, feeds, names=None, atol=1e-6):
    got, wanted = (session.run(names, feeds) for session in sessions)
    alike(got, wanted, rtol=1e-5, atol=atol)
    return got


def stages_of(session):
    return [s.stage for _, part in session._stages._parts for s in part._stages.entries()]


@pytest.fixture(scope="module")
def sessions():
    return both(BYTES)


class TestFacts:
    def test_arguments_have_names_shapes_and_types(self, sessions):
        for method in ("get_inputs", "get_outputs", "get_overridable_initializers"):
            got, wanted = (
                [(a.name, a.shape, a.type) for a in getattr(s, method)()] for s in sessions
            )
            assert got == wanted

    def test_metadata(self, sessions):
        bare = parse("graph (float[N] x) => (y) { y = Relu (x) }").SerializeToString()
        fields = ("custom_metadata_map", "description", "domain", "graph_description")
        fields += ("graph_name", "producer_name", "version")
        for pair in (sessions, both(bare)):
            got, wanted = ([getattr(s.get_modelmeta(), f) for f in fields] for s in pair)
            assert got == wanted

    @pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
    def test_options_have_the_same_defaults(self, name):
        ours, theirs = getattr(own, name)(), getattr(real, name)()
        for field in ours._defaults:
            got, wanted = getattr(ours, field), getattr(theirs, field)
            assert got == (int(wanted) if hasattr(wanted, "value") else wanted)

    @pytest.mark.parametrize(
        "name", ["GraphOptimizationLevel", "ExecutionMode", "ExecutionOrder", "OrtMemType"]
    )
    def test_enumerations_have_the_same_members(self, name):
        got, wanted = (
            {k: int(v) for k, v in getattr(m, name).__members__.items()} for m in (own, real)
        )
        assert got == wanted

    def test_every_exception_is_there(self):
        kinds = [kind for kind in vars(real_state).values() if isinstance(kind, type)]
        names = [kind.__name__ for kind in kinds if issubclass(kind, Exception)]
        assert names and all(issubclass(getattr(own_state, n), Exception) for n in names)

    def test_free_dimensions_are_overridden(self):
        found = []
        for module in (own, real):
            options = module.SessionOptions()
            options.add_free_dimension_override_by_name("N", 2)
            session = module.InferenceSession(BYTES, options)
            found.append([a.shape for a in session.get_inputs()])
        assert found[0] == found[1]

    def test_config_entries(self):
        options = own.SessionOptions()
        options.add_session_config_entry("a", "b")
        assert options.get_session_config_entry("a") == "b"
        with pytest.raises(RuntimeError, match="to have a config entry 'c'"):
            options.get_session_config_entry("c")
        with pytest.raises(TypeError, match="to be two texts"):
            options.add_session_config_entry("a", 1)


@pytest.mark.parametrize(
    "text",
    [
        "(float[N,6] x) => (y) { s = Constant <value = int64[3] {0,2,3}> () y = Reshape(x, s) }",
        "(float[N,3] x, bool c) => (y) { y = If (c) <"
        "then_branch = t () => (float[N,3] p) { p = Relu(x) },"
        "else_branch = e () => (float[N,3] q) { q = Neg(x) }> }",
        "(int64[2,3] x) => (y) { y = ArgMax <axis = 1> (x) }",
        "(float[N,3] x) => (float[?,M] y, float[M,?] z) { y = Relu (x) z = Neg (x) }",
    ],
)
def test_outputs_without_types_have_those_that_follow(text: str):
    sessions = both(of_text(text, 18))
    ours, theirs = ([(o.name, o.type, o.shape) for o in s.get_outputs()] for s in sessions)
    assert ours == theirs


@pytest.mark.parametrize("op_type", ["ReduceLogSum", "ReduceLogSumExp", "ReduceL2"])
def test_reductions_of_integers_through_floats(op_type: str):
    text = f"(int64[2,3] x) => (y) {{ y = {op_type} (x) }}"
    same(both(of_text(text, 18)), {"x": np.array([[3, 5, 7], [2, 9, 1]])})


class TestRuns:
    def test_all_outputs_some_and_twice(self, sessions):
        same(sessions, FEEDS)
        same(sessions, FEEDS, ["j"])
        same(sessions, FEEDS, [])
        same(sessions, FEEDS, ["z", "j", "z"])

    def test_lists_defaults_and_empty_arrays(self, sessions):
        same(sessions, {"x": [[1, 2, 3]], "i": [1, 2]})
        same(sessions, {**FEEDS, "y": np.zeros(3, np.float32)})
        same(sessions, {**FEEDS, "x": np.ones((0, 3), np.float32)})
        same(sessions, {**FEEDS, "x": np.ones((3, 2), np.float32).T})

    def test_a_number_is_taken_for_a_scalar(self):
        data = of_text("(int64 x) => (int64 y) { y = Neg (x) }")
        assert own.InferenceSession(data).run(None, {"x": 5})[0] == -5

    def test_outputs_are_writable_and_of_their_own(self, sessions):
        sessions[0].run(None, FEEDS)[0][:] = 7
        assert sessions[0].run(None, FEEDS)[0][0, 0] == 1
        assert X[0, 0] == 0

    def test_64_bits_without_changing_jax(self):
        data = of_text("""(int64[2] a, uint64[1] u, double[1] d)
            => (int64[2] b, uint64[1] v, double[1] e)
            { b = Mul (a, a)  v = Add (u, u)  e = Sqrt (d) }""")
        feeds = {
            "a": np.array([3_000_000_000, -5]),
            "u": np.array([2**62], np.uint64),
            "d": np.array([2.0]),
        }
        before = has_x64()
        got = same(both(data), feeds, atol=0)
        assert got[0][0] == 9_000_000_000_000_000_000
        assert got[2].dtype == np.float64 and got[2][0] == np.sqrt(2.0)
        assert has_x64() == before
        assert jax.numpy.asarray(np.arange(3)).dtype == (np.int64 if before else np.int32)

    def test_a_run_that_is_asynchronous(self, sessions):
        done, found = threading.Event(), []

        def callback(results, data, error):
            found.extend([results, data, error])
            done.set()

        sessions[0].run_async(None, FEEDS, callback, "data")
        assert done.wait(60)
        assert found[0][1].tolist() == PLACES.tolist() and found[1:] == ["data", ""]
        done.clear()
        sessions[0].run_async(None, {**FEEDS, "x": np.ones((2, 4), np.float32)}, callback, 1)
        assert done.wait(60)
        assert found[3:5] == [[], 1] and "size 3 in the model, and 4 here" in found[5]

    def test_strings_stay_on_the_host(self):
        data = of_text(
            """(string[N] a, float[N] x, float[N] y) => (float[N] z, string[N] b)
            <string[1] c = {"b"}> { m = Equal (a, c)  z = Where (m, x, y)  b = Identity (a) }""",
            opset=19,
        )
        feeds = {"a": np.array(["a", "b"]), "x": X[0, :2], "y": X[1, :2]}
        same(both(data), feeds)

    def test_sequences(self):
        sessions = both(
            of_text("(float[2] a, float[N] b) => (seq(float[]) q) { q = SequenceConstruct (a, b) }")
        )
        same(sessions, {"a": X[0, :2], "b": X[1]})
        taken = of_text("(seq(float[]) q, int64 i) => (y) { y = SequenceAt (q, i) }")
        same(both(taken), {"q": [X[0, :2], X[1]], "i": np.array(1)})

    def test_external_data_in_a_folder_and_in_memory(self, tmp_path):
        w = np.arange(6, dtype=np.float32).reshape(3, 2)
        made = parse("graph (float[N, 3] x) => (float[N, 2] y) { y = MatMul (x, w) }", w=w)
        options = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
        onnx.save_model(made, tmp_path / "m.onnx", **options)
        same(both(str(tmp_path / "m.onnx")), {"x": X})
        whole, held = (tmp_path / "m.onnx").read_bytes(), (tmp_path / "w.bin").read_bytes()
        for module in (own, real):
            of_folder, in_memory = module.SessionOptions(), module.SessionOptions()
            key = "session.model_external_initializers_file_folder_path"
            of_folder.add_session_config_entry(key, str(tmp_path))
            in_memory.add_external_initializers_from_files_in_memory(["w.bin"], [held], [len(held)])
            assert module.InferenceSession(str(tmp_path / "m.onnx"))._model_path
            for chosen in (of_folder, in_memory):
                (y,) = module.InferenceSession(whole, chosen).run(None, {"x": X})
                np.testing.assert_array_equal(y, X @ w)

    def test_an_initializer_is_replaced(self):
        options, data = own.SessionOptions(), sums()
        options.add_initializer("y", own.OrtValue.ortvalue_from_numpy(np.full(3, 5, np.float32)))
        del data.graph.input[1]
        session = own.InferenceSession(data.SerializeToString(), options)
        assert session.run(["z"], FEEDS)[0].tolist() == (X + 5).tolist()


CYCLE = "z = Add (x, y) y = Relu (z)"
BROKEN = ["y = Add (x)", "y = Transpose <perm = [0, 1]> (x)", "i = Shape (x) y = Add (x, i)"]
BROKEN += ["y = Softmax <axis = 1> (x)", "v = Concat <axis = 0> (w, w) y = Add (v, w)"]
BROKEN += ["z = Relu (x)", "y = com.microsoft.Foo (x)", "y = Upsample (x, w)"]
BROKEN += ["y = Range (h, h, h)"]


class TestMistakes:
    @pytest.mark.parametrize(
        ("feeds", "names", "text"),
        [
            ({"x": X}, None, "add 'i'"),
            ({**FEEDS, "q": X}, None, r"the name of an input \('x', 'i'\), got 'q'"),
            (FEEDS, ["w"], r"the name of an output \('z', 'j'\), got 'w'"),
            ({**FEEDS, "x": X[0]}, None, "2 dimensions in the model, and 1 here"),
            ({**FEEDS, "x": X[:, :2]}, None, "dimension 1 has size 3 in the model, and 2 here"),
            ({**FEEDS, "x": X.astype(np.float64)}, None, r"pass x.astype\(numpy.float32\)"),
            ({**FEEDS, "x": None}, None, "got None"),
            ({**FEEDS, "x": "abc"}, None, "to be an array"),
            ({**FEEDS, "x": object()}, None, "got object"),
            ({**FEEDS, "y": X[:, 0]}, None, "dimension 0 has size 3 in the model, and 2 here"),
            ([X], None, "to be a dict"),
            (FEEDS, [0], r"the name of an output \('z', 'j'\), got 0"),
            ({**FEEDS, "x": [[1, 2, 3], [4]]}, None, "the list of the input 'x' to make"),
            ({**FEEDS, "x": {"a": 1.0}}, None, "got dict"),
        ],
    )
    def test_the_exception_has_the_same_class(self, sessions, feeds, names, text):
        ours, theirs = sessions
        with pytest.raises(Exception) as wanted:
            theirs.run(names, feeds)
        with pytest.raises(Exception, match=text) as got:
            ours.run(names, feeds)
        kinds = [k.__name__ for k in type(got.value).__mro__]
        assert type(wanted.value).__name__ in kinds

    @pytest.mark.parametrize(
        ("data", "text"),
        [
            ("no_such.onnx", "to exist"),
            (b"this is no model", "to be an ONNX model"),
            (b"", "hold a graph"),
            (3, "the path of a model or its bytes"),
            (sums(), "SerializeToString"),
            (of_text("(x) => (y) { y = Relu (x) }"), "the input 'x' to have a type"),
            (of_text("(int8 x, int8 x) => (y) { y = Abs (x) }"), "an input to be given once"),
        ],
    )
    def test_models_that_cannot_be_read(self, data, text):
        with pytest.raises(Exception) as wanted:
            real.InferenceSession(data)
        with pytest.raises(Exception, match=text) as got:
            own.InferenceSession(data)
        assert type(wanted.value).__name__ in [kind.__name__ for kind in type(got.value).__mro__]

    def test_bytes_have_no_elements_in_files(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "broken.onnx").write_bytes(b"this is no model")
        with pytest.raises(own_state.InvalidProtobuf, match="the file 'broken"):
            own.InferenceSession("broken.onnx")
        w = np.array([1, 2, 3], np.float32)
        model = parse("graph (float[3] x) => (float[3] y) { y = Add(x, w) }", w=w)
        onnx.save(model, "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
        data, options = (tmp_path / "m.onnx").read_bytes(), own.SessionOptions()
        for module in (real, own):
            with pytest.raises(Exception, match="path"):
                module.InferenceSession(data)
        options.add_session_config_entry(
            "session.model_external_initializers_file_folder_path", "."
        )
        (y,) = own.InferenceSession(data, options).run(None, {"x": np.zeros(3, np.float32)})
        assert y.tolist() == [1, 2, 3]

    @pytest.mark.parametrize("nodes", ["y = Foo (x)", "y = my.Foo (x)", CYCLE, *BROKEN])
    def test_unknown_op_types_cycles_and_broken_nodes(self, nodes):
        data = of_text(f"(float[N] x, float16 h) => (y) {{ {nodes} }}", w=X[0])
        with pytest.raises(Exception, match="Runtime") as found:
            real.InferenceSession(data)
        with pytest.raises(getattr(own_state, found.type.__name__)):
            own.InferenceSession(data)

    @pytest.mark.parametrize(
        ("op_type", "x"),
        [
            ("ReduceMean", np.array([[1700000001, 1700000003], [-7, 2]], np.int32)),
            ("ReduceL2", np.array([[30000, 40000], [-3, 4], [46341, 0]], np.int32)),
            ("ReduceMean", np.zeros((2, 0), np.float32)),
        ],
    )
    def test_reductions_of_large_integers_and_of_nothing(self, op_type, x):
        kind = "float" if x.dtype == np.float32 else "int32"
        nodes = f"a = Constant <value_ints = [1]> () y = {op_type} (x, a)"
        same(both(of_text(f"({kind}[N, M] x) => (y) {{ {nodes} }}", 18)), {"x": x}, atol=0)

    @pytest.mark.parametrize("low", [-1, -3])
    def test_a_pad_that_cuts_all(self, low):
        data = of_text("(float[N, M] x, int64[4] p) => (y) { y = Pad (x, p) }")
        same(both(data), {"x": X[:1], "p": np.array([low, 0, 1 - low, 0])})

    def test_a_row_beyond_a_table(self):
        data = of_text("(int64[N] i) => (float[N, 3] y) { y = Gather (w, i) }", w=X)
        sessions = both(data)
        same(sessions, {"i": np.array([1, -2])})
        for session, state in zip(sessions, (own_state, real_state), strict=True):
            with pytest.raises(state.InvalidArgument):
                session.run(None, {"i": np.array([1, 2])})

    def test_an_optional_input_may_be_left_out(self):
        data = of_text("(optional(float[n]) x) => (bool y) { y = OptionalHasElement (x) }")
        same(both(data), {})

    def test_sequences_of_others(self):
        sessions = both(of_text("(seq(float[]) q, int64 i) => (y) { y = SequenceAt (q, i) }"))
        for session, state in zip(sessions, (own_state, real_state), strict=True):
            with pytest.raises(state.InvalidArgument):
                session.run(None, {"q": X, "i": np.array(0)})
            with pytest.raises((RuntimeError, state.InvalidArgument)):
                session.run(None, {"q": [PLACES], "i": np.array(0)})

    def test_sizes_that_a_node_refuses(self):
        data = of_text("(float[N] x, int64[K] r) => (y) { y = Tile (x, r) }")
        for session, state in zip(both(data), (own_state, real_state), strict=True):
            with pytest.raises(state.InvalidArgument):
                session.run(None, {"x": X[0], "r": np.array([1, 2])})

    def test_the_traceback_has_the_lines_of_the_program_alone(self, sessions, monkeypatch):
        monkeypatch.delenv("DML_JAX_RAISE")
        for work in (lambda: sessions[0].run(None, {}), lambda: own.InferenceSession("none.onnx")):
            with pytest.raises((ValueError, own_state.NoSuchFile)) as found:
                work()
            assert {str(step.path) for step in found.traceback} == {__file__}

    def test_sizes_that_do_not_go_together(self):
        feeds = {"x": X, "y": X[:1, :2]}
        for op_type in ("Add", "MatMul", "Concat<axis = 1>"):
            data = of_text(f"(float[a, b] x, float[c, d] y) => (z) {{ z = {op_type} (x, y) }}")
            ours, theirs = both(data)
            with pytest.raises(Exception, match="Non-zero status") as found:
                theirs.run(None, feeds)
            with pytest.raises(getattr(own_state, found.type.__name__), match=op_type[:3]):
                ours.run(None, feeds)

    def test_what_is_refused(self, tmp_path):
        options = own.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "made.onnx")
        with pytest.raises(own_state.NotImplemented, match="optimized_model_filepath"):
            own.InferenceSession(BYTES, options)
        with pytest.raises(own_state.InvalidArgument, match="did you mean 'session"):
            options.add_session_config_entry("session.dml_jax_quik_compile", "0")
        with pytest.raises(AttributeError, match="did you mean 'intra_op_num_threads'"):
            options.intra_op_num_thread = 1
        with pytest.raises(TypeError, match="to be an int"):
            setattr(options, "intra_op_num_threads", "a")  # noqa: B010

    def test_a_run_that_is_terminated(self, sessions):
        options = own.RunOptions()
        options.terminate = True
        with pytest.raises(own_state.Fail, match="terminate"):
            sessions[0].run(None, FEEDS, options)


class TestProviders:
    def test_the_cpu_is_always_there(self):
        assert "CPUExecutionProvider" in own.get_available_providers()
        session = own.InferenceSession(BYTES, providers=["CPUExecutionProvider"])
        assert session.get_providers() == ["CPUExecutionProvider"]

    def test_what_is_not_there_warns(self):
        with pytest.warns(UserWarning, match="Specified provider 'FooExecutionProvider' is not"):
            session = own.InferenceSession(BYTES, providers=["FooExecutionProvider"])
        assert session.get_providers() == ["CPUExecutionProvider"]

    @pytest.mark.skipif("gpu" in jax.default_backend(), reason="a GPU is there")
    def test_cuda_falls_back_to_the_cpu(self):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            session = own.InferenceSession(
                BYTES,
                providers=[("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"],
            )
        assert [w.category for w in seen] == [UserWarning]
        assert session.get_providers() == ["CPUExecutionProvider"]
        assert session.get_provider_options() == {"CPUExecutionProvider": {}}


@pytest.mark.skipif("gpu" not in jax.default_backend(), reason="no GPU is there")
class TestGpus:
    def bound(self, x):
        """Return a session that ran on a GPU, and the binding of its inputs and outputs."""
        session = own.InferenceSession(BYTES, providers=["CUDAExecutionProvider"])
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_cpu_input("i", PLACES)
        binding.bind_output("z", "cuda")
        session.run_with_iobinding(binding)
        return session, binding

    @pytest.mark.parametrize("name", ["CUDAExecutionProvider", "DmlExecutionProvider"])
    def test_providers_of_a_gpu(self, name):
        assert name in own.get_available_providers() and own.get_device() == "GPU"
        session = own.InferenceSession(BYTES, providers=[(name, {"device_id": 0})])
        assert session.get_providers() == [name, "CPUExecutionProvider"]
        (result, _) = session.values_of(None, FEEDS, None, aligned_memory.empty)
        assert {d.platform for d in result.devices()} == {"gpu"}
        assert session.run(["j"], FEEDS)[0].tolist() == PLACES.tolist()
        with pytest.raises(own_state.EPFail, match="device_id"):
            own.InferenceSession(BYTES, providers=[(name, {"device_id": 99})])

    def test_the_cpu_beside_a_gpu(self):
        session = own.InferenceSession(BYTES, providers=["CPUExecutionProvider"])
        (result, _) = session.values_of(None, FEEDS, None, aligned_memory.empty)
        assert {d.platform for d in result.devices()} == {"cpu"}

    def test_bindings_on_a_gpu(self):
        value = own.OrtValue.ortvalue_from_numpy(X, "cuda", 0)
        session, binding = self.bound(value)
        (result,) = binding.get_outputs()
        assert result.device_name() == "cuda" and result.numpy().tolist() == (X + 1).tolist()
        value.update_inplace(2 * X)
        session.run_with_iobinding(binding)
        assert binding.copy_outputs_to_cpu()[0].tolist() == (2 * X + 1).tolist()
        with pytest.raises(own_state.NotImplemented, match="bind_ortvalue_input"):
            binding.bind_input("x", "cuda", 0, np.float32, [2, 3], value.data_ptr())

    def test_values_on_a_gpu(self):
        value = own.OrtValue.ortvalue_from_numpy(PLACES, "cuda", 0)
        assert (value.device_name(), value.data_type()) == ("cuda", "tensor(int64)")
        copy = value.numpy()
        copy[0] = 0
        assert value.numpy().tolist() == PLACES.tolist()
        session = own.InferenceSession(BYTES, providers=["CUDAExecutionProvider"])
        on_gpu = {"x": own.OrtValue.ortvalue_from_numpy(X, "cuda", 0), "i": value}
        z, j = session.run_with_ort_values(None, on_gpu)
        assert z.numpy().tolist() == (X + 1).tolist() and j.numpy().tolist() == PLACES.tolist()
        on_cpu = own.InferenceSession(BYTES, providers=["CPUExecutionProvider"])
        assert on_cpu.run_with_ort_values(["j"], on_gpu)[0].numpy().tolist() == PLACES.tolist()

    def test_memory_is_shared_with_torch(self):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch has no GPU")
        tensor = torch.arange(6, dtype=torch.float32, device="cuda").reshape(2, 3)
        value = own.OrtValue.from_dlpack(tensor)
        assert (value.device_name(), value.data_ptr()) == ("cuda", tensor.data_ptr())
        back = torch.from_dlpack(value)
        assert back.device.type == "cuda" and back.data_ptr() == tensor.data_ptr()
        _, binding = self.bound(value)
        assert torch.from_dlpack(binding.get_outputs()[0]).tolist() == (X + 1).tolist()


class TestNotices:
    """The line on stderr that says why a run takes long."""

    @pytest.mark.parametrize(("severity", "count"), [(-1, 0), (2, 1), (3, 0)])
    def test_a_session_says_once_that_it_compiles(self, severity, count, monkeypatch, capfd):
        monkeypatch.setattr(slow_notice, "SECONDS", 0)
        options = own.SessionOptions()
        options.log_severity_level = severity
        session = own.InferenceSession(BYTES, options)
        for rows in (1, 2, 2):
            session.run(None, {**FEEDS, "x": np.ones((rows, 3), np.float32)})
        said = capfd.readouterr()
        assert said.err.count("\n") == said.err.count("dml_jax compiles") == count
        assert said.out == ""

    def test_a_run_that_is_fast_says_nothing(self, capfd):
        options = own.SessionOptions()
        options.log_severity_level = 0
        own.InferenceSession(BYTES, options).run(None, FEEDS)
        assert capfd.readouterr().err == ""


class TestValues:
    def test_a_value_shares_the_memory_of_an_array(self):
        for module in (own, real):
            array = X.copy()
            value = module.OrtValue.ortvalue_from_numpy(array)
            assert value.data_ptr() == array.ctypes.data
            assert (value.shape(), value.data_type()) == ([2, 3], "tensor(float)")
            assert (value.element_type(), value.tensor_size_in_bytes()) == (1, 24)
            value.update_inplace(np.zeros((2, 3), np.float32))
            assert not array.any()
            with pytest.raises(RuntimeError):
                value.update_inplace(np.zeros((2, 4), np.float32))

    def test_values_from_shapes_types_and_dlpack(self):
        for module in (own, real):
            made = module.OrtValue.ortvalue_from_shape_and_type([2, 3], np.int64)
            assert made.numpy().dtype == np.int64 and made.shape() == [2, 3]
            assert module.OrtValue.from_dlpack(X).numpy().tolist() == X.tolist()
            assert np.from_dlpack(module.OrtValue.ortvalue_from_numpy(X)).tolist() == X.tolist()
            assert "dltensor" in repr(made._ortvalue.to_dlpack())
            with pytest.raises(RuntimeError):
                module.OrtValue.ortvalue_from_numpy(["a"])

    def test_runs_of_values(self, sessions):
        found = []
        for module, session in zip((own, real), sessions, strict=True):
            make = module.OrtValue.ortvalue_from_numpy
            results = session.run_with_ort_values(None, {"x": make(X), "i": make(PLACES)})
            found.append([r.numpy().tolist() for r in results])
        assert found[0] == found[1]

    def test_bindings(self, sessions):
        for module, session in zip((own, real), sessions, strict=True):
            binding = session.io_binding()
            binding.bind_cpu_input("x", X)
            binding.bind_ortvalue_input("i", module.OrtValue.ortvalue_from_numpy(PLACES))
            target = np.zeros((2, 3), np.float32)
            binding.bind_output("z", "cpu", 0, np.float32, [2, 3], target.ctypes.data)
            binding.bind_output("j")
            session.run_with_iobinding(binding)
            assert target.tolist() == (X + 1).tolist()
            assert binding.copy_outputs_to_cpu()[1].tolist() == PLACES.tolist()
            assert [v.device_name() for v in binding.get_outputs()] == ["cpu", "cpu"]
            with pytest.raises(RuntimeError):
                binding.bind_cpu_input("q", X)
            binding.bind_cpu_input("x", np.ones((2, 4), np.float32))
            with pytest.raises(RuntimeError):
                session.run_with_iobinding(binding)
            binding.bind_cpu_input("x", X[:1])
            with pytest.raises(RuntimeError, match="the output 'z'" if module is own else None):
                session.run_with_iobinding(binding)
            with pytest.raises(AttributeError):
                binding.bind_ortvalue_input("x", X)
            binding.clear_binding_outputs()
            assert binding.get_outputs() == []
            with pytest.raises(RuntimeError):
                session.run_with_iobinding(binding)


class TestSizes:
    def test_a_program_for_each_size(self, sessions):
        session = own.InferenceSession(BYTES)
        for rows in (1, 2, 1, 3, 2):
            session.run(None, {"x": np.ones((rows, 3), np.float32), "i": PLACES})
        assert len(stages_of(session)) == 3

    def test_the_least_recently_used_goes(self):
        options = own.SessionOptions()
        options.add_session_config_entry("session.dml_jax_programs", "2")
        session = own.InferenceSession(BYTES, options)
        for rows in (1, 2, 1, 3, 1):
            x = np.ones((rows, 3), np.float32)
            assert session.run(["z"], {"x": x, "i": PLACES})[0].shape == x.shape
        assert len(stages_of(session)) == 2
        options.add_session_config_entry("session.dml_jax_programs", "no")
        with pytest.raises(ValueError, match="a number of at least 1"):
            own.InferenceSession(BYTES, options)

    def test_what_follows_from_one_size_is_compiled_once_for_it(self):
        """A word of two lengths, of which each is read with one to three letters."""
        words = " ".join(f"a{k + 1} = Tanh (a{k})" for k in range(8))
        letters = " ".join(f"b{k + 1} = Tanh (b{k})" for k in range(8))
        data = of_text(f"""(float[n] word, float[m] letters) => (float[m] y, float sum, float no)
            <float zero = {{0}}> {{ no = Identity (zero)  a0 = Tanh (word)  {words}
            sum = ReduceSum <keepdims = 0> (a8)  b0 = Add (letters, sum)  {letters}
            y = Add (b8, no) }}""")
        sessions = both(data)
        for size in (3, 5):
            for count in (1, 2, 3, 3):
                feeds = {"word": np.ones(size, np.float32), "letters": np.ones(count, np.float32)}
                same(sessions, feeds)
        assert len(stages_of(sessions[0])) == 2 + 3

    def test_a_shape_that_is_fed(self):
        data = of_text("(float[N] x, int64[M] s) => (y) { y = Reshape (x, s) }")
        sessions = both(data)
        for shape in ([2, 3], [3, -1], [6], [1, 6, 1]):
            same(sessions, {"x": X.ravel(), "s": np.array(shape)})
        with pytest.raises(own_state.Fail):
            sessions[0].run(None, {"x": X.ravel(), "s": np.array([4, 4])})

    def test_a_branch_that_is_fed(self):
        data = of_text("""(float[2, 3] x, int64 sr) => (y) <int64 rate = {16000}>
            { is_16k = Equal (sr, rate)
            y = If (is_16k) <then_branch = then () => (p) { p = Neg (x) },
            else_branch = other () => (q) { q = Transpose (x) }> }""")
        sessions = both(data)
        for rate in (16000, 8000, [16000]):  # any sizes are taken for a scalar
            same(sessions, {"x": X, "sr": np.array(rate)})

    def test_sizes_that_data_decide(self):
        data = of_text("""(float[N, 3] x) => (sums, steps, float square)
            <int64 zero = {0}, int64 one = {1}>
            { where = NonZero (x)  places = Transpose <perm = [1, 0]> (where)
            found = GatherND (x, places)  sums = CumSum (found, zero)
            most = ReduceMax <keepdims = 0> (sums)  count = Cast <to = 7> (most)
            steps = Range (zero, count, one)  floats = Cast <to = 1> (steps)
            square = MatMul (floats, floats) }""")
        sessions = both(data)
        same(sessions, {"x": X})
        same(sessions, {"x": X[:1]})
        same(sessions, {"x": X * np.float32(2)})

    def test_a_detector_with_suppression_in_the_middle(self):
        random = np.random.default_rng(0)
        data = of_text("""(float[1, 20, 4] boxes, float[1, 1, 20] scores) => (chosen, zeros, mean)
            <int64[1] most = {20}, float[1] overlap = {0.5}, int64 two = {2}, int64[1] first = {0}>
            { kept = NonMaxSuppression (boxes, scores, most, overlap)
            index = Gather <axis = 1> (kept, two)  flat = Squeeze (boxes, first)
            chosen = Gather (flat, index)  sizes = Shape (chosen)
            zeros = ConstantOfShape (sizes)
            mean = ReduceMean <axes = [0], keepdims = 0> (chosen) }""")
        corners = random.random((1, 20, 2), np.float32)
        boxes = np.concatenate([corners, corners + np.float32(0.3)], 2)
        feeds = {"boxes": boxes, "scores": random.random((1, 1, 20), np.float32)}
        same(both(data), feeds)


MODULE = """AdapterFormat ExecutionMode ExecutionOrder GraphOptimizationLevel IOBinding
InferenceSession LoraAdapter ModelCompiler ModelMetadata ModelPackage ModelPackageComponentContext
ModelPackageContext ModelPackageOptions ModelPackageWriteMode NodeArg OrtAllocatorType OrtArenaCfg
OrtCompileApiFlags OrtDevice OrtDeviceMemoryType OrtDeviceVendorId OrtEpAssignedNode
OrtEpAssignedSubgraph OrtEpContextData OrtEpContextDataBuffer OrtEpDevice
OrtExecutionProviderDevicePolicy OrtExternalInitializerInfo OrtHardwareDevice OrtHardwareDeviceType
OrtMemType OrtMemoryInfo OrtMemoryInfoDeviceType OrtSparseFormat OrtSyncStream OrtValue RunOptions
SessionIOBinding SessionOptions SparseTensor capi copy_tensors create_and_register_allocator
create_and_register_allocator_v2 cuda_version disable_telemetry_events enable_telemetry_events
get_all_providers get_available_providers get_build_info get_device get_ep_devices
get_version_string has_collective_ops onnxruntime_validation package_name preload_dlls
print_debug_info register_execution_provider_library set_default_logger_callback
set_default_logger_severity set_default_logger_verbosity set_global_thread_pool_sizes set_seed
unregister_execution_provider_library version"""
METHODS = {
    "InferenceSession": """create_ortvalue_from_shape_and_type disable_fallback enable_fallback
end_profiling get_input_epdevices get_input_memory_infos get_inputs get_modelmeta
get_output_memory_infos get_outputs get_overridable_initializers get_profiling_start_time_ns
get_provider_graph_assignment_info get_provider_options get_providers get_session_options
get_tuning_results io_binding release_captured_graph run run_async run_with_iobinding
run_with_ort_values run_with_ortvaluevector set_ep_dynamic_options set_providers
set_tuning_results""",
    "IOBinding": """bind_cpu_input bind_input bind_ortvalue_input bind_ortvalue_output bind_output
clear_binding_inputs clear_binding_outputs copy_outputs_to_cpu get_outputs
get_outputs_as_ortvaluevector synchronize_inputs synchronize_outputs""",
    "OrtValue": """as_sparse_tensor data_ptr data_type device_name element_type from_dlpack
has_value is_sparse_tensor is_tensor is_tensor_sequence numpy ort_value_from_sparse_tensor
ortvalue_from_numpy ortvalue_from_numpy_with_onnx_type ortvalue_from_shape_and_type shape
tensor_size_in_bytes update_inplace""",
    "RunOptions": "add_active_adapter add_run_config_entry get_run_config_entry",
    "SessionOptions": """add_external_initializers add_external_initializers_from_files_in_memory
add_free_dimension_override_by_denotation add_free_dimension_override_by_name add_initializer
add_provider add_provider_for_devices add_session_config_entry clear_ep_context_data_read_func
get_session_config_entry has_providers register_custom_ops_library set_ep_context_data_read_func
set_load_cancellation_flag set_provider_selection_policy set_provider_selection_policy_delegate""",
}


class TestNames:
    """The names of ONNX Runtime 1.32: they work, or are refused in words."""

    def test_all_are_there(self):
        assert [name for name in MODULE.split() if not hasattr(own, name)] == []
        for kind, names in METHODS.items():
            assert [n for n in names.split() if not hasattr(getattr(own, kind), n)] == []

    @pytest.mark.parametrize(
        ("use", "text"),
        [
            (lambda m: m.LoraAdapter(), "LoraAdapter: adapters are not taken"),
            (lambda m: m.LoraAdapter.Load("x"), r"LoraAdapter\.Load: adapters are not taken"),
            (lambda m: m.ModelCompiler(m.SessionOptions(), "x"), "ModelCompiler: compiled models"),
            (lambda m: m.OrtMemoryInfo("Cpu", 0, 0, 0), "OrtMemoryInfo: memory is JAX's own"),
            (lambda m: m.get_ep_devices(), r"providers=\[\.\.\.\]"),
            (lambda m: m.register_execution_provider_library("a", "b"), "come from JAX"),
            (lambda m: m.RunOptions().add_active_adapter(None), "add_active_adapter: adapters"),
            (lambda m: m.InferenceSession(BYTES).set_tuning_results([]), "are not tuned"),
            (lambda m: m.capi._pybind_state.quantize_matmul_4bits(), "native code of ONNX Runtime"),
            (lambda m: m.SparseTensor.sparse_coo_from_numpy(), "pass the dense array"),
            (lambda m: m.SessionOptions().register_custom_ops_library("x.so"), r"library 'x\.so'"),
        ],
    )
    def test_what_is_refused_says_why(self, use, text):
        with pytest.raises(own_state.NotImplemented, match=text):
            use(own)

    def test_examples_and_the_interface_of_backends(self):
        from dml_jax.onnxruntime import backend, datasets

        path = datasets.get_example("mul_1.onnx")
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        (y,) = backend.prepare(onnx.load(path)).run([x])
        np.testing.assert_array_equal(y, x * (x + 1))
        with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
            datasets.get_example("none.onnx")


def unaligned(count: int, value: float) -> np.ndarray:
    """Return numbers whose memory XLA does not take as it is."""
    memory = np.empty(4 * count + 64, np.uint8)
    start = 16 - memory.ctypes.data % 64
    made = memory[start % 64 :][: 4 * count].view(np.float32)
    made[:] = value
    return made


class TestPages:
    def copies(self):
        data = of_text("(float[N] x) => (float[N] y) { y = Identity (x) }")
        return own.InferenceSession(data, providers=["CPUExecutionProvider"])

    def test_a_large_input_has_pages_that_the_next_run_uses(self, monkeypatch):
        made, empty = [], aligned_memory.empty
        monkeypatch.setattr(aligned_memory, "empty", lambda n: made.append(n) or empty(n))
        session, results = self.copies(), []
        for value in (1, 2, 3):
            results.append(session.run(None, {"x": unaligned(1 << 16, value)})[0])
        x = own.OrtValue.ortvalue_from_numpy(unaligned(1 << 16, 4))
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", x)
        binding.bind_output("y")
        session.run_with_iobinding(binding)
        results.append(binding.get_outputs()[0].numpy())
        session.run(None, {"x": np.zeros((1 << 16, 2), np.float32)[:, 1]})
        assert [set(r.tolist()) for r in results] == [{1}, {2}, {3}, {4}]
        assert len(made) == 1

    def test_runs_at_once_have_pages_of_their_own(self):
        session = self.copies()

        def is_right(value):
            results = [session.run(None, {"x": unaligned(1 << 16, value)})[0] for _ in range(20)]
            return all((result == value).all() for result in results)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            assert all(pool.map(is_right, range(8)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
class TestForks:
    def in_child(self, work) -> str:
        """Return what a child of this process says of some work."""
        reads, writes = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # JAX and Python say that it is dangerous
            child = os.fork()
        if child == 0:
            signal.alarm(30)  # it would wait for ever
            try:
                said = repr(work())
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
            os.write(writes, said.encode())
            os._exit(0)
        os.close(writes)
        os.waitpid(child, 0)
        with os.fdopen(reads, "rb") as pipe:
            return pipe.read().decode()

    def test_a_child_cannot_compute(self, sessions):
        session, network = sessions[0], dml_jax.load_onnx(BYTES, {"x": (2, 3), "i": (2,)})
        session.run(None, FEEDS)
        rule = "JAX cannot compute in this process: os.fork made it"
        assert self.in_child(lambda: session.run(None, FEEDS)).startswith(f"Fail: {rule}")
        assert self.in_child(lambda: own.InferenceSession(BYTES)).startswith(f"Fail: {rule}")
        for work in (lambda: network(x=X, i=[0, 1]), lambda: dml_jax.load_onnx(BYTES)):
            assert self.in_child(work).startswith(f"DmlError: {rule}")

    def test_before_the_first_session_a_child_can(self):
        lines = [
            "import os, numpy as np, dml_jax.onnxruntime as ort",
            "child = os.fork()",
            "if child == 0:",
            f"    session = ort.InferenceSession({BYTES!r})",
            "    z, _ = session.run(None, {'x': np.zeros((1, 3), np.float32), 'i': [1]})",
            "    os._exit(z.tolist() != [[1, 1, 1]])",
            "assert os.waitpid(child, 0)[1] == 0",
        ]
        subprocess.run([sys.executable, "-c", "\n".join(lines)], check=True, timeout=60)


def _function_of(stage):
    assert stage.network is not None
    return stage.network.executable.function


class TestQuickPrograms:
    @pytest.mark.skipif(jax.default_backend() != "cpu", reason="quick programs are of CPUs")
    @pytest.mark.parametrize("how", ["", "entry", "use_deterministic_compute"])
    def test_all_programs_may_be_good(self, how):
        options = own.SessionOptions()
        if how == "entry":
            options.add_session_config_entry("session.dml_jax_quick_compile", "0")
        options.use_deterministic_compute = how == "use_deterministic_compute"
        session = own.InferenceSession(BYTES, options)
        session.run(None, FEEDS)
        (stage,) = stages_of(session)
        assert _function_of(stage).is_optimized == bool(how)
        options.add_session_config_entry("session.dml_jax_quick_compile", "no")
        with pytest.raises(ValueError, match="to be '0' or '1', got 'no'"):
            own.InferenceSession(BYTES, options)


class TestProfiles:
    def test_events_name_nodes_as_in_onnx_runtime(self, tmp_path):
        found = []
        for module in (own, real):
            options = module.SessionOptions()
            options.enable_profiling = True
            options.profile_file_prefix = str(tmp_path / module.__name__)
            session = module.InferenceSession(BYTES, options, ["CPUExecutionProvider"])
            session.run(None, FEEDS)
            name = session.end_profiling()
            assert session.get_profiling_start_time_ns() > 0
            with open(name, encoding="utf-8") as file:  # noqa: PTH123
                events = json.load(file)
            found.append({e["name"]: e for e in events})
        ours, theirs = found
        assert set(theirs) <= set(ours)
        for name, event in theirs.items():
            assert set(event) == set(ours[name]) and event["cat"] == ours[name]["cat"]
            shapes, sizes = ("input_type_shape", "output_type_shape"), ("output_size", "node_index")
            for key in ("op_name", "provider", *shapes, *sizes):
                assert event["args"].get(key) == ours[name]["args"].get(key)

    def test_without_profiling_there_is_no_file(self, sessions):
        assert sessions[0].end_profiling() == sessions[1].end_profiling() == ""

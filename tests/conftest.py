"""What every test runs under: 64-bit types, no implicit promotion, eight devices."""

import datetime
import gc
import importlib.util
import json
import os
import platform
import re
import signal
import tempfile
from pathlib import Path

# Read when the backend starts, so it has to stand before any array is made.
# Trials of kernels on a GPU would take a part of the time. Without them XLA's own products of
# 8-bit integers are wrong, and cuBLAS's are right.
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_force_host_platform_device_count=8"
    + " --xla_gpu_autotune_level=0 --xla_gpu_enable_triton_gemm=false"
)
# Processes of pytest-xdist share a GPU: none takes most of its memory at once.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

# Tests keep no programs in the user's folder.
os.environ["DML_JAX_CACHE"] = str(Path(tempfile.mkdtemp(prefix="dml-jax-tests-")))

# Tests see a bug of the package itself, not the line that says where it is.
os.environ["DML_JAX_RAISE"] = "1"

# A shell's background jobs ignore it, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")

hypothesis.settings.register_profile(
    "default",
    deadline=None,  # the first call of a shape compiles
    max_examples=25,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("default")


HELPERS = Path(__file__).parent
PACKAGES = ("click", "matplotlib", "onnx", "onnxruntime", "rich", "safetensors", "tokenizers")
SPECS = {name: importlib.util.find_spec(name) for name in PACKAGES}
# A folder of tests has the name of a package; a package that is installed has an origin.
MISSING = [name for name, spec in SPECS.items() if spec is None or spec.origin is None]


def pytest_addoption(parser: pytest.Parser):
    parser.addoption("--ran", type=Path, help="add the counts of this run to a JSON file")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config):
    path: Path | None = config.getoption("--ran")
    if path is None or hasattr(config, "workerinput"):
        return
    device = jax.devices()[0]
    outcomes = ("passed", "failed", "error", "skipped")
    row = {
        "device": device.device_kind if device.platform != "cpu" else platform.machine(),
        "jax": jax.__version__,
        "python": platform.python_version(),
        "tests": " ".join(config.args) if config.args_source.name == "ARGS" else "all",
        **{outcome: len(terminalreporter.stats.get(outcome, [])) for outcome in outcomes},
        "date": datetime.date.today().isoformat(),
    }
    runs = json.loads(path.read_text()) if path.exists() else []
    path.write_text(json.dumps([*runs, row], indent=1) + "\n")


def lacks_a_package(path: Path) -> bool:
    """Return whether a module, or a helper that it imports, needs a package that is missing."""
    names = re.findall(r"^(?:from|import) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
    helpers = (HELPERS / f"{name}.py" for name in names)
    return any(name in MISSING for name in names) or any(
        lacks_a_package(helper) for helper in helpers if helper.exists()
    )


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out the modules of tests whose packages are not installed."""
    is_module = bool(MISSING) and collection_path.name.startswith("test_")
    return True if is_module and lacks_a_package(collection_path) else None


def pytest_collection_finish():
    gc.freeze()  # what all tests need is not searched again with each of their arrays


# Modules whose programs have all of XLA's optimisations, as users have them: the tests hold digits,
# times and memory. Without the optimisations XLA ends the process at elements of 8 bits.
OPTIMISED = ("cli/test_faults.py", "conformance", "lowering", "memory", "runtime")
OPTIMISED += ("onnx/translators/test_double.py",)
OPTIMISED += tuple(f"operators/test_{name}.py" for name in ("reduction", "region", "registry"))


@pytest.fixture(scope="module", autouse=True)
def compile_as_asked(request: pytest.FixtureRequest):
    """Leave LLVM's optimisations out of the programs, but for the modules of `OPTIMISED`."""
    from forms import compile_all_soon

    place = request.path.relative_to(HELPERS).as_posix()
    compile_all_soon(not place.startswith(OPTIMISED))


@pytest.fixture
def no_x64():
    """JAX as it is by default: without 64-bit types."""
    with jax.enable_x64(False):
        yield

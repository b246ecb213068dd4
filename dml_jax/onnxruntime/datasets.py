"""The examples of the package onnxruntime, where it is installed."""

from dml_jax.onnxruntime.run_program import package_folder


def get_example(name: str) -> str:
    """Return the path of an example. Raises `FileNotFoundError` where it is not there."""
    folder = package_folder()
    if folder is None or not (folder / "datasets" / name).exists():
        text = f"expected the example {name!r} to be in the package onnxruntime (pip install it)"
        raise FileNotFoundError(text)
    return str(folder / "datasets" / name)

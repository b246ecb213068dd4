"""`dml-jax save`: writes a network again, with other weights."""

from pathlib import Path
from typing import Any

import click

from dml_jax.cli.terminal import Command, json_option, new_folder, reporting, say_json
from dml_jax.errors import DmlError, Fault, Unquoted
from dml_jax.system.files import readable, similar_file

# Reading and writing report their errors themselves: they are no wrong command line.
FILE = click.Path(readable=False, path_type=Path)


@click.command(cls=Command)
@click.argument("network", metavar="NETWORK", type=FILE)
@click.option("--weights", type=FILE, help="File of numpy.savez: new values, by name.")
@click.option("-o", "--output", type=FILE, required=True, help="The file to write.")
@click.option(
    "--dtype",
    type=click.Choice(["float16", "bfloat16"]),
    help="Type in which FLOAT initializers are stored, rounded.",
)
@json_option
def save(
    network: Path, weights: Path | None, output: Path, dtype: str | None, as_json: bool
) -> None:
    """Write the ONNX network NETWORK again, with new values of its initializers.

    All else stays as it is: types, names of sizes, metadata, functions. External data goes to a
    file beside the new one, OUTPUT.data. NETWORK is not changed.

    \b
    dml-jax save network.onnx --weights weights.npz -o tuned.onnx
    dml-jax save network.onnx --dtype float16 -o small.onnx    half of the bytes
    """  # noqa: D301  (click reads \b as a control character)
    with reporting(as_json):
        from dml_jax.onnx import save_onnx

        values = {} if weights is None else _arrays(weights)
        new = new_folder(output)
        changed = save_onnx(network, output, values, dtype)
        if as_json:
            say_json({"file": str(output), "weights": len(values), "changed": changed})
        else:
            said = [f"{len(changed)} of {len(values)} weights differ"] if weights else []
            said += [f"floating weights are {dtype.upper()}"] if dtype else []
            click.echo(f"{output}: {', '.join(said) or 'the same weights'}{new}.")


def _arrays(path: Path) -> dict[str, Any]:
    import zipfile

    import numpy as np

    from dml_jax.system.free_memory import host_bytes

    field, rule = f"the weights '{path}'", "be a file of numpy.savez"
    if not path.exists():
        raise DmlError([Fault("", field, rule + similar_file(path), Unquoted("no such file"))])
    with readable(field, rule):
        with zipfile.ZipFile(path) as packed:
            size, most = sum(part.file_size for part in packed.infolist()), host_bytes()
        if most is not None and size > most:
            raise ValueError(f"{size} bytes, of which {most} are free")
        with np.load(path) as file:
            return {name: file[name] for name in file.files}

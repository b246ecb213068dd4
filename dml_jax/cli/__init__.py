"""The command line: one module a command."""

from typing import Any

import click
import jax

from dml_jax import __version__
from dml_jax.cli.run import run
from dml_jax.cli.show import show
from dml_jax.errors import nearest


class _Group(click.Group):
    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = nearest(args[0], self.list_commands(ctx))
            raise click.UsageError(f"{error.message.rstrip('.')}{hint}", ctx) from None


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dml-jax")
def cli() -> None:
    """DirectML's operators on XLA.

    \b
    dml-jax run model.json             run a DxDispatch model
    dml-jax run model.json --check     check it, without running
    dml-jax run model.json -i 100 -v 1 run each dispatch 100 times, with statistics
    dml-jax show graph.json -o out.svg draw a graph, or a model
    """  # noqa: D301  (click reads \b as a control character)
    # DirectML has 64-bit types, so the command line has them too.
    jax.config.update("jax_enable_x64", True)


for command in (run, show):
    cli.add_command(command)

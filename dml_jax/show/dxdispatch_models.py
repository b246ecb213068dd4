"""Pictures of models: the commands, and the data that flows between them."""

from dml_jax.description.tensor import TensorDesc
from dml_jax.dxdispatch.model import Dispatch, Model, Print
from dml_jax.show.diagrams import Picture, kind_of, label, svg

_Writer = tuple[int, TensorDesc]


def model_picture(model: Model) -> Picture:
    """Return the picture of a model: its commands in order, joined by the data that they share.

    A line bears the name of a resource, and the data as its writer has them; initial values are as
    the tensor that reads them.
    """
    picture = Picture()
    # For each resource the bytes of its parts, and the box and the tensor that wrote them.
    parts: dict[str, list[tuple[int, int, _Writer | None]]] = {
        name: [(0, resource.size_in_bytes, None)] for name, resource in model.resources.items()
    }
    initial: dict[str, int] = {}

    def join(
        name: str, writer: _Writer | None, reader: int, tensor: TensorDesc | None = None
    ) -> None:
        if writer is not None:
            picture.lines.append((writer[0], reader, f"{name} {label(writer[1])}"))
            return
        resource = model.resources[name]
        if name not in initial:
            initial[name] = picture.add("input", name, _bytes(resource.size_in_bytes))
        count = resource.elements(resource.written())
        text = f"{resource.data_type}[{count}]" if resource.data_type.element_size else ""
        text = text if tensor is None else label(tensor)
        picture.lines.append((initial[name], reader, text))

    for command in model.commands:
        if not isinstance(command, Dispatch):
            name = command.resource
            words = ("print", name) if isinstance(command, Print) else (command.target_path, "file")
            box = picture.add("output", *words)
            for writer in dict.fromkeys(writer for *_, writer in parts[name]):
                join(name, writer, box)
            continue
        operator = command.dispatchable.operator
        box = picture.add("operator", command.dispatchable.name, kind_of(operator))
        tensors = [place for place in command.tensors if place.memory in parts]
        for place in tensors:
            for start, end, writer in () if place.output else parts[place.memory]:
                if start < place.end and place.offset < end:
                    join(place.memory, writer, box, place.tensor)
        for place in tensors:
            if place.output:
                rest = [p for p in parts[place.memory] if p[0] < place.offset or place.end < p[1]]
                parts[place.memory] = [*rest, (place.offset, place.end, (box, place.tensor))]
    return picture


def _bytes(count: int) -> str:
    """Return a count of bytes as people read it: `3.0 MiB`."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"


Model._repr_svg_ = lambda self: svg(model_picture(self))

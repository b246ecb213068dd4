"""Enlarges a face three times: a PyDirectML program.

    python examples/super_resolution.py
    python -m dml_jax.pydirectml examples/pydirectml_super_resolution.py

It reads the weights that the first program saves, out/super_resolution.npz, and the photograph. It
writes out/pydirectml_super_resolution.png, the same picture as the first program makes.
"""

import sys
from pathlib import Path

import numpy as np
import pydirectml as dml  # pyright: ignore[reportMissingImports]
from PIL import Image

PHOTOGRAPH = Path(__file__).parent / "images" / "astronaut.jpg"
WEIGHTS = Path("out/super_resolution.npz")
PICTURE = Path("out/pydirectml_super_resolution.png")
FACE = (120, 0, 312, 192)
FACTOR = 3

if not WEIGHTS.exists():
    sys.exit(f"{WEIGHTS} is missing: run examples/super_resolution.py first")
weights = np.load(WEIGHTS)

# The face, from 0 to 1, as [1, 3, 192, 192].
face = np.asarray(Image.open(PHOTOGRAPH).convert("RGB").crop(FACE), np.float32) / 255
face = np.ascontiguousarray(face.transpose(2, 0, 1)[np.newaxis])
side = face.shape[2] // FACTOR

# A device, and a builder of its graph.
device = dml.Device(True, False)
builder = dml.GraphBuilder(device)
data_type = dml.TensorDataType.FLOAT32
stays = dml.TensorFlags.OWNED_BY_DML
bindings = []


def bound(array, flags=dml.TensorFlags.NONE):
    """Return a graph input for the array, which is bound to it."""
    desc = dml.TensorDesc(data_type, flags, list(array.shape))
    tensor = dml.input_tensor(builder, len(bindings), desc)
    bindings.append(dml.Binding(tensor, array))
    return tensor


# The small picture: means of 3 x 3 pixels.
small = dml.average_pooling(
    bound(face),
    strides=[FACTOR, FACTOR],
    window_sizes=[FACTOR, FACTOR],
    start_padding=[0, 0],
    end_padding=[0, 0],
    include_padding=False,
)

# Four convolutions, each but the last with an activation.
leaky = dml.FusedActivation(dml.OperatorType.ACTIVATION_LEAKY_RELU, 0.1)
none = dml.FusedActivation(dml.OperatorType.INVALID)
layers = len(weights.files) // 2
x = small - 0.5
for layer in range(1, layers + 1):
    kernel, bias = weights[f"filter{layer}"], weights[f"bias{layer}"]
    border = [kernel.shape[2] // 2] * 2
    x = dml.convolution(
        x,
        bound(kernel, stays),
        bound(bias, stays),
        start_padding=border,
        end_padding=border,
        fused_activation=none if layer == layers else leaky,
    )

# The 27 channels, (row, column, colour), become blocks of 3 x 3 pixels: the same bytes by the
# strides of (colour, y, row, x, column), which activation_identity writes in that order.
plane = side * side
sizes = [FACTOR, side, FACTOR, side, FACTOR]
strides = [plane, side, FACTOR * 3 * plane, 1, 3 * plane]
blocks = dml.activation_identity(dml.reinterpret(x, data_type, sizes, strides))
details = dml.reinterpret(blocks, data_type, list(face.shape), None)

between = dml.up_sample_2d(small, dml.Size2D(FACTOR, FACTOR), dml.InterpolationMode.LINEAR)
large = dml.add(between, details)

model = builder.build(dml.ExecutionFlags.NONE, [large])
(result,) = device.compute(model, bindings, [large])

pixels = np.round(np.clip(np.array(result)[0], 0, 1) * 255).astype(np.uint8)
Image.fromarray(pixels.transpose(1, 2, 0)).save(PICTURE)
print(f"{PICTURE} written")

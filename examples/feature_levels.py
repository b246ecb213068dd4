# %% [markdown]
# # Feature levels
#
# DirectML came in versions, and a feature level says what one of them takes: which operators, and
# which ranks and data types of each. A program that is to run on an older Windows has to fit an
# older level. dml_jax runs everything on any device; but it knows the tables, so that it can say
# what a graph needs, why a lower level refuses it, and whether a change helped.
#
# `python examples/feature_levels.py` runs this page, and writes out/feature_levels.png. VS Code and
# Jupyter (with jupytext) open it as a notebook.

# %%
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

import dml_jax
from dml_jax import (
    OPERATORS,
    Argmax,
    DepthToSpace,
    DepthToSpace1,
    DmlError,
    ElementWiseClip,
    FeatureLevel,
    GraphBuilder,
    Reduce,
    TensorDesc,
)

print("Feature levels:", ", ".join(str(level) for level in FeatureLevel))

# %% [markdown]
# ## What a descriptor needs
#
# `minimum_feature_level` is the lowest level that takes this very descriptor. `refusals` says of
# each lower one what it objects to, in the words of DirectML's debug layer.

# %%
rows = Reduce.infer(function="SUM", input_tensor=TensorDesc("FLOAT32", [3, 3]), axes=[1])


def explain(operator):
    """The lowest level, and why the others refuse."""
    print(f"{type(operator).__name__}  {operator.describe()}")
    print(f"  needs {operator.minimum_feature_level}")
    for faults in operator.refusals.values():
        for fault in faults:
            print(f"  {fault}")


explain(rows)

# %% [markdown]
# ## Ranks: put ones in front
#
# Until 3_0 most tensors have four dimensions. Sizes of 1 cost nothing, so a matrix is a picture of
# one channel. The axes move with it.

# %%
picture = Reduce.infer(function="SUM", input_tensor=TensorDesc("FLOAT32", [1, 1, 3, 3]), axes=[3])
explain(picture)

x = jnp.arange(9, dtype=jnp.float32).reshape(3, 3)
assert (picture(x.reshape(1, 1, 3, 3)).ravel() == rows(x).ravel()).all()

# %% [markdown]
# More than four dimensions fold: neighbours that an operator treats alike become one, whose size is
# their product. A sum over the third of five dimensions is one over the second of [8, 4, 25, 1].

# %%
five = Reduce.infer(function="SUM", input_tensor=TensorDesc("FLOAT32", [2, 4, 4, 5, 5]), axes=[2])
folded = Reduce.infer(function="SUM", input_tensor=TensorDesc("FLOAT32", [8, 4, 25, 1]), axes=[1])
print(five.minimum_feature_level, "->", folded.minimum_feature_level)

x = jnp.arange(five.inputs[0].span, dtype=jnp.float32)
there = folded(x.reshape(folded.inputs[0].sizes)).ravel()
assert (there == five(x.reshape(five.inputs[0].sizes)).ravel()).all()

# %% [markdown]
# ## Data types: compute in one that was always there
#
# FLOAT32 and FLOAT16 are taken from 1_0 on, integers of up to 32 bits mostly from 2_1 or 3_0, those
# of 64 from 4_1 or 5_0. The bytes of a picture are exact in FLOAT16.

# %%
for data_type in ("INT64", "UINT8", "FLOAT16"):
    tensor = TensorDesc(data_type, [1, 3, 64, 64])
    clip = ElementWiseClip.infer(input_tensor=tensor, min=16, max=235)
    print(f"{data_type:<8} {clip.minimum_feature_level}")

levels = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
exact = dml_jax.clip(jnp.asarray(levels), 16, 235)
wide = dml_jax.clip(jnp.asarray(levels, jnp.float16), 16, 235)
assert (wide.astype(jnp.uint8) == exact).all()

# %% [markdown]
# ## Operators: what a newer one does, an older one often does too
#
# DEPTH_TO_SPACE1 came with 2_1, and lets one choose how channels are numbered. Numbered
# [block, block, channel], it is DEPTH_TO_SPACE, which was there from the start. Numbered
# [channel, block, block], take each channel by itself: of one channel, both orders are the same.

# %%
depth = TensorDesc("FLOAT32", [1, 12, 4, 4])
newer = DepthToSpace1.infer(input_tensor=depth, block_size=2, order="COLUMN_ROW_DEPTH")
explain(newer)

builder = GraphBuilder()
channels = dml_jax.split(builder.input_tensor("depth", depth), 1, [4, 4, 4])
block = DepthToSpace.infer(input_tensor=channels[0].desc, block_size=2)
older = builder.build(dml_jax.join([builder.apply(block, c) for c in channels], 1))
print(older, "needs", older.minimum_feature_level)

x = jnp.arange(depth.span, dtype=jnp.float32).reshape(depth.sizes)
assert (older(x) == newer(x)).all()

# %% [markdown]
# ARGMAX came with 3_0, as REDUCE has had it from the start, without a choice between equals.

# %%
scores = TensorDesc("FLOAT32", [1, 1, 10, 1000])
newer = Argmax.infer(
    input_tensor=scores, axes=[3], axis_direction="INCREASING", output_data_type="UINT32"
)
older = Reduce.infer(function="ARGMAX", input_tensor=scores, axes=[3], output_data_type="UINT32")
print(newer.minimum_feature_level, "->", older.minimum_feature_level)

x = jnp.asarray(np.random.default_rng(0).standard_normal(scores.sizes), jnp.float32)
assert (older(x) == newer(x)).all()

# %% [markdown]
# ## Graphs: the neediest node decides
#
# A graph needs what its neediest node does, and a refusal names the node. On the command line,
# `dml-jax run MODEL.json --check` shows the level of each operator, and `--feature-level 2_1`
# refuses a model that needs more.

# %%
builder = GraphBuilder()
frames = builder.input_tensor("frames", TensorDesc("UINT8", [4, 1, 64, 64]))
bounded = dml_jax.clip(frames, 16, 235)
graph = builder.build({"brightest": dml_jax.reduce(bounded, "MAX", [2, 3]), "bounded": bounded})
print(graph, "needs", graph.minimum_feature_level)
try:
    graph.validate("2_1")
except DmlError as error:
    print(error)

# %% [markdown]
# ## The whole catalogue
#
# The tables are data: `support` of each operator has a row for each level that brought something
# new. How many data types an operator's first tensor may have, level by level, in the mean of each
# family; 0 where the level has no operator of it, or few:


# %%
def data_types(operator, level):
    """How many types a level takes, in the group (of functions, if there are) that takes most."""
    support = operator.support
    (first, *_) = (f.name for f in operator.fields if f.tensor)
    return max(
        len({t for row in rows if row.level <= level for t in row.types[first]})
        for rows in support.groups.values()
    )


families = {}
for operator in OPERATORS.values():
    family = operator.__module__.rpartition(".")[2].replace("_", " ")
    families.setdefault(family, []).append(operator)
levels = list(FeatureLevel)
table = np.array(
    [
        [round(np.mean([data_types(op, level) for op in ops])) for level in levels]
        for ops in families.values()
    ]
)

figure = Figure(figsize=(8, 5.5), layout="constrained")
axes = figure.subplots()
shades = ListedColormap(["#f4f1ea", *[(0.1, 0.35, 0.5, 0.15 + 0.07 * n) for n in range(11)]])
axes.imshow(table, cmap=shades, vmin=0, vmax=11, aspect="auto")
for (row, column), count in np.ndenumerate(table):
    axes.text(column, row, count or "", ha="center", va="center", color="w" if count > 7 else "k")
axes.set_xticks(range(len(levels)), [str(level) for level in levels])
axes.set_yticks(range(len(table)), [f"{name} ({len(ops)})" for name, ops in families.items()])
axes.tick_params(length=0)
axes.set_title("Number of data types that an operator accepts, on average, by family")
Path("out").mkdir(exist_ok=True)
figure.savefig("out/feature_levels.png", dpi=100)
print("out/feature_levels.png written")

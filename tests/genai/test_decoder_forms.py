"""The form of a decoder is what its graph says; numbers say that the graph is read right."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exported_folders import write_config, write_decoder

import dml_jax.genai as og
from dml_jax.genai.decoder_forms import (
    RecomputingDecoder,
    RightAlignedDecoder,
    counts_places_by_rows,
)

ROWS, NEAR = 16, 1e-3


def have_equal_logits(folder: Any) -> bool:
    """Return whether keys and values in a buffer give the logits of all tokens read again."""
    aligned, every = RightAlignedDecoder(folder), RecomputingDecoder(folder)
    weights, tokens = every.weights, jnp.array([[3, 5, 4]], np.int32)
    decode = jax.jit(aligned.decode)
    _, cache = decode(weights, aligned.cache(1, ROWS), tokens[:, :2])
    found, _ = decode(weights, cache, tokens[:, 2:])
    expected, _ = jax.jit(every.decode)(weights, every.cache(1, ROWS), tokens)
    difference = np.abs(np.asarray(found[:, -1] - expected[:, -1], np.float32)).max()
    return bool(difference <= NEAR * np.abs(np.asarray(expected, np.float32)).max())


@pytest.mark.parametrize("positions", ["given", "mask", "size", "row"])
def test_a_graph_says_whether_it_counts_places_by_the_buffer(positions: str, tmp_path: Path):
    write_decoder(tmp_path / "model.onnx", positions=positions)
    folder = og.Config(write_config(tmp_path)).folder
    counts = counts_places_by_rows(RightAlignedDecoder(folder).networks)
    assert counts == (positions in ("size", "row")) == (not have_equal_logits(folder))

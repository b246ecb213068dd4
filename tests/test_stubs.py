"""The stubs and the table of functions are those that the facts and declarations make."""

import importlib

import pytest
import stubs

import dml_jax


@pytest.mark.parametrize("name", stubs.FILES)
def test_what_is_made_is_not_stale(name: str):
    made = stubs.FILES[name]()
    assert (stubs.ROOT / name).read_text() == made, "run python tools/stubs.py"


@pytest.mark.parametrize("name", dml_jax.__all__)
def test_each_name_of_the_package_is_in_its_stub(name: str):
    assert f" {name} as {name},\n" in (stubs.ROOT / "dml_jax/__init__.pyi").read_text()
    assert getattr(importlib.import_module("dml_jax"), name) is not None

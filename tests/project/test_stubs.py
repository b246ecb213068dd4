"""The stubs and the table of functions are those that the facts and declarations make."""

import ast
import importlib
import json

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


@pytest.mark.parametrize("room", ["functional", "operators"])
def test_type_checkers_know_the_members_of_enumerations(room: str):
    """The names that DirectML.h has, so that an editor completes them and refuses others."""
    tree = ast.parse((stubs.ROOT / f"dml_jax/{room}/__init__.pyi").read_text())
    known = json.loads((stubs.ROOT / "tests/facts/enums.json").read_text())
    found = {
        node.targets[0].id.removeprefix("_"): ast.literal_eval(node.value.slice)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Subscript)
    }
    assert len(found) > 12
    for name, words in found.items():
        prefix = getattr(dml_jax, name).prefix
        members = {n for n in known[prefix] if not n.endswith(("_UNKNOWN", "_INVALID"))}
        assert {word for word in words if word.startswith("DML_")} == members
        assert {f"{prefix}_{w}" for w in words if w.isupper() and w[:4] != "DML_"} == members

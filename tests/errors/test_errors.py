"""The exception of the package, and the one that says that the package has a bug."""

import pytest

from dml_jax.errors import OF_BUG, DmlError, Fault, InternalError, bugs_within, inside, moving


def test_a_bug_has_one_line_with_its_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DML_JAX_RAISE")
    with (
        pytest.raises(InternalError) as caught,
        inside("'net.onnx'"),
        moving("", "", "the graph"),
        bugs_within("Conv 'a'"),
    ):
        raise TypeError("two\nlines")
    error = caught.value
    assert type(error.__cause__) is TypeError and [f.kind for f in error.faults] == [OF_BUG]
    assert str(error) == (
        "'net.onnx': the graph: Conv 'a': this is a bug of dml_jax, please report it: "
        "TypeError: two lines"
    )


def test_a_bug_is_raised_itself_where_it_is_asked_for():  # as all tests do
    with pytest.raises(TypeError), bugs_within("here"):
        raise TypeError


def test_a_refusal_is_no_bug():
    with pytest.raises(DmlError) as caught, bugs_within("here"):
        raise DmlError([Fault("", "x", "be 1", 2)])
    assert not isinstance(caught.value, InternalError)
    assert str(caught.value) == "expected x to be 1, got 2"

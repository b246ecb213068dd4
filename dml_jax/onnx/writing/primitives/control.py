"""Programs within programs: calls, branches and loops."""

from typing import Any

import numpy as np
from jax.extend.core import ClosedJaxpr

from dml_jax.onnx.writing.jaxpr_nodes import Equation, write_closed_jaxpr, write_function, writes
from dml_jax.onnx.writing.writer import Value, Writer, unwritten


@writes(
    *("jit", "pjit", "closed_call", "core_call", "core_closed_call", "custom_jvp_call"),
    *("custom_vjp_call", "custom_vjp_call_jaxpr", "remat", "remat2", "checkpoint", "run_state"),
)
def call(eqn: Equation) -> list[Value]:
    p = eqn.params
    program = next(p[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in p)
    closed = program if hasattr(program, "consts") else ClosedJaxpr(program, ())
    return write_closed_jaxpr(eqn.writer, closed, eqn.inputs)


@writes("call_hi_primitive")
def expand(eqn: Equation) -> list[Value]:
    """Write what JAX itself makes of an operation that it keeps whole, as of searchsorted."""
    return write_function(eqn.writer, eqn.params["_prim"].expand, *eqn.inputs)


@writes("platform_index")
def of_every_platform(eqn: Equation) -> Value:
    """Choose what JAX exports for any platform."""
    platforms = list(eqn.params["platforms"])
    place = platforms.index(None) if None in platforms else 0
    return eqn.writer.constant(np.int32(place))


@writes("cond")
def branches(eqn: Equation) -> list[Value]:
    w, (index, *operands), programs = eqn.writer, eqn.inputs, eqn.params["branches"]
    if index.array is not None:
        place = min(max(int(index.array), 0), len(programs) - 1)
        return write_closed_jaxpr(w, programs[place], operands)
    return _chosen(w, index, programs, operands, eqn.types)


def _chosen(w: Writer, index: Value, programs: Any, operands: Any, types: Any) -> list[Value]:
    if len(programs) == 1:
        return write_closed_jaxpr(w, programs[0], operands)
    is_last = index
    if index.dtype != bool:
        is_last = w.compare("GreaterOrEqual", index, w.like(len(programs) - 1, index))
    first, last = Writer(w), Writer(w)
    outputs = write_closed_jaxpr(last, programs[-1], operands)
    others = _chosen(first, index, programs[:-1], operands, types)
    made = {"then_branch": last.graph("last", [], outputs)}
    made["else_branch"] = first.graph("first", [], others)
    return w.several("If", is_last, results=types, **made)


@writes("scan")
def scan(eqn: Equation) -> list[Value]:
    w, p = eqn.writer, eqn.params
    if "num_consts" in p:
        held, carried = p["num_consts"], p["num_consts"] + p["num_carry"]
    else:  # since JAX 0.11
        held, carried, _ = (len(list(part)) for part in p["ft_in"].update(eqn.inputs).unpack())
        carried += held
    constants, carry, rows = eqn.inputs[:held], eqn.inputs[held:carried], eqn.inputs[carried:]
    inner = Writer(w)
    states = [Value(w.name(), x.dtype, x.shape) for x in carry]
    parts = [Value(w.name(), x.dtype, x.shape[1:]) for x in rows]
    outputs = write_closed_jaxpr(inner, p["jaxpr"], [*constants, *states, *parts])
    if not rows:
        rows = [w.indices(range(p["length"]))]
        parts = [Value(w.name(), np.int64, ())]
    body = inner.graph("step", [*states, *parts], outputs)
    back, stacked = int(p["reverse"]), len(outputs) - len(carry)
    named: dict[str, Any] = {"body": body, "num_scan_inputs": len(rows)}
    named["scan_input_directions"] = [back] * len(rows)
    named["scan_output_directions"] = [back] * stacked or None
    return w.several("Scan", *carry, *rows, results=eqn.types, **named)


@writes("while")
def while_loop(eqn: Equation) -> list[Value]:
    w, p = eqn.writer, eqn.params
    of_cond, of_body = p["cond_nconsts"], p["body_nconsts"]
    for_cond, for_body = eqn.inputs[:of_cond], eqn.inputs[of_cond : of_cond + of_body]
    carry = eqn.inputs[of_cond + of_body :]
    (begins,) = write_closed_jaxpr(w, p["cond_jaxpr"], [*for_cond, *carry])
    if begins.shape:
        raise unwritten("a loop that ends for each element by itself")
    inner = Writer(w)
    turn, goes_on = Value(w.name(), np.int64, ()), Value(w.name(), np.bool_, ())
    states = [Value(w.name(), x.dtype, x.shape) for x in carry]
    made = write_closed_jaxpr(inner, p["body_jaxpr"], [*for_body, *states])
    (again,) = write_closed_jaxpr(inner, p["cond_jaxpr"], [*for_cond, *made])
    body = inner.graph("turn", [turn, goes_on, *states], [again, *made])
    return w.several("Loop", None, begins, *carry, results=eqn.types, body=body)

"""Models that are nearly right: JSON changed in its structure, its values, or its bytes."""

import copy
import json
import random
from typing import Any

Json = Any

NUMBERS = [
    *(0, 1, -1, 2, 3, 4, 7, 8, 9, 16, 255, 256, 65535, 65536, 1.5, -0.0, 0.1, 1e-45, 3.5e38, 1e308),
    *(
        sign * (2**n + d)
        for n in (31, 32, 33, 53, 62, 63, 64, 128)
        for d in (-1, 0, 1)
        for sign in (1, -1)
    ),
    *(float("nan"), float("inf"), float("-inf"), 10**400),
]
TEXTS = [
    *("", "x", "nan", "inf", "-inf", "NaN", "\0", "é", "\U0001f600", "../..", "a" * 5000),
    *("FLOAT32", "FLOAT16", "FLOAT64", "UINT8", "INT8", "INT64", "UINT4", "UNKNOWN"),
    *("OWNED_BY_DML", "dispatch", "print", "writeFile", "graph", "hlsl", "SUM", "ARGMAX"),
    "DML_OPERATOR_TILE",
]
OTHERS = [None, True, False, [], {}, [[]], {"": ""}]


def places(value: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside another."""
    found: list[tuple[Any, ...]] = []
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        found.append((*path, key))
        if isinstance(item, (dict, list)):
            found += places(item, (*path, key))
    return found


def _changed(value: Json, rng: random.Random) -> Json:
    """Another value: of the same kind most of the time."""
    kind = rng.randrange(8)
    if isinstance(value, bool) or value is None or kind == 0:
        return copy.deepcopy(rng.choice([*OTHERS, rng.choice(NUMBERS), rng.choice(TEXTS)]))
    if isinstance(value, (int, float)):
        near = [value + 1, value - 1, value * 2, -value, f"{value}"]
        return rng.choice(near) if kind < 4 else rng.choice(NUMBERS)
    if isinstance(value, str):
        place = rng.randrange(len(value) + 1)
        near = [value[:place], value[:place] + "x" + value[place:], value.swapcase(), value * 2]
        return rng.choice(near) if kind < 4 else rng.choice(TEXTS)
    if isinstance(value, list):
        if kind < 4 and value:
            return [*value, copy.deepcopy(rng.choice(value))]
        return value[::-1] if kind < 6 else value * rng.randrange(9)
    return {key: value[key] for key in sorted(value, key=lambda _: rng.random())}


def _structure(text: bytes, rng: random.Random) -> bytes:
    """A change of a value, a key, or of where something stands; of the bytes if it is not JSON."""
    try:
        model = json.loads(text)
        _change_within(model, rng)
        return json.dumps(model, ensure_ascii=False).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return _bytes(text, rng)


def _change_within(model: Json, rng: random.Random) -> None:
    paths = places(model) if isinstance(model, (dict, list)) else []
    if not paths:
        raise ValueError("nothing to change")
    *parents, last = rng.choice(paths)
    at = model
    for key in parents:
        at = at[key]
    match rng.randrange(8):
        case 0:
            del at[last]
        case 1 if isinstance(at, dict):
            at[str(_changed(last, rng))] = at.pop(last)
        case 2:
            other = model
            for key in rng.choice(paths):
                other = other[key]
            at[last] = copy.deepcopy(other)
        case 3:
            for _ in range(rng.choice([1, 2, 30])):
                at[last] = [at[last]] if rng.random() < 0.5 else {"a": at[last]}
        case _:
            at[last] = _changed(at[last], rng)


def _twice(text: bytes, rng: random.Random) -> bytes:
    """A key that stands twice, or any other part of the text that does."""
    commas = [i for i, byte in enumerate(text) if byte in b",{["]
    start = rng.choice(commas or [0])
    stop = rng.choice([i for i in commas if i > start] or [len(text)])
    return text[:stop] + text[start:stop] + text[stop:]


def mutated_bytes(data: bytes, rng: random.Random, likely: bytes = b"") -> bytes:
    """Return `data` with some bytes changed, mostly to `likely` ones, cut, moved or repeated."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4, 16])):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(6):
            case 0 | 1:
                changed[place : place + 1] = bytes([rng.choice([*likely, rng.randrange(256)])])
            case 2:
                size = rng.choice([1, 2, 4, 8])
                number = rng.choice([0, 1, -1, 2**31, 2**63, 2**16, len(data)])
                changed[place : place + size] = (number % 256**size).to_bytes(size, "little")
            case 3:
                del changed[place : place + rng.choice([1, 4, 16, 1000])]
            case 4:
                start = rng.randrange(len(changed) + 1)
                changed[place:place] = changed[start : start + rng.choice([1, 4, 64])]
            case 5 if rng.random() < 0.2:
                del changed[place:]
        if not changed:
            break
    return bytes(changed)


def _bytes(text: bytes, rng: random.Random) -> bytes:
    return mutated_bytes(text, rng, b'{}[]",:0123456789.-+eE/*\\ntfal')


def _deep(text: bytes, rng: random.Random) -> bytes:
    """Nested as deep as thousands, closed or not, in place of some part."""
    depth = rng.choice([900, 990, 1000, 1001, 3000, 100_000])
    opening, closing = rng.choice(
        [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b"/*", b"*/")]
    )
    place = rng.randrange(len(text) + 1)
    closed = closing * depth if rng.random() < 0.7 else b""
    return text[:place] + opening * depth + b"1" + closed + text[place + rng.randrange(9) :]


def mutated(text: bytes, rng: random.Random) -> bytes:
    """A model's text after one to four changes; of its structure as long as it is JSON."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        change = rng.choices([_structure, _bytes, _twice, _deep], [16, 4, 1, 1])[0]
        text = change(text, rng)
    return text

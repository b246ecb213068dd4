"""Folders of optimum and of torch.onnx: config.json beside networks whose caches grow."""

import functools
import json
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from dml_jax.errors import Unquoted, nearest
from dml_jax.genai.errors import fitting, refusal
from dml_jax.system.files import parse_text

PLAIN = "config.json"
_OWN, _MOST = "genai_config.json", 2**31 - 1

_FILES = ("model.onnx", "decoder_model_merged.onnx", "decoder_with_past_model.onnx")
_SEQUENCES = ("decoder_model.onnx", "decoder_model_merged.onnx")  # of decoders with an encoder
_LENGTHS = ("max_position_embeddings", "n_positions", "max_target_positions", "seq_length")
_LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
_DEFAULT_LENGTH = 2048
_SEARCH = ("do_sample", "early_stopping", "length_penalty", "max_length", "min_length")
_SEARCH += ("no_repeat_ngram_size", "num_beams", "num_return_sequences", "repetition_penalty")
_SEARCH += ("temperature", "top_k", "top_p")
_OTHERS = {"encoder_no_repeat_ngram_size": 0, "encoder_repetition_penalty": 1, "guidance_scale": 1}
_OTHERS |= {"min_new_tokens": 0, "num_beam_groups": 1, "penalty_alpha": 0}
_OTHERS |= dict.fromkeys(("constraints", "dola_layers", "exponential_decay_length_penalty"))
_OTHERS |= dict.fromkeys(("force_words_ids", "sequence_bias", "stop_strings", "token_healing"))
_OTHERS |= {"watermarking_config": None}
_OF_DRAWS = {"epsilon_cutoff": 0, "eta_cutoff": 0, "min_p": 0, "top_h": 1, "typical_p": 1}
_FORCED = ("forced_bos_token_id", "forced_eos_token_id")
_IDS = ("suppress_tokens", "begin_suppress_tokens", *_FORCED)
_FORM = fitting("generation_config.json", "hold tokens in the form of transformers")


def members(data: bytes, path: Path) -> dict[str, Any]:
    """Return the members of the object of JSON that a file holds. Raises `DmlError` for others."""

    def parse(data: bytes) -> dict[str, Any]:
        value = json.loads(data)
        if not isinstance(value, dict):
            raise refusal("the file", "hold an object", value)
        return value

    return parse_text(data, f"the file '{path}'", parse)


def whole(
    values: Mapping[str, Any], *names: str, default: Any = None, most: int = _MOST, file: str = _OWN
) -> Any:
    """Return the first of some members that is there. Raises `DmlError` for no whole number."""
    found = next((values[name] for name in names if values.get(name) is not None), default)
    if found is not None and not (type(found) is int and 0 <= found <= most):
        raise refusal(f"'{' or '.join(names)}' in {file}", f"be in [0, {most}]", found)
    return found


def of_export(path: Path, read: Callable[[str], bytes]) -> dict[str, Any]:
    """Return what genai_config.json would say of the folder `path` with a config.json.

    Its networks lie in it or in its folder 'onnx'; `read` returns the bytes of a file in it.
    """
    files = [path / name for name in (PLAIN, "generation_config.json")]
    config, chosen = (members(read(f.name), f) if f.exists() else {} for f in files)
    number = functools.partial(whole, config, default=0, file=PLAIN)
    tokens = {**config, **{k: v for k, v in chosen.items() if v is not None}}
    inside = [path, path / "onnx"]
    encoder = next((f for f in inside if (f / "encoder_model.onnx").exists()), None)
    names = _FILES if encoder is None else _SEQUENCES
    found = next((f / n for n in names for f in inside if (f / n).exists()), None)
    if found is None:
        rule = f"have one of the files {', '.join(names)}"
        raise refusal(f"the folder '{path}'", rule, Unquoted("none of these"))
    decoder = {
        "filename": found.relative_to(path).as_posix(),
        "num_hidden_layers": 0 if encoder else number(*_LAYERS),
    }
    model = {
        "type": str(config.get("model_type", "")),
        "vocab_size": number("vocab_size"),
        "context_length": number(*_LENGTHS, default=_DEFAULT_LENGTH),
        "decoder": decoder,
    }
    ids = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
    model |= {name: tokens[name] for name in ids if tokens.get(name) is not None}
    if encoder is not None:
        name = (encoder / "encoder_model.onnx").relative_to(path).as_posix()
        model["encoder"] = {"filename": name}
        length = number("max_source_positions")
        if length:  # of sound: two times are one result
            model["source_length"] = length
            model["features"] = [number("num_mel_bins", default=80), 2 * length]
        model |= _told(tokens)
    return {
        "model": model,
        "search": _search(chosen if files[1].exists() else config, model["context_length"]),
        "rules": _rules(tokens),
    }


def _search(told: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return the options of a search of `most` tokens, of the members of generation_config.json.

    Where it is missing, `told` are those of config.json.
    """
    for name, neutral in (_OTHERS | (_OF_DRAWS if told.get("do_sample") else {})).items():
        if told.get(name) and told[name] != neutral:
            rule = "be left out, since it is not carried out"
            raise refusal(f"{name} in generation_config.json", rule, told[name])
    found = {name: told[name] for name in _SEARCH if told.get(name) is not None}
    length = whole(found, "max_length", default=most, file="generation_config.json")
    return {"early_stopping": False, **found, "max_length": min(length, most)}


def _token(value: Any, tokens: Mapping[str, Any]) -> int:
    """Return a token that a member names, if it is one of the model's."""
    count = tokens.get("vocab_size") or _MOST
    if type(value) is not int or not 0 <= value < count:
        rule = f"be in [0, {count - 1}], as the model has tokens"
        raise refusal("a token in generation_config.json", rule, value)
    return value


@_FORM
def _rules(tokens: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the tokens that members of both files say never come, and those that must."""
    ends, rules = tokens.get("eos_token_id"), dict[str, list[Any]]()
    for name in _IDS:
        value: Any = tokens.get(name)
        listed: Any = [value] if name in _FORCED and type(value) is int else value or ()
        rules[name] = [_token(i, tokens) for i in listed]
    words = ([_token(i, tokens) for i in word] for word in tokens.get("bad_words_ids") or ())
    others = [[end] for end in (ends if isinstance(ends, list) else [ends])]
    rules["bad_words_ids"] = [word for word in words if word and word not in others]
    return {name: found for name, found in rules.items() if found}


@_FORM
def _told(tokens: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens that members of both files say a decoder with an encoder starts with."""
    if tokens.get("return_timestamps"):
        rule = "be false: times in the text are not carried out"
        raise refusal("return_timestamps in generation_config.json", rule, True)
    known = (tokens.get("lang_to_id") or {}).items()
    languages = {name: _token(i, tokens) for name, i in known}
    starts = _starts(tokens, languages)
    return {
        "decoder_prompt_ids": [i if i is None else _token(i, tokens) for i in starts],
        "language_ids": [*languages.values()],
    }


def _starts(tokens: Mapping[str, Any], languages: Mapping[str, int]) -> list[int | None]:
    """Return the tokens that follow a decoder's first one; None is the likeliest language.

    Whisper's are a language, a task, and that there are no times. As in transformers, `language`
    and `task` come before `forced_decoder_ids`.
    """
    language, task, tasks = tokens.get("language"), tokens.get("task"), tokens.get("task_to_id")
    found: list[int | None] = []
    if language is None and task is None:
        found = [token for _, token in tokens.get("forced_decoder_ids") or ()]
    if language is not None:
        name = f"<|{str(language).strip('<|>').lower()}|>"
        found = [_token_by_name("language", name, languages, "lang_to_id")]
    elif languages and found[:1] in ([], [None]):
        found[:1] = [None]
    if task is not None or (language is not None and tasks):
        found.append(_token_by_name("task", task or "transcribe", tasks or {}, "task_to_id"))
    no_times = tokens.get("no_timestamps_token_id")
    if no_times is not None and found[-1:] != [no_times]:
        found.append(no_times)
    return [i for i in found if i is not None or languages]


def _token_by_name(field: str, name: Any, known: Mapping[str, int], member: str) -> int:
    if name not in known:
        rule = f"be a name in {member}{nearest(str(name), known)}"
        raise refusal(f"the {field} in generation_config.json", rule, name)
    return known[name]


def numbers(graph: onnx.GraphProto, read: Callable[[onnx.TensorProto], Any]) -> dict[str, Any]:
    """Return the constants of one element of a graph, by name; `read` reads a tensor."""
    given: dict[str, Any] = {tensor.name: tensor for tensor in graph.initializer}
    nodes = (node for node in graph.node if node.op_type == "Constant")
    given |= {n.output[0]: onnx.helper.get_attribute_value(n.attribute[0]) for n in nodes}
    is_long = {n for n, x in given.items() if math.prod(getattr(x, "dims", ())) != 1}
    made = {n: read(x) if hasattr(x, "dims") else x for n, x in given.items() if n not in is_long}
    return {name: np.asarray(x).item() for name, x in made.items() if np.size(x) == 1}


def unprune(graph: onnx.GraphProto, logits: str, read: Callable[[onnx.TensorProto], Any]) -> None:
    """Let a decoder give the logits of each token, where it gives those of the last one alone.

    It takes the last place of what it reads, where a chunk of a prompt has padding. The graph is
    changed; `logits` is the name of its output, and `read` reads a tensor.
    """
    by_output = {name: node for node in graph.node for name in node.output if name}
    known, name, path = numbers(graph, read), logits, list[onnx.NodeProto]()
    is_last = False
    while name in by_output and not is_last:
        path.append(by_output.pop(name))  # once: a broken graph may be a circle
        kind, given = path[-1].op_type, path[-1].input
        place = [known.get(name) for name in given[1:4]]
        axis = [a.i for a in path[-1].attribute if a.name == "axis"]
        is_last = (kind, axis, place) == ("Gather", [1], [-1])
        is_last = is_last or (kind == "Slice" and place[::2] == [-1, 1])
        inner = [n for n in given if n in by_output and by_output[n].op_type != "Constant"]
        name = inner[0] if len(inner) == 1 else ""
    value = next(v for v in graph.output if v.name == logits)
    shape = value.type.tensor_type.shape.dim
    if not is_last:
        if len(shape) == 3 and shape[1].dim_value == 1:
            rule = "be those of each token, or of the last one by Gather or Slice of axis 1"
            raise refusal(f"the output '{logits}'", rule, Unquoted("one token's"))
        return
    for node in path:
        if node is path[-1] or node.op_type == "Unsqueeze":
            del node.attribute[:], node.input[1:]
            node.op_type = "Identity"
    del graph.value_info[:]
    value.type.tensor_type.ClearField("shape")


def without_branches(proto: onnx.ModelProto, is_cached: bool) -> onnx.ModelProto:
    """Return a merged decoder with the branch that it needs in place of its If; others as they are.

    `is_cached` says whether it reads keys and values of earlier tokens.
    """
    graph = proto.graph
    if not any(value.name == "use_cache_branch" for value in graph.input):
        return proto
    node = next(n for n in graph.node if n.op_type == "If")
    chosen = "then_branch" if is_cached else "else_branch"
    branch = next(a.g for a in node.attribute if a.name == chosen)
    made = deepcopy(proto)
    del made.graph.node[:], made.graph.input[:], made.graph.output[:], made.graph.value_info[:]
    made.graph.node.extend(branch.node)
    made.graph.initializer.extend(branch.initializer)
    others = ("use_cache_branch",) if is_cached else ("use_cache_branch", "past_key_values.")
    made.graph.input.extend(v for v in graph.input if not v.name.startswith(others))
    for value, outer, name in zip(branch.output, graph.output, node.output, strict=True):
        if value.name != name:
            made.graph.node.append(onnx.helper.make_node("Identity", [value.name], [name]))
        made.graph.output.append(outer)
    return made

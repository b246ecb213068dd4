"""Three seconds of sound, and its windows at two rates, by silero-vad."""

import functools

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from silero_vad import (  # pyright: ignore[reportMissingImports]
    get_speech_timestamps,
    load_silero_vad,
)
from timed import report

torch.set_num_threads(1)
loaded = functools.cache(lambda: load_silero_vad(onnx=True))
t = np.arange(3 * 16000) / 16000
sound = 0.01 * np.random.default_rng(0).standard_normal(len(t))
voice = sum(np.sin(2 * np.pi * f * t) for f in range(120, 2400, 120)) * (1 + np.sin(8 * np.pi * t))
sound += np.where((t > 0.5) & (t < 2.5), voice * 0.02, 0)
wave = torch.from_numpy(sound.astype(np.float32))


def answers():
    """Return the spans of speech, and the probabilities of windows."""
    model = loaded()
    spans = [list(span.values()) for span in get_speech_timestamps(wave, model, threshold=0.3)]
    model.reset_states()
    fine = [float(model(wave[k : k + 512], 16000)) for k in range(0, 8192, 512)]
    model.reset_states()
    coarse = [float(model(wave[::2][k : k + 256], 8000)) for k in range(0, 4096, 256)]
    return [spans, fine, coarse]


report(answers)

"""The pitch of tones of two lengths, by swift-f0."""

import functools

import numpy as np
from swift_f0 import SwiftF0  # pyright: ignore[reportMissingImports]
from timed import report

detector = functools.cache(SwiftF0)
t = np.arange(16000) / 16000
noise = 0.01 * np.random.default_rng(0).standard_normal(len(t))
tone = (0.5 * np.sin(2 * np.pi * 220 * t) + noise).astype(np.float32)


def answers():
    """Return the pitch and the confidence of each frame."""
    found = [detector().detect(tone[:count], 16000) for count in (16000, 8077)]
    return [[list(map(float, one.pitch_hz)), list(map(float, one.confidence))] for one in found]


report(answers)

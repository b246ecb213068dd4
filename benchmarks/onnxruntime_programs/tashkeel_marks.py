"""The marks of two sentences in Arabic, by text2tashkeel: int8 networks."""

from text2tashkeel import diacritize  # pyright: ignore[reportMissingImports]
from timed import report

SENTENCES = "السلام عليكم ورحمة الله", "ذهب الولد إلى المدرسة في الصباح"
report(
    lambda: [
        diacritize(text, model=model)
        for model in ("bilstm-int8", "rawi-int8")
        for text in SENTENCES
    ]
)

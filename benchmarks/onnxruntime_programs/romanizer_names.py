"""Names in Arabic in Latin letters, by arabic-name-romanizer: a decoder, letter by letter."""

from arabic_name_romanizer import transliterate  # pyright: ignore[reportMissingImports]
from timed import report

NAMES = "محمد", "خوارزميان", "زهراوندي"
report(lambda: [str(transliterate(name)) for name in NAMES])

"""Lemmas and forms of French words, by pyfrspell: int8 networks, letter by letter."""

import functools

from pyfrspell import FrSpell  # pyright: ignore[reportMissingImports]
from timed import report

WORDS = "mangeons", "chevaux", "belles", "finissaient", "yeux"
loaded = functools.cache(FrSpell)


def answers():
    """Return lemmas and forms; the seconds that the package reports are left out."""
    found = [loaded().lemma(word) for word in WORDS]
    found.append(loaded().noun_derive("chat", "THD_PLF"))
    found.append(loaded().adje_derive("beau", "THD_F"))
    found.append(loaded().verb_derive("manger", "FST_PL", "INDI", "PRES"))
    return [[v for k, v in sorted(one.items()) if k != "timeMs"] for one in found]


report(answers)

"""Ten files of this checkout, by magika."""

import functools
from pathlib import Path

from magika import Magika  # pyright: ignore[reportMissingImports]
from timed import report

ROOT = Path(__file__).parent.parent.parent
FILES = (
    *("README.md", "pyproject.toml", "mkdocs.yml", "CITATION.cff", "LICENSE"),
    *("dml_jax/errors.py", "docs/site.css", "docs/images/camera.jpg", "docs/images/adam.png"),
    "benchmarks/networks.json",
)
magika = functools.cache(Magika)
report(
    lambda: [
        [result.output.label, result.score]
        for result in magika().identify_paths([ROOT / name for name in FILES])
    ]
)

"""Hands the pages that are made to mkdocs (its plugin gen-files runs this)."""

import sys
from pathlib import Path

import mkdocs_gen_files
from mkdocs.structure.files import InclusionLevel
from mkdocs_gen_files.editor import FilesEditor

sys.path.insert(0, str(Path(__file__).parent))

from pages import pages

for path, content in pages():
    mode = "wb" if isinstance(content, bytes) else "w"
    with mkdocs_gen_files.open(path, mode) as page:
        page.write(content)

# The menu is no page.
menu = FilesEditor.current().files.get_file_from_path("SUMMARY.md")
assert menu is not None
menu.inclusion = InclusionLevel.EXCLUDED

"""The machine: memory, files, cores and processes. Nothing here knows DirectML."""

"""The machine below: memory, files, processes; nothing here knows DirectML."""

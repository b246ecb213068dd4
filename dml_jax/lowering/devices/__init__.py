"""Where programs run: the form for one device's platform, and what several devices agree on."""

"""Verbs, run as `python -m scripts.NAME`; each has --help."""

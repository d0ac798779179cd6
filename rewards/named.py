"""The rewards that have a name, and what tells two versions of one apart."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAMES = ("grounded", "seed_compat")


def source_hash(name: str) -> str:
    """SHA-256 of what computes the reward: the user's file, or everything in rewards/ and what it reads of env/."""
    if name not in NAMES:
        return hashlib.sha256(Path(name).read_bytes()).hexdigest()
    root = Path(__file__).parent.parent
    files = [*sorted((root / "rewards").glob("*.py")), root / "env" / "provenance.py", root / "env" / "types.py"]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()

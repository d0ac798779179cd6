"""Write data/examples/questions.jsonl from the hand-written texts beside it.

python -m scripts.build_examples
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from data.examples import QUESTIONS, SOURCE, rows


def main(argv: Sequence[str] | None = None) -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args(argv)
    made = list(rows())
    QUESTIONS.write_text("".join(row.to_json() + "\n" for row in made), "utf-8")
    print(f"{len(made)} questions from {SOURCE.name} -> {QUESTIONS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

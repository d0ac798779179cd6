"""Write the default reward as one self-contained file for AgentArts, OpenAI/Azure graders, Amazon Bedrock and verl.

    python -m scripts.export_reward --out reward.py                      # each payload carries its "rubric"
    python -m scripts.export_reward --out reward.py --rubric rubric.json # one rubric for all

The file needs Python 3.11 and nothing else; rewards/bundle.py says which function each platform calls.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rewards.bundle import bundled
from rewards.rubric import RubricError


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--rubric", type=Path, help="JSON file of the rubric to build in")
    options = parser.parse_args(argv)
    try:
        rubric = json.loads(options.rubric.read_text("utf-8")) if options.rubric else None
        text = bundled(rubric)
        options.out.write_text(text, "utf-8")
    except (OSError, ValueError, RubricError) as error:
        print(f"export_reward: error: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

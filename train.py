"""Train a policy: `python train.py --config configs/tiny_grpo.yaml`, or the same through `accelerate launch`.

Arguments -> rows -> chat format -> preflight -> model -> trainer -> checkpoint. Any argument of the configuration can
be overridden on the command line; `--help` lists ours and, below them, all of TRL's.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")  # rollout_func is an experimental interface of TRL; we pin TRL


def main() -> int:
    from training.run import RunError, run

    try:
        return run(sys.argv[1:])
    except RunError as error:
        print(f"train.py: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())

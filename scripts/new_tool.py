"""Start a tool: writes the pair NAME.yaml and NAME.py, which passes `scripts.check` once its TODOs are filled in.

python -m scripts.new_tool get_exchange_rate --argument currency --out my_domain/tools
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path

CONTRACT = """\
name: {name}
description: >-
  TODO: what comes back, from what, and when to call it. An empty list means that nothing was found.
timeout: 3000        # milliseconds
idempotent: true     # false for a tool that writes; then name the tool that undoes it as `compensate`
input_schema:
  type: object
  additionalProperties: false
  required: [{required}]
  properties:
{properties}output_schema:
  type: object
  additionalProperties: false
  required: [found]
  properties:
    found:
      type: array
      items:
        type: object
        additionalProperties: false
        required: [{required}]
        properties:
{results}"""
PROPERTY = """\
    {name}:
      type: string{kind}
      description: "TODO: what it is, with an example."
      minLength: 1
      maxLength: 64
"""
RESULT = """\
          {name}: {{type: string{kind}}}
"""
FUNCTION = '''\
"""TODO: what the tool is for."""

from __future__ import annotations

from typing import Any


def {name}(world: Any, {arguments}) -> dict[str, Any]:
    """TODO: what it returns, and which ToolError it raises."""
    raise NotImplementedError  # return {{"found": [{{{members}}}]}}
'''


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the tool: lower-case words with _ between")
    parser.add_argument("--argument", nargs="+", default=["query"], metavar="NAME", help="what it takes")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the pair (default: this one)")
    options = parser.parse_args(argv)
    for name in (options.name, *options.argument):
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name) or len(name) > 64:
            parser.error(f"expected lower-case words with _ between, got {name!r}")
    if "_" not in options.name:
        parser.error(f"a tool's name has at least two words, such as get_{options.name}")
    files = {options.out / f"{options.name}{end}": end for end in (".yaml", ".py")}
    for file in files:
        if file.exists():
            parser.error(f"{file} is there already")
    texts = {".yaml": contract(options.name, options.argument), ".py": function(options.name, options.argument)}
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        for file, end in files.items():
            file.write_text(texts[end], "utf-8")
            print(file)
    except OSError as error:
        parser.error(f"cannot write to {options.out}: {error.strerror}")
    print(f"Fill in the TODOs, then: python -m scripts.check {options.out}")
    return 0


def contract(name: str, arguments: Sequence[str]) -> str:
    kinds = {each: ", x-kind: id" if each.endswith("_id") else "" for each in arguments}
    lines = {each: "\n      x-kind: id" if kinds[each] else "" for each in arguments}
    return CONTRACT.format(
        name=name,
        required=", ".join(arguments),
        properties="".join(PROPERTY.format(name=each, kind=lines[each]) for each in arguments),
        results="".join(RESULT.format(name=each, kind=kinds[each]) for each in arguments),
    )


def function(name: str, arguments: Sequence[str]) -> str:
    return FUNCTION.format(
        name=name,
        arguments=", ".join(f"{each}: str" for each in arguments),
        members=", ".join(f'"{each}": {each}' for each in arguments),
    )


if __name__ == "__main__":
    sys.exit(main())

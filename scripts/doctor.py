"""Is this machine, and this model, ready for a run? Every finding comes with its cure.

    python -m scripts.doctor                         # the machine and the embedded policy
    python -m scripts.doctor --model my/model        # another one: does its template do what training needs?
    python -m scripts.doctor --config configs/tiny_grpo.yaml

Exit status 1 where something would stop a run.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import torch
import yaml
from packaging.requirements import Requirement
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig

from data.build import rows
from data.oracle import call_text, oracle_turn
from env.parsing import parse
from env.types import AttemptStatus
from training.chat import ChatFormat, TemplateError
from training.models import ModelError, load_chat, quiet
from training.sft import IGNORED, transcript

FREE_GIB = 5  # two checkpoints of a 0.6 B model with its optimizer


@dataclass(frozen=True, slots=True)
class Finding:
    """cure: what to do, "" where nothing is wrong. fatal: no run would work."""

    about: str
    said: str
    cure: str = ""
    fatal: bool = False


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="models/tiny", help="folder or hub name (default: models/tiny)")
    parser.add_argument("--config", type=Path, help="a run's configuration: its model and output_dir are looked at")
    parser.add_argument("--port", type=int, action="append", default=[], help="a port that has to be free")
    options = parser.parse_args(argv)
    model, out = options.model, Path("runs")
    if options.config:
        try:
            values = yaml.safe_load(options.config.read_text("utf-8"))
            model, out = values.get("model", model), Path(values.get("output_dir", out))
        except (OSError, AttributeError, yaml.YAMLError) as error:
            parser.error(f"--config {options.config}: {str(error).splitlines()[0]}")
    quiet()
    findings = [*packages(), *devices(), *disk(out), *ports(options.port), *policy(model)]
    show(findings)
    return 1 if any(finding.fatal for finding in findings) else 0


def packages() -> Iterator[Finding]:
    """The installed versions against the bounds of pyproject.toml."""
    yield Finding("python", platform.python_version())
    for line in bounds():
        wanted = Requirement(line)
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(wanted.name)
        except PackageNotFoundError:
            yield Finding(wanted.name, "not installed", f"pip install -c constraints.txt '{wanted}'", fatal=True)
            continue
        fits = wanted.specifier.contains(found, prereleases=True)
        cure = "" if fits else f"pip install -c constraints.txt '{wanted}'"
        if not fits or wanted.name in ("torch", "transformers", "trl"):
            yield Finding(wanted.name, f"{found} (needs {wanted.specifier or 'any'})", cure, fatal=not fits)


def bounds() -> list[str]:
    """The requirements: of the checkout where this is one, else of the installed distribution."""
    project = Path(__file__).parent.parent / "pyproject.toml"
    if project.is_file():
        lines: list[str] = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"]
        return lines
    return requires("stepcredit") or []


def devices() -> Iterator[Finding]:
    """What torch can compute on, and the dtype that suits it."""
    threads = os.environ.get("OMP_NUM_THREADS")
    unset = "export OMP_NUM_THREADS to the number of cores: float sums, and so figures, depend on it"
    yield Finding("cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads", "" if threads else unset)
    if not torch.cuda.is_available():
        yield Finding("gpu", "none: float32 on the CPU; use_cpu true, bf16 false in the configuration")
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        bf16 = torch.cuda.is_bf16_supported()
        cure = "" if bf16 else "no bfloat16: set bf16 false, fp16 true"
        yield Finding(f"gpu {index}", f"{facts.name}, {facts.total_memory / 2**30:.0f} GiB", cure)


def disk(out: Path) -> Iterator[Finding]:
    """Room where checkpoints go."""
    place = next(folder for folder in (out.absolute(), *out.absolute().parents) if folder.exists())
    free = shutil.disk_usage(place).free / 2**30
    cure = "" if free >= FREE_GIB else f"less than {FREE_GIB} GiB: free some, or choose another output_dir"
    yield Finding("disk", f"{free:.0f} GiB free for {out}", cure)
    if not os.access(place, os.W_OK):
        yield Finding("disk", f"{out} cannot be written", "choose another output_dir", fatal=True)


def ports(wanted: Sequence[int]) -> Iterator[Finding]:
    for port in wanted:
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", port)) == 0
        cure = "another process listens on it: choose another port" if taken else ""
        yield Finding(f"port {port}", "taken" if taken else "free", cure, fatal=taken)


def policy(model: str) -> Iterator[Finding]:
    """The self-test of a model's template: tools, prefix, parser, loss mask, end token."""
    try:
        chat = load_chat(model)
    except (ModelError, TemplateError) as error:
        yield Finding(f"model {model}", "cannot be used", str(error), fatal=True)
        return
    yield Finding(f"model {model}", "its template renders tools and their results")
    for name, check, cure in CHECKS:
        wrong = check(chat)
        yield Finding(name, wrong or "right", cure if wrong else "", fatal=bool(wrong))
    kinds = set(getattr(AutoConfig.from_pretrained(model), "layer_types", None) or ["full_attention"])
    cure = "" if kinds == {"full_attention"} else "the rollout engine needs full attention in every layer"
    yield Finding("attention", ", ".join(sorted(kinds)), cure, fatal=bool(cure))


def prefix(chat: ChatFormat) -> str:
    """What has been shown may not change when results are appended; "" where all is well."""
    row = next(rows("train", 1, 0))
    episode = row.open()
    before = chat.prompt_ids(episode.messages, episode.tools)
    call = oracle_turn(row.task, episode)
    after = [*episode.messages, {"role": "assistant", "content": call}]
    shown = chat.tokenizer.apply_chat_template(after, tools=episode.tools, tokenize=False)
    start = chat.tokenizer.decode(before)
    return "" if shown.startswith(start) else "an appended turn changes what stood before it"


def round_trip(chat: ChatFormat) -> str:
    """A call with Chinese arguments, through the tokens and back through the parser."""
    wanted = {"name": "张伟", "note": 'a "quoted" <word>\n'}
    text = call_text("probe_tool", wanted) + call_text("probe_tool", {})
    attempts = parse(chat.text_of(chat.text_ids(text))).attempts
    read = [(attempt.status, attempt.arguments) for attempt in attempts]
    return "" if read == [(AttemptStatus.OK, wanted), (AttemptStatus.OK, {})] else f"calls come back as {read}"


def mask(chat: ChatFormat) -> str:
    """The loss covers exactly what the assistant writes, its end token included."""
    row = next(row for row in rows("train", 50, 0) if row.task.depth)
    made, episode = transcript(row, chat, "doctor"), row.open("doctor")
    written: list[int] = []
    while not episode.done:
        text = oracle_turn(row.task, episode)
        written += chat.text_ids(text)
        episode.play(text)
    if [label for label in made.labels if label != IGNORED] != written:
        return "the loss does not cover what the assistant writes"
    return "" if made.labels[-1] == chat.end_id else "the end token is not trained on"


CHECKS: tuple[tuple[str, Callable[[ChatFormat], str], str], ...] = (
    ("prefix kept", prefix, "use the model family's training template, which leaves earlier turns as they were"),
    (
        "calls parsed",
        round_trip,
        "the tokenizer loses text: check its normalizer and its decoder",
    ),
    ("loss mask", mask, "set eos_token to the token that ends an assistant's turn"),
)


def show(findings: Sequence[Finding]) -> None:
    table = Table("", "about", "found", "what to do")
    for finding in findings:
        mark = "[red]✗[/]" if finding.fatal else "[yellow]![/]" if finding.cure else "[green]✓[/]"
        table.add_row(mark, finding.about, finding.said, finding.cure)
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())

"""Makes the embedded policy (models/tiny) from nothing: tokenizer, copy task, SFT on logged transcripts, model card.

    python -m scripts.make_tiny_model --out models/tiny

The transcripts are those of an assistant with bad habits (data/logs.py): a policy that imitates them knows its tools
and is far from reliable, so that RL has something to earn.
Seeds are fixed; made for two CPU cores. An interrupted run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.progress import track
from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM
from transformers.trainer_utils import get_last_checkpoint

from data.build import rows, write
from data.oracle import oracle_turn
from data.schema import Row
from training.copying import copy_batch
from training.run import run
from training.sft import IGNORED
from training.tiny import new_model, train_tokenizer


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("models/tiny"), help="folder to write (default: models/tiny)")
    parser.add_argument("--work", type=Path, default=Path("runs/make_tiny"), help="folder for what is made on the way")
    parser.add_argument("--rows", type=int, default=40000, help="training rows to draw transcripts from")
    parser.add_argument("--copy_steps", type=int, default=1200, help="steps of the copy task at most")
    parser.add_argument(
        "--sft_steps",
        type=int,
        nargs="+",
        default=[4600],
        help="SFT up to these steps in turn; the learning rate falls towards the end of each (default: 4600)",
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    for name, values in (
        ("rows", [options.rows]),
        ("copy_steps", [options.copy_steps]),
        ("sft_steps", options.sft_steps),
    ):
        if min(values) < 1:
            parser.error(f"--{name} must be at least 1, got {min(values)}")
    asked = json.dumps({"rows": options.rows, "seed": options.seed, "copy_steps": options.copy_steps})
    note = options.work / "asked.json"
    if note.is_file() and note.read_text("utf-8") != asked:
        parser.error(f"{options.work} was begun with {note.read_text('utf-8')}; choose another --work")
    write(options.work / "data", {"train": options.rows, "eval": 1}, options.seed)
    note.write_text(asked, "utf-8")
    copied = copy_stage(options.work / "copy", options.rows, options.copy_steps, options.seed)
    if copied["copy_accuracy"] <= STAGES[-1].enough:
        print(f"copying was not learned within {options.copy_steps} steps: {copied}", file=sys.stderr)
        return 1
    for steps in options.sft_steps:
        sft_stage(options.work, steps, options.seed)
    install(options.work / "sft", options.out)
    record = {
        "command": _command(parser, options),
        "seed": options.seed,
        "rows": options.rows,
        **copied,
        "sft_steps": options.sft_steps,
    }
    (options.out / "made.json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
    print(f"{options.out}: {record['parameters']:,} parameters")
    return 0


def _command(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """What makes the same policy: the arguments that are not the default, folders left out."""
    words = ["python -m scripts.make_tiny_model"]
    for name in ("rows", "copy_steps", "sft_steps", "seed"):
        value = getattr(options, name)
        if value != parser.get_default(name):
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return " ".join(words)


def copy_stage(folder: Path, count: int, limit: int, seed: int) -> dict[str, Any]:
    """Tokenizer, fresh weights and the copy task, unless `folder` holds them already."""
    done = folder / "copied.json"
    if not done.is_file():
        tokenizer = train_tokenizer(_texts(rows("train", count, seed)))
        model = new_model(tokenizer, seed)
        steps, accuracy = learn_to_copy(model, tokenizer, limit, seed)
        for part in (model, tokenizer):
            part.save_pretrained(folder)
        copied = {"vocabulary": len(tokenizer), "copy_steps": steps, "copy_accuracy": round(accuracy, 4)}
        copied["parameters"] = sum(parameter.numel() for parameter in model.parameters())
        done.write_text(json.dumps(copied), "utf-8")
    content: dict[str, Any] = json.loads(done.read_text("utf-8"))
    return content


def sft_stage(work: Path, steps: int, seed: int) -> None:
    """SFT up to `steps`, from the last checkpoint where there is one."""
    last = get_last_checkpoint(str(work / "sft")) if (work / "sft").is_dir() else None
    if last is not None and int(Path(last).name.rpartition("-")[2]) >= steps:
        return
    words = ["--config", "configs/tiny_sft.yaml", "--model", work / "copy", "--data", work / "data/train"]
    words += ["--output_dir", work / "sft", "--max_steps", steps, "--seed", seed]
    words += ["--save_strategy", "steps", "--save_steps", "200", "--resume", "true"]
    run([str(word) for word in words])


def _texts(source: Iterator[Row]) -> Iterator[str]:
    """Everything that occurs in an oracle's episode, for the tokenizer."""
    for row in source:
        episode = row.open()
        yield "\n".join(message["content"] for message in episode.messages)
        results: list[str] | None = []
        while results is not None:
            text = oracle_turn(row.task, episode)
            yield text
            results = episode.play(text)
            yield from results or []


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of the copy task: row lengths in turn, spans per row in turn, and when it is over."""

    lengths: tuple[int, ...]
    spans: tuple[int, ...]
    enough: float  # accuracy on the longest rows


# Short rows first: the fewer tokens to look among, the sooner the right one is found at all.
STAGES = (
    Stage((12, 16, 24), (1,), 0.6),
    Stage((16, 32, 64), (1,), 0.6),
    Stage((64, 128, 128), (1, 2, 3, 4), 0.95),
)
TOKENS_PER_STEP = 4096


def learn_to_copy(
    model: Qwen3ForCausalLM, tokenizer: PreTrainedTokenizerFast, limit: int, seed: int
) -> tuple[int, float]:
    """Train until the last stage is passed; returns (steps taken, accuracy on its longest rows)."""
    generator = torch.Generator().manual_seed(seed)
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    pool = torch.tensor([index for index, word in enumerate(words) if not word.startswith("<")])
    optimizer = torch.optim.AdamW(_groups(model), betas=(0.9, 0.95), weight_decay=0.01)
    stage, recent = 0, dict.fromkeys((length for each in STAGES for length in each.lengths), 0.0)
    for step in track(range(limit), description="copying"):
        now = STAGES[stage]
        length, spans = now.lengths[step % len(now.lengths)], now.spans[step % len(now.spans)]
        size = max(24, TOKENS_PER_STEP // length)
        accuracy = _copy_step(model, optimizer, *copy_batch(size, length, pool, spans, generator), step)
        recent[length] = 0.8 * recent[length] + 0.2 * accuracy
        if recent[now.lengths[-1]] > now.enough:
            stage += 1
        if stage == len(STAGES):
            return step + 1, recent[now.lengths[-1]]
    return limit, recent[STAGES[-1].lengths[-1]]


def _groups(model: Qwen3ForCausalLM) -> list[dict[str, Any]]:
    """The gains of the query and key norms learn faster: they alone decide how sharp attention can get."""
    gains = [value for name, value in model.named_parameters() if "q_norm" in name or "k_norm" in name]
    rest = [value for name, value in model.named_parameters() if "q_norm" not in name and "k_norm" not in name]
    return [{"params": rest, "rate": 2e-3}, {"params": gains, "rate": 2e-2, "weight_decay": 0.0}]


def _copy_step(
    model: Qwen3ForCausalLM, optimizer: torch.optim.Optimizer, ids: torch.Tensor, labels: torch.Tensor, step: int
) -> float:
    """One update; returns the accuracy on the repeated tokens."""
    for group in optimizer.param_groups:
        group["lr"] = group["rate"] * min(1.0, (step + 1) / 20)
    logits, wanted = model(input_ids=ids).logits[:, :-1], labels[:, 1:]
    loss = F.cross_entropy(logits.flatten(0, 1), wanted.flatten())
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return (logits.argmax(-1) == wanted)[wanted != IGNORED].float().mean().item()


def install(made: Path, out: Path) -> None:
    """Only what a policy needs, not the training state; whatever else stands in `out` (the card) stays."""
    out.mkdir(parents=True, exist_ok=True)
    for name in (
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    ):
        if (made / name).is_file():
            shutil.copyfile(made / name, out / name)


if __name__ == "__main__":
    sys.exit(main())

"""What a run can be told besides TRL's own arguments. One flat YAML file per run; the command line overrides it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from env.surface import Surface
from rewards.named import NAMES

STAGES = ("sft", "grpo")
CREDITS = ("trajectory", "turn")
TRANSCRIPTS = ("oracle", "logs")


@dataclass
class RunArguments:
    """Checked here, since neither YAML nor TrlParser checks types (a quoted number would pass as text)."""

    stage: str = field(default="grpo", metadata={"help": "sft (warm start on oracle transcripts) or grpo."})
    model: str = field(default="models/tiny", metadata={"help": "Folder (or hub name) of the policy to start from."})
    data: str = field(default="runs/data/train", metadata={"help": "JSONL file or folder of rows to train on."})
    skip_bad: bool = field(default=False, metadata={"help": "Set rows that cannot be read aside and go on."})
    reward: str = field(default="grounded", metadata={"help": f"Reward of GRPO: {', '.join(NAMES)}, or a Python file."})
    credit: str = field(
        default="trajectory",
        metadata={"help": "A token is worth what its trajectory (plain GRPO) or its turn earned: docs/credit.md."},
    )
    turn_weight: float = field(
        default=1.0, metadata={"help": "credit: turn. Share of the turn's advantage, the rest is the trajectory's."}
    )
    max_turns: int = field(default=6, metadata={"help": "Model calls per episode; more counts as truncated."})
    turn_tokens: int = field(default=96, metadata={"help": "Tokens that the model may write per turn."})
    transcripts_per_row: int = field(
        default=1, metadata={"help": "SFT: episodes per row, each with its own employee ids."}
    )
    transcripts: str = field(
        default="oracle",
        metadata={"help": "SFT: who wrote them: oracle, or logs (an assistant with bad habits, see data/logs.py)."},
    )
    max_infrastructure_share: float = field(
        default=0.2, metadata={"help": "Stop when more than this share of a batch failed for reasons of ours."}
    )
    faults: str = field(
        default="",
        metadata={"help": "GRPO: YAML file of tool faults to meet in training, such as configs/faults.yaml."},
    )
    tools: str = field(
        default="", metadata={"help": "Offer these tools only, names with commas between (default: all)."}
    )
    tools_top_k: int = field(
        default=0, metadata={"help": "Offer the k tools nearest to each question, and what they need; 0: all."}
    )
    plan_tool: bool = field(
        default=False, metadata={"help": "Also offer run_plan, which runs several tools in one call."}
    )
    metrics_port: int = field(
        default=0, metadata={"help": "Show Prometheus metrics of the tools on this loopback port; 0: none."}
    )
    otlp: str = field(
        default="", metadata={"help": "Send a trace per episode to this OTLP address, such as http://127.0.0.1:4318."}
    )
    tool_summary: bool = field(default=True, metadata={"help": "Print a line per tool when training starts."})
    bucket_by_length: bool = field(
        default=True, metadata={"help": "GRPO: sort an optimizer step's micro-batches by length to save padding."}
    )
    resume: bool = field(default=False, metadata={"help": "Go on from the last checkpoint in output_dir."})
    dry_run: bool = field(default=False, metadata={"help": "Check everything, print the resolved run, train nothing."})

    @property
    def surface(self) -> Surface:
        return Surface(tuple(filter(None, self.tools.replace(" ", "").split(","))), self.tools_top_k, self.plan_tool)

    def __post_init__(self) -> None:
        if type(self.tools_top_k) is not int or self.tools_top_k < 0:
            raise ValueError(f"tools_top_k: expected a whole number of at least 0, got {self.tools_top_k!r}")
        for name in ("max_turns", "turn_tokens", "transcripts_per_row"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"{name}: expected a whole number of at least 1, got {value!r}")
        if self.reward not in NAMES and not Path(self.reward).is_file():
            raise ValueError(
                f"reward: expected one of {', '.join(NAMES)}, or a file with cal_reward(payload), got {self.reward!r}"
            )
        if self.faults and not Path(self.faults).is_file():
            raise ValueError(f"faults: no such file, {self.faults}")
        choices = {"stage": STAGES, "transcripts": TRANSCRIPTS, "credit": CREDITS}
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}: expected one of {', '.join(allowed)}, got {getattr(self, name)!r}")
        for name in ("max_infrastructure_share", "turn_weight"):
            share = getattr(self, name)
            if not isinstance(share, int | float) or isinstance(share, bool) or not 0 <= share <= 1:
                raise ValueError(f"{name}: expected a number from 0 to 1, got {share!r}")

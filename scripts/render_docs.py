"""Put the figures of docs/results/*.json into the documents, between their `<!-- results:NAME -->` marks.

python -m scripts.render_docs           # rewrite
python -m scripts.render_docs --check   # exit status 1 where a document says something else
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path("docs/results")
DOCUMENTS = (Path("README.md"), Path("README.zh-CN.md"), Path("models/tiny/README.md"), Path("docs/figures.md"))
BLOCK = re.compile(r"(<!-- results:(\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

WORDS = {
    "en": {
        "head": "| seed | held-out success before | after GRPO | mean score | hand-written before | after | training |",
        "minutes": "min",
        "machine": "{rows} held-out rows, greedy; 95 % Wilson intervals; {machine}. Source: "
        "[docs/results/demo.json](docs/results/demo.json), written by `{command}`.",
        "kinds": "| kind | asks for | before | after |",
        "failures": "| failure class | before | after |",
        "audit": "| reward | plans | open classes | paid worst: plan and score | cheats paid | honest work punished |",
        "audit_source": "Least score of a success and of honest partial work, every class and every probe: "
        "[docs/results/audit.json](docs/results/audit.json), written by `{command}`.",
        "nothing": "none",
    },
    "zh": {
        "head": "| 种子 | 训练前（留出集成功率） | GRPO 之后 | 平均得分 | 手写问题，之前 | 之后 | 训练用时 |",
        "minutes": "分钟",
        "machine": "{rows} 条留出数据，贪心解码；95 % Wilson 区间；{machine}。来源："
        "[docs/results/demo.json](docs/results/demo.json)，由 `{command}` 生成。",
        "kinds": "| 类别 | 问的是什么 | 之前 | 之后 |",
        "failures": "| 失败类型 | 之前 | 之后 |",
        "audit": "| 奖励 | 枚举的路径 | 漏洞类别 | 最亏的例子和得分 | 得手的作弊玩家 | 被惩罚的诚实行为 |",
        "audit_source": "成功与诚实部分完成的最低分、每个类别和每个探针："
        "[docs/results/audit.json](docs/results/audit.json)，由 `{command}` 生成。",
        "nothing": "无",
    },
}
KINDS = {
    "1": ("leave and the manager's e-mail", "请假情况和主管邮箱"),
    "2": ("the manager", "直属主管"),
    "3": ("leave today", "今天是否请假"),
    "4": ("an employee id", "工号"),
    "5": ("leave, id given", "已知工号查请假"),
    "6": ("the manager, id given", "已知工号查主管"),
    "10": ("a person who does not exist", "查无此人"),
    "13": ("days of leave last week", "上周请假天数"),
    "19": ("leave where there is none", "没有请假"),
    "20": ("the CEO's manager", "CEO 的主管"),
    "26": ("small talk, policy questions", "闲聊、制度问题"),
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing; exit status 1 where something differs")
    options = parser.parse_args(argv)
    stale = [path for path in DOCUMENTS if path.is_file() and rendered(path) != path.read_text("utf-8")]
    for path in stale:
        print(f"{path}: {'differs from docs/results' if options.check else 'rewritten'}", file=sys.stderr)
        if not options.check:
            path.write_text(rendered(path), "utf-8")
    return 1 if stale and options.check else 0


def rendered(path: Path) -> str:
    """The document with its blocks made from the result files. Raises KeyError for a block that nobody makes."""
    language = "zh" if "zh" in path.name else "en"
    return BLOCK.sub(
        lambda found: found[1] + BLOCKS[found[2]](language).rstrip() + "\n" + found[3], path.read_text("utf-8")
    )


def load(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def demo(language: str) -> str:
    """The table of the two commands: every seed, before and after."""
    result, words = load("demo"), WORDS[language]
    lines = [words["head"], "|" + "---|" * 7]
    for run in result["seeds"]:
        cells = [
            str(run["seed"]),
            _rate(run["before"]["success"]),
            f"**{_rate(run['after']['success'])}**",
            f"{run['before']['score']:.2f} → {run['after']['score']:.2f}",
            _rate(run["examples_before"]["success"]),
            _rate(run["examples_after"]["success"]),
            f"{run['training_seconds'] / 60:.1f} {words['minutes']}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    rows = result["seeds"][0]["after"]["n"]
    lines += ["", words["machine"].format(rows=rows, machine=result["machine"], command=result["command"])]
    return "\n".join(lines)


def kinds(language: str) -> str:
    """Success per query kind, all seeds together."""
    result = load("demo")
    lines = [WORDS[language]["kinds"], "|---|---|---|---|"]
    for kind, names in KINDS.items():
        cells = [_pooled(result, side, "by_kind", kind) for side in ("before", "after")]
        lines.append(f"| {kind} | {names[language == 'zh']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(language: str) -> str:
    """Failure classes as shares of all held-out episodes, all seeds together."""
    seeds = load("demo")["seeds"]
    names = sorted({name for run in seeds for side in ("before", "after") for name in run[side]["failures"]})
    lines = [WORDS[language]["failures"], "|---|---|---|"]
    for name in names:
        shares = []
        for side in ("before", "after"):
            count = sum(run[side]["failures"].get(name, {"count": 0})["count"] for run in seeds)
            shares.append(f"{count / sum(run[side]['n'] for run in seeds):.1%}")
        lines.append(f"| {name} | {' | '.join(shares)} |")
    return "\n".join(lines)


def example(language: str) -> str:
    """One held-out question before and after, as it went."""
    found = load("demo")["example"]
    lines = ["```text", f"Q  {found['query']}"]
    for side in ("before", "after"):
        lines.append(f"\n--- {side}: score {found[side]['score']:.3f}")
        for turn in found[side]["turns"]:
            lines.append(f"[{turn['earned']:+.3f}] {turn['text']}")
            lines += [f"           <- {_short(result)}" for result in turn["results"]]
    return "\n".join([*lines, "```"])


def audit(language: str) -> str:
    """What the audit found about each reward."""
    result, words = load("audit"), WORDS[language]
    lines = [words["audit"], "|" + "---|" * 6]
    for found in result["audits"]:
        worst = max(found["loopholes"], key=lambda each: each["score"], default=None)
        cells = [
            f"`{found['reward']}`",
            f"{found['plans']:,}",
            str(len(found["loopholes"])),
            f"`{worst['example']}` {worst['score']:.2f}" if worst else words["nothing"],
            ", ".join(found["players_paid"]) or words["nothing"],
            str(len(found["punished"]) + len(found["broken"]) + sum(bool(each["wrong"]) for each in found["probes"])),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", words["audit_source"].format(command=result["command"])])


def policy(language: str) -> str:
    """How the embedded policy was made."""
    made = load("demo")["policy"]
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in made.items())])


def tools(language: str) -> str:
    """What a call costs, layer by layer."""
    result = load("tools")
    lines = ["| variant | µs per call | clock |", "|---|---|---|"]
    for clock, key in (("CPU", "cpu_us_per_call"), ("wall", "wall_us_per_call")):
        lines += [f"| {name} | {value:.1f} | {clock} |" for name, value in result[key].items()]
    loading = result["loading"]
    lines += [
        "",
        f"Loading {loading['tools']} tools: {loading['ms']:.1f} ms of CPU time (the source document says "
        f"{loading['source_document_ms']:g} ms for its own). {_source('tools', result)}",
    ]
    return "\n".join(lines)


def reliability(language: str) -> str:
    """The reliability figures at their bars."""
    result = load("reliability")
    lines = ["| figure | what | tried | broken | slowest |", "|---|---|---|---|---|"]
    for figure in result["figures"]:
        slowest = f"{figure['worst_s']:.2f} s" if figure["worst_s"] else "–"
        lines.append(f"| {figure['id']} | {figure['what']} | {figure['tried']:,} | {figure['broken']} | {slowest} |")
    return "\n".join([*lines, "", f"Mode: {result['mode']}. {_source('reliability', result)}"])


def domains(language: str) -> str:
    """One training result per second domain."""
    result = load("domains")
    lines = ["| domain | held-out success before | after SFT | after GRPO |", "|---|---|---|---|"]
    for name, found in result["domains"].items():
        cells = [_rate(found[side]["success"]) for side in ("before", "sft", "grpo")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    steps = f"{result['sft_steps']} SFT steps, {result['grpo_steps']} GRPO steps."
    return "\n".join([*lines, "", f"{steps} {_source('domains', result)}"])


def _source(name: str, result: Mapping[str, Any]) -> str:
    return f"{result['machine']}. Source: [{name}.json](results/{name}.json), written by `{result['command'].strip()}`."


BLOCKS: Mapping[str, Callable[[str], str]] = {
    "demo": demo,
    "kinds": kinds,
    "failures": failures,
    "example": example,
    "policy": policy,
    "audit": audit,
    "tools": tools,
    "reliability": reliability,
    "domains": domains,
}


def _rate(numbers: Mapping[str, Any]) -> str:
    return f"{numbers['rate']:.1%} [{numbers['low']:.1%}, {numbers['high']:.1%}]"


def _pooled(result: Mapping[str, Any], side: str, split: str, key: str) -> str:
    parts = [run[side][split][key] for run in result["seeds"] if key in run[side][split]]
    total = sum(part["n"] for part in parts)
    return f"{sum(part['count'] for part in parts) / total:.1%}" if total else "–"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 110 else text[:107] + "..."


if __name__ == "__main__":
    sys.exit(main())

"""Evaluate: rows -> episodes -> records -> summary and report.

Examples:
    python eval.py --policy oracle
    python eval.py --model models/tiny --rows 500
    python eval.py --model models/tiny --queries data/examples/questions.jsonl
    python eval.py --model models/tiny --samples 4 --temperature 0.7
    python eval.py --endpoint http://127.0.0.1:8000/v1 --model NAME
    python eval.py --compare runs/eval/before runs/eval/after
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from data.schema import Row
from env.faults import FaultPlan
from env.surface import Surface
from evaluation import players, run
from evaluation.console import print_comparison, print_summary
from evaluation.players import Item, Played
from evaluation.record import Record
from evaluation.run import Episodes, Refused, Settings

HOME = Path("runs/eval")
DEFAULT_KEY = "OPENAI_API_KEY"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit status: 0 done, 2 refused, 130 interrupted."""
    given = sys.argv[1:] if argv is None else list(argv)
    asked = _parser().parse_args(given)
    try:
        return _compare(asked) if asked.compare else _evaluate(asked, f"python eval.py {shlex.join(given)}")
    except Refused as error:
        print(f"eval.py: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


def _evaluate(asked: argparse.Namespace, command: str) -> int:
    _check_player(asked)
    player = asked.policy or asked.model
    source = asked.queries or asked.data
    out = asked.out or HOME / _folder_of(asked)
    started = time.monotonic()

    rows = run.select_rows(source, asked.rows)
    _check_tools(asked, rows)
    settings = Settings(
        player,
        str(source or "generated"),
        len(rows),
        asked.seed,
        asked.temperature,
        players.MAX_TURNS,
        str(asked.faults or ""),
        str(_surface(asked)),
        asked.samples,
        asked.endpoint or "",
        asked.max_tokens,
    )
    with _episodes(asked) as episodes, _observed(asked):
        left = run.prepare(out, rows, settings, asked.resume)
        try:
            with _bar(player, len(rows) * asked.samples, len(left)) as advance:
                run.record_all(out, episodes(left), advance)
        except KeyboardInterrupt:
            print(f"eval.py: interrupted; the same command with --resume goes on in {out}", file=sys.stderr)
            return 130
    numbers = run.finish(out, rows, settings, command, time.monotonic() - started)

    print_summary(Console(), player, numbers)
    print(f"report: {out / run.REPORT}")
    return 0


def _check_player(asked: argparse.Namespace) -> None:
    """What argparse cannot say of options that belong together."""
    if asked.endpoint and not asked.model:
        raise Refused("--endpoint needs --model, the name that the server knows the model by")
    if not asked.endpoint and (asked.api_key_env or asked.max_tokens):
        raise Refused("--api_key_env and --max_tokens go with --endpoint only")
    if asked.samples > 1 and asked.model and not asked.temperature:
        raise Refused(f"--samples {asked.samples} of a greedy model are all alike: give a --temperature above 0")


def _folder_of(asked: argparse.Namespace) -> str:
    if asked.policy:
        return str(asked.policy)
    if not asked.endpoint:
        return run.name_of_model(asked.model)
    return re.sub(r"[^\w.-]+", "-", asked.model).strip(".-") or "endpoint"


def _compare(asked: argparse.Namespace) -> int:
    before, after = asked.compare
    out = asked.out or HOME / f"compare-{before.name}-{after.name}"
    runs, comparison = run.compare_folders(before, after, out)
    console = Console()
    for label, numbers in runs:
        print_summary(console, label, numbers)
    print_comparison(console, runs[0][0], runs[1][0], comparison)
    print(f"report: {out / run.REPORT}")
    return 0


Play = Callable[[list[Item]], Episodes]


@contextmanager
def _episodes(asked: argparse.Namespace) -> Iterator[Play]:
    """What plays the items, whoever that is; for as long as a connection to it is needed."""
    if asked.endpoint:
        with _endpoint_episodes(asked) as play:
            yield play
    else:
        yield _model_episodes(asked) if asked.model else _scripted_episodes(asked)


def _scripted_episodes(asked: argparse.Namespace) -> Play:
    drawn = [players.by_name(asked.policy, asked.seed, sample) for sample in range(asked.samples)]
    plan, surface = _fault_plan(asked), _surface(asked)
    return lambda items: (
        Played(row, players.play(row, drawn[sample], faults=plan, surface=surface), sample=sample)
        for row, sample in items
    )


@contextmanager
def _endpoint_episodes(asked: argparse.Namespace) -> Iterator[Play]:
    plan, key = _fault_plan(asked), _key(asked.api_key_env)
    try:
        from evaluation.endpoint import Endpoint, Unusable, play_rows
    except ImportError as error:
        raise Refused(f'--endpoint: {error}; `pip install -e ".[endpoint]"` brings it') from error
    options = {"key": key, "temperature": asked.temperature, "max_tokens": asked.max_tokens}
    try:
        endpoint = Endpoint(asked.endpoint, asked.model, **options)
    except ValueError as error:
        raise Refused(f"--endpoint: {error}") from error
    settings = {"seed": asked.seed, "max_turns": players.MAX_TURNS, "concurrency": asked.concurrency}
    with endpoint:
        try:
            yield lambda items: play_rows(endpoint, items, faults=plan, surface=_surface(asked), **settings)
        except Unusable as error:
            raise Refused(f"--endpoint {error}; --resume goes on where this stopped") from error


def _key(variable: str | None) -> str:
    """The API key, from the environment only: nothing of it gets into a file, a message or the list of processes."""
    key = os.environ.get(variable or DEFAULT_KEY, "")
    if variable and not key:
        raise Refused(f"--api_key_env {variable}: there is no such environment variable, or it is empty")
    if not key.isascii() or not key.isprintable():
        raise Refused(f"--api_key_env {variable or DEFAULT_KEY}: a key is printable ASCII on one line")
    return key


@contextmanager
def _observed(asked: argparse.Namespace) -> Iterator[None]:
    """Metrics and traces, where they are asked for."""
    with ExitStack() as stack:
        for name, ask in (("metrics_port", asked.metrics_port), ("otlp", asked.otlp)):
            if ask is not None:
                stack.callback(_watcher(name, ask))
        yield


def _watcher(name: str, ask: Any) -> Callable[[], None]:
    """Returns what stops it."""
    try:
        from env.telemetry import export_traces, serve_metrics

        return serve_metrics(ask) if name == "metrics_port" else export_traces(ask)
    except (ImportError, OSError, ValueError) as error:
        raise Refused(f"--{name} {ask}: {error}") from error


def _fault_plan(asked: argparse.Namespace) -> FaultPlan | None:
    try:
        return FaultPlan.load(asked.faults) if asked.faults else None
    except (OSError, ValueError) as error:
        raise Refused(f"--faults: {error}") from error


def _check_tools(asked: argparse.Namespace, rows: Sequence[Row]) -> None:
    """One row of each domain tells whether the tools that a run may offer exist."""
    for row in {row.task.domain: row for row in rows}.values():
        try:
            row.open(surface=_surface(asked))
        except ValueError as error:
            raise Refused(f"--tools: {error}") from error


def _surface(asked: argparse.Namespace) -> Surface:
    names = filter(None, asked.tools.replace(" ", "").split(","))
    return Surface(tuple(names), asked.tools_top_k, asked.plan_tool)


def _model_episodes(asked: argparse.Namespace) -> Play:
    """torch is imported here, after everything cheap has been checked."""
    folder = Path(asked.model)
    run.check_model_folder(folder)
    plan = _fault_plan(asked)
    from training.local import play_rows

    def play(items: list[Item]) -> Episodes:
        samples = [sample for _, sample in items]
        played = play_rows(
            asked.model,
            [row for row, _ in items],
            samples=samples,
            temperature=asked.temperature,
            seed=asked.seed,
            max_turns=players.MAX_TURNS,
            batch_size=asked.batch_size,
            faults=plan,
            surface=_surface(asked),
            progress=lambda done: None,  # the bar counts the episodes that have been recorded
        )
        return (Played(*each, sample) for each, sample in zip(played, samples, strict=True))

    return lambda items: run.once_loaded(folder, lambda: play(items))


@contextmanager
def _bar(label: str, total: int, left: int) -> Iterator[Callable[[Record], None]]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    right = 0
    with Progress(*columns, TextColumn("{task.fields[right]} right"), console=Console(stderr=True)) as progress:
        task = progress.add_task(label, total=total, completed=total - left, right=right)

        def advance(record: Record) -> None:
            nonlocal right
            right += record.success
            progress.update(task, advance=1, right=right)

        yield advance


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}; see --help\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser("eval.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    who = parser.add_mutually_exclusive_group(required=True)
    who.add_argument("--policy", choices=players.NAMES, help="a player without a model")
    who.add_argument(
        "--model", metavar="DIR", help="a model with its tokenizer and chat template; with --endpoint, a model's name"
    )
    who.add_argument("--compare", type=Path, nargs=2, metavar=("A", "B"), help="two finished evaluations, A before B")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--data", type=Path, metavar="PATH", help="rows: a file, or a folder (its eval/ where it has one)"
    )
    where.add_argument("--queries", type=Path, metavar="FILE", help="a file of hand-written questions, built into rows")
    parser.add_argument(
        "--rows",
        type=int,
        metavar="N",
        help=f"how many (default: all of --data or --queries; without them {run.DEFAULT_ROWS}, generated from the"
        f" evaluation split with seed {run.ROWS_SEED})",
    )
    parser.add_argument(
        "--faults", type=Path, metavar="FILE", help="tool faults to meet, such as configs/faults.yaml (default: none)"
    )
    parser.add_argument(
        "--tools", default="", metavar="NAMES", help="offer these only, with commas between (default: all)"
    )
    parser.add_argument(
        "--tools_top_k", type=_positive, default=0, metavar="K", help="offer the K tools nearest to each question"
    )
    parser.add_argument("--plan_tool", action="store_true", help="also offer run_plan: several tools in one call")
    parser.add_argument(
        "--endpoint", metavar="URL", help="an OpenAI-compatible server that has --model, up to before /chat/completions"
    )
    parser.add_argument(
        "--concurrency", type=_positive, default=8, metavar="N", help="requests to --endpoint at once (default: 8)"
    )
    parser.add_argument(
        "--api_key_env",
        metavar="NAME",
        help=f"the variable with the key of --endpoint (default: {DEFAULT_KEY}, if set)",
    )
    parser.add_argument(
        "--max_tokens", type=_positive, metavar="N", help="of a turn, for --endpoint (default: the server's own limit)"
    )
    parser.add_argument(
        "--samples", type=_positive, default=1, metavar="N", help="episodes a row, for pass@k and pass^k (default: 1)"
    )
    parser.add_argument("--temperature", type=_temperature, default=0.0, help="of the model; 0, the default, is greedy")
    parser.add_argument(
        "--metrics_port",
        "--metrics-port",
        type=_positive,
        metavar="N",
        help="show Prometheus metrics of the tools on this loopback port",
    )
    parser.add_argument("--otlp", metavar="URL", help="send a trace per episode there, such as http://127.0.0.1:4318")
    parser.add_argument("--seed", type=int, default=0, help="of sampling, and of the random policy (default: 0)")
    parser.add_argument("--batch-size", type=_positive, default=32, metavar="N", help="episodes at once (default: 32)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help=f"for records.jsonl, summary.json and report.html, replaced if they are there (default: {HOME}/NAME)",
    )
    parser.add_argument("--resume", action="store_true", help="go on where a killed evaluation in --out stopped")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _temperature(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {text!r}")
    return value


if __name__ == "__main__":
    sys.exit(main())

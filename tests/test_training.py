"""Training runs end to end on the embedded policy, cut to a few steps."""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from data.build import write
from env.domains import hr
from training.run import RunError, run

MODEL = "models/tiny"
GRPO = ["--config", "configs/tiny_grpo.yaml"]
SMALL = ["--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "2", "--num_generations", "4"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder, {"train": 64, "eval": 1}, seed=5)
    return folder / "train"


def arguments(data: Path, out: Path, *more: str) -> list[str]:
    return [*GRPO, *SMALL, "--data", str(data), "--output_dir", str(out), *more]


def weights_hash(folder: Path) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(folder / "model.safetensors").items()):
        digest.update(name.encode())
        digest.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_sft_lowers_the_loss_and_leaves_a_policy(data: Path, tmp_path: Path) -> None:
    sft = ["--config", "configs/tiny_sft.yaml", "--data", str(data), "--output_dir", str(tmp_path), "--seed", "3"]
    more = ["--max_steps", "3", "--per_device_train_batch_size", "8", "--logging_steps", "1"]
    assert run([*sft, *more]) == 0
    log = [line for line in lines(tmp_path / "log.jsonl") if "loss" in line]
    assert [line["step"] for line in log] == [1, 2, 3]
    assert weights_hash(tmp_path) != weights_hash(Path(MODEL))
    assert (tmp_path / "chat_template.jinja").is_file() or "chat_template" in (
        tmp_path / "tokenizer_config.json"
    ).read_text("utf-8")


@pytest.mark.slow
def test_grpo_traces_every_rollout_and_changes_the_weights(data: Path, tmp_path: Path) -> None:
    assert run(arguments(data, tmp_path, "--max_steps", "2", "--save_strategy", "no")) == 0
    traces = lines(tmp_path / "traces" / "rank0.jsonl")
    assert len(traces) == 2 * 16
    for trace in traces:
        assert trace["reward"] == trace["score"]["total"] == sum(trace["score"]["increments"])
        assert trace["payload"]["trajectory"]["steps"]
    by_group: dict[tuple[int, str], set[int]] = {}
    for trace in traces:
        by_group.setdefault((trace["block"], trace["row"]), set()).add(trace["rollout"])
    assert all(places == {0, 1, 2, 3} for places in by_group.values())
    assert weights_hash(tmp_path) != weights_hash(Path(MODEL))
    shown = lines(tmp_path / "log.jsonl")[0]
    assert {"reward", "success", "part/steps", "part/answer", "frac_reward_zero_std", "tool_errors"} <= shown.keys()


@pytest.mark.slow
def test_credit_by_turn_with_weight_0_is_plain_grpo_bit_for_bit(data: Path, tmp_path: Path) -> None:
    settings = ["--max_steps", "2", "--save_strategy", "no"]
    plain, none, whole = tmp_path / "plain", tmp_path / "none", tmp_path / "whole"
    assert run(arguments(data, plain, *settings)) == 0
    assert run(arguments(data, none, *settings, "--credit", "turn", "--turn_weight", "0.0")) == 0
    assert run(arguments(data, whole, *settings, "--credit", "turn")) == 0
    assert weights_hash(plain) == weights_hash(none) != weights_hash(whole)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_rewards_and_weights(data: Path, tmp_path: Path) -> None:
    settings = ["--max_steps", "6", "--save_steps", "2", "--num_train_epochs", "9"]
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    train(arguments(data, whole, *settings)).wait()
    process = train(arguments(data, cut, *settings))
    wait_for(lambda: (cut / "checkpoint-4" / "trainer_state.json").is_file(), process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (cut / "model.safetensors").exists(), "the run had ended before it was killed"
    assert train(arguments(data, cut, *settings, "--resume", "true")).wait() == 0
    assert weights_hash(whole) == weights_hash(cut)
    for field in ("reward", "loss", "grad_norm"):
        assert [line[field] for line in lines(whole / "log.jsonl") if field in line] == [
            line[field] for line in lines(cut / "log.jsonl") if field in line
        ]
    kept = [
        (trace["step"], trace["row"], trace["rollout"], trace["reward"])
        for trace in lines(whole / "traces/rank0.jsonl")
    ]
    again = [
        (trace["step"], trace["row"], trace["rollout"], trace["reward"]) for trace in lines(cut / "traces/rank0.jsonl")
    ]
    assert kept == again


def train(words: list[str]) -> subprocess.Popen[bytes]:
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "train.py", *words], env=environment, **quiet)  # type: ignore[call-overload,no-any-return]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert process.poll() is None, f"the run ended with {process.returncode} before it was to be killed"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_fresh_run_does_not_overwrite_checkpoints(data: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint-4").mkdir()
    with pytest.raises(RunError, match="--resume"):
        run(arguments(data, tmp_path, "--max_steps", "2"))


@pytest.mark.slow
def test_failures_of_ours_are_no_reward_and_stop_the_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hr.registry.cache_clear()
    for module in ("employee_search", "leave_query", "org_query"):
        where = importlib.import_module(f"env.domains.hr.tools.{module}")
        name = next(name for name in vars(where) if name.startswith(("mcp_", "plugin_")))
        monkeypatch.setattr(where, name, broken(vars(where)[name]))
    try:
        with pytest.raises(RunError, match=r"max_infrastructure_share 0\.2; most often: internal_error"):
            run(arguments(data, tmp_path, "--max_steps", "1", "--save_strategy", "no"))
    finally:
        monkeypatch.undo()
        hr.registry.cache_clear()
    failed = [trace for trace in lines(tmp_path / "traces/rank0.jsonl") if trace["reward"] is None]
    assert failed
    assert all(trace["payload"]["trajectory"]["meta"]["stop"] == "infrastructure" for trace in failed)


def broken(function: Callable[..., Any]) -> Callable[..., Any]:
    """A tool with a bug, and with the signature of `function`, which the registry checks at load."""

    @functools.wraps(function)
    def tool(world: Any, **arguments: Any) -> Any:
        raise RuntimeError("the tool has a bug")

    return tool


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--num_generations", "5"], "legal: num_generations 2, 4, 8, 16 or per_device_train_batch_size"),
        (["--max_completion_length", "50"], "max_completion_length 50 is less than the oracle's longest episode"),
        (["--turn_tokens", "5"], "turn_tokens 5 is less than the oracle's longest turn"),
        (["--max_turns", "2"], "max_turns 2 is less than"),
        (["--data", "nowhere"], "nowhere: no such file or folder"),
        (["--model", "nowhere"], "nowhere: no such folder"),
        (["--learning_rat", "1"], "learning_rat"),
        (["--max_turns", "many"], "invalid int value: 'many'"),
        (["--credit", "step"], "credit: expected one of trajectory, turn, got 'step'"),
        (["--credit", "turn", "--turn_weight", "1.5"], "turn_weight: expected a number from 0 to 1, got 1.5"),
        (["--credit", "turn", "--importance_sampling_level", "sequence"], "credit turn needs"),
        (["--reward", "best"], "reward: expected one of grounded, seed_compat, or a file"),
        (["--per_device_train_batch_size", "200"], "rows are fewer than the"),
        (["--steps_per_generation", "4", "--save_steps", "1"], "save_steps 1 falls inside a block"),
    ],
)
def test_what_cannot_work_is_refused_before_the_model_loads(
    words: list[str], said: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.run.load_model", lambda path: pytest.fail("the weights were loaded"))
    with pytest.raises(RunError) as caught:
        run(arguments(data, tmp_path, "--max_steps", "2", *words))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dry_run_prints_the_resolved_run_and_writes_nothing(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert run(arguments(data, out, "--max_steps", "2", "--dry_run", "true")) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["completions_per_generation"], shown["prompts_per_generation"], shown["rows"]) == (16, 4, 64)
    assert not out.exists()

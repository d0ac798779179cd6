"""Regrouping the rows of an optimizer step changes what it costs and not what it teaches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from data.build import write
from training.buckets import bucketed
from training.run import run
from training.trainer import StepCreditTrainer

PAD, VOCABULARY = 0, 11


def micro_batches(advantages: list[float], size: int) -> list[dict[str, Any]]:
    """Rows of random lengths, prompts padded on the left and completions on the right, in micro-batches of `size`."""
    generator = torch.Generator().manual_seed(len(advantages))
    rows = len(advantages)
    prompts, completions = (torch.randint(2, 7, (rows,), generator=generator) for _ in range(2))
    prompt_mask = (torch.arange(6)[None] >= 6 - prompts[:, None]).long()
    completion_mask = (torch.arange(6)[None] < completions[:, None]).long()
    ids = torch.randint(1, VOCABULARY, (rows, 12), generator=generator)
    whole = {
        "prompt_ids": ids[:, :6] * prompt_mask,
        "prompt_mask": prompt_mask,
        "completion_ids": ids[:, 6:] * completion_mask,
        "completion_mask": completion_mask,
        "advantages": torch.tensor(advantages),
        "num_items_in_batch": completion_mask.sum(),
    }
    return [
        {key: value[start : start + size] if value.ndim else value for key, value in whole.items()}
        for start in range(0, rows, size)
    ]


def gradient(batches: list[dict[str, Any]]) -> torch.Tensor:
    """Of a policy that is one table: the summed loss of all micro-batches, scaled by the tokens of the whole block."""
    table = torch.arange(VOCABULARY**2, dtype=torch.float64).reshape(VOCABULARY, VOCABULARY).sin().requires_grad_()
    for batch in batches:
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], 1)
        width = batch["completion_ids"].size(1)
        logprobs = table[ids[:, :-1]].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0][:, -width:]
        loss = -batch["advantages"][:, None] * logprobs * batch["completion_mask"]
        (loss.sum() / batch["num_items_in_batch"]).backward()
    assert table.grad is not None
    return table.grad


@pytest.mark.parametrize("drop_silent", [False, True])
@pytest.mark.parametrize("taught", [0, 1, 3, 4, 5, 9, 16])
def test_the_gradient_of_the_step_stays(taught: int, drop_silent: bool) -> None:
    advantages = [(-1.0) ** row * (row + 1) if row < taught else 0.0 for row in range(16)]
    batches = micro_batches(advantages[::-1], 4)
    made = bucketed(batches, 4, drop_silent=drop_silent)
    assert len(made) == len(batches)
    assert sum(len(batch["advantages"]) for batch in made) == (max(taught, 4) if drop_silent else 16)
    assert torch.allclose(gradient(made), gradient(batches), atol=1e-12)
    assert gradient(batches).any() == (taught > 0)


def test_every_micro_batch_is_as_wide_as_it_needs() -> None:
    made = bucketed(micro_batches([1.0] * 12, 3), 4)
    for batch in made:
        assert batch["completion_mask"][:, -1].any()
        assert batch["prompt_mask"][:, 0].any()
    lengths = [int(batch["completion_mask"].sum(1).max()) for batch in made]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[-1]


def test_each_optimizer_step_keeps_its_own_rows() -> None:
    made = bucketed(micro_batches([float(row) for row in range(1, 9)], 2), 2)
    values = [sorted(batch["advantages"].tolist()) for batch in made]
    assert sorted(values[0] + values[1]) == [1, 2, 3, 4]
    assert sorted(values[2] + values[3]) == [5, 6, 7, 8]


def test_advantages_by_token_count_as_silent_only_where_all_are_zero() -> None:
    batches = micro_batches([0.0] * 8, 2)
    for index, batch in enumerate(batches):
        batch["advantages"] = torch.zeros(2, 6)
        batch["advantages"][0, 0] = 1.0 if index == 2 else 0.0
    made = bucketed(batches, 4, drop_silent=True)
    assert [len(batch["advantages"]) for batch in made] == [1, 1, 1, 1]
    assert sum(batch["advantages"].sum().item() for batch in made) == 1.0


@pytest.mark.slow
def test_training_leads_to_the_same_weights_without_silent_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through TRL: were something else in its loss, the weights would differ by far more than rounding."""
    write(tmp_path / "data", {"train": 64, "eval": 1}, seed=5)
    small = ["--per_device_train_batch_size", "8", "--gradient_accumulation_steps", "2", "--num_generations", "4"]
    weights = {}
    for free in (True, False):
        monkeypatch.setattr(StepCreditTrainer, "_silent_rows_are_free", property(lambda _, free=free: free))
        out = tmp_path / str(free)
        where = ["--data", str(tmp_path / "data" / "train"), "--output_dir", str(out)]
        config = ["--config", "configs/tiny_grpo.yaml", "--max_steps", "2", "--save_strategy", "no"]
        assert run([*config, *small, *where]) == 0
        weights[free] = load_file(out / "model.safetensors")
    before = load_file(Path("models/tiny") / "model.safetensors")
    for name, tensor in weights[True].items():
        moved = (tensor - before[name]).abs().max()
        assert (tensor - weights[False][name]).abs().max() < 0.02 * moved + 1e-7, name

"""Feeding a prompt once for all its completions gives the same numbers and the same gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer import add_fused_lm_head

from training.shared_prompts import NOT_SCORED, with_shared_prompts

VOCABULARY, COMPLETION = 40, 7


def model() -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    made = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=48,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
        )
    )
    made.train()
    add_fused_lm_head(made, temperature=0.7, outputs=("log_probs", "entropy"))
    return made


def batch(owners: list[int], prompt: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Row i has prompt owners[i]; prompts and completions of different lengths, padded as TRL pads them."""
    generator = torch.Generator().manual_seed(prompt)
    prompts = torch.randint(1, VOCABULARY, (max(owners) + 1, prompt), generator=generator)
    padding = [index % max(1, prompt - 1) for index in range(max(owners) + 1)]
    ids = torch.cat([prompts[owners], torch.randint(1, VOCABULARY, (len(owners), COMPLETION), generator=generator)], 1)
    mask = torch.ones_like(ids)
    for row, owner in enumerate(owners):
        mask[row, : padding[owner]] = 0
        mask[row, ids.size(1) - row % COMPLETION :] = 0
    return ids * mask, mask


def plainly(made: Any, ids: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    labels = ids.masked_fill(mask == 0, NOT_SCORED)
    labels[:, :-COMPLETION] = NOT_SCORED
    outputs = made(input_ids=ids, attention_mask=mask, labels=labels, fused_lm_head=True)
    return outputs.log_probs[:, -COMPLETION:], outputs.entropy[:, -COMPLETION:]


@pytest.mark.parametrize("owners", [[0, 0, 0, 0], [1, 0, 2, 1, 0, 2], [0], [3, 2, 1, 0]])
@pytest.mark.parametrize("prompt", [1, 2, 9])
def test_numbers_and_gradient_are_those_of_the_plain_pass(owners: list[int], prompt: int) -> None:
    made = model()
    ids, mask = batch(owners, prompt)
    weights = torch.rand(len(owners), COMPLETION, generator=torch.Generator().manual_seed(1)) - 0.5
    wanted, wanted_entropy = plainly(made, ids, mask)
    (wanted * weights).sum().backward()
    gradients = {
        name: parameter.grad.clone() for name, parameter in made.named_parameters() if parameter.grad is not None
    }
    made.zero_grad()
    outputs = with_shared_prompts(made, ids, mask, COMPLETION)
    (outputs.log_probs * weights).sum().backward()
    assert outputs.log_probs.shape == wanted.shape
    assert torch.allclose(outputs.log_probs, wanted, atol=1e-5)
    assert torch.allclose(outputs.entropy, wanted_entropy, atol=1e-5)
    assert len(gradients) == len(list(made.parameters()))
    for name, parameter in made.named_parameters():
        assert parameter.grad is not None
        assert torch.allclose(parameter.grad, gradients[name], atol=1e-5), name
        assert gradients[name].any(), name


def test_each_prompt_is_fed_once() -> None:
    made, fed = model(), list[tuple[int, ...]]()
    made.model.embed_tokens.register_forward_hook(lambda _, inputs, __: fed.append(tuple(inputs[0].shape)))
    with_shared_prompts(made, *batch([0, 0, 1, 0, 1], 9), COMPLETION)
    assert fed == [(2, 8), (5, COMPLETION + 1)]


def test_the_gradient_is_the_same_to_the_last_bit_every_time() -> None:
    """Or a resumed run would not be the run that was cut."""
    made, threads = model(), torch.get_num_threads()
    ids, mask = batch([row % 3 for row in range(48)], 200)
    torch.set_num_threads(4)
    try:
        found = []
        for _ in range(8):
            made.zero_grad()
            with_shared_prompts(made, ids, mask, COMPLETION).log_probs.sum().backward()
            found.append([parameter.grad.clone() for parameter in made.parameters() if parameter.grad is not None])
    finally:
        torch.set_num_threads(threads)
    for other in found[1:]:
        assert all(torch.equal(first, again) for first, again in zip(found[0], other, strict=True))

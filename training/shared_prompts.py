"""The log-probabilities of many completions of few prompts, with each prompt fed once.

The rows of a group differ in their completions only. Their prompts (system text, tools, question) are most of the
tokens; keys and values of one are computed once and handed to all its rows, and the gradient flows back the same way.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import DynamicCache

NOT_SCORED = -100


def with_shared_prompts(model: Any, input_ids: torch.Tensor, attention_mask: torch.Tensor, completion: int) -> Any:
    """model: one with TRL's fused head. input_ids, attention_mask: (rows, width), prompts padded on the left.

    completion: columns at the end that are scored. Returns the head's output with `log_probs` and `entropy` of shape
    (rows, completion).
    """
    # The prompt's last token is always real and its logits are needed: it goes with the completion.
    start = input_ids.size(1) - completion - 1
    cache = DynamicCache()
    if start:
        prompts = torch.stack([input_ids[:, :start], attention_mask[:, :start]], 1)
        distinct, owner = torch.unique(prompts, dim=0, return_inverse=True)
        ids, mask = distinct.unbind(1)
        model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, logits_to_keep=1)
        for layer in cache.layers:
            # Not keys[owner]: its gradient is summed by atomic adds, in another order every time.
            layer.keys, layer.values = layer.keys.index_select(0, owner), layer.values.index_select(0, owner)
    block = input_ids[:, start:]
    labels = block.masked_fill(attention_mask[:, start:] == 0, NOT_SCORED)
    return model(
        input_ids=block, attention_mask=attention_mask, past_key_values=cache, labels=labels, fused_lm_head=True
    )

"""The embedded policy: a Qwen3-shaped model of under a million parameters with a tokenizer and template of its own.

Small enough to train on two CPU cores. Digits and Han characters are single tokens, runs of letters and of punctuation
are cut the same way wherever they stand, so that a name or an id has the same tokens in query, call and result.
"""

from __future__ import annotations

import string
from collections.abc import Iterable

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from env.episode import PERIODS

VOCABULARY = 1536
START, END, PAD = "<|im_start|>", "<|im_end|>", "<|pad|>"
CALL_TAGS = ("<tool_call>", "</tool_call>")

# ChatML. Tools are shown as signatures, made from the same contracts that larger models see as JSON Schema.
TEMPLATE = """\
{%- if messages[0].role == 'system' %}{{ '<|im_start|>system\\n' + messages[0].content + '\\n' }}
{%- elif tools %}{{ '<|im_start|>system\\n' }}{% endif %}
{%- for tool in tools or [] %}{{ tool.function.name + '(' }}
{%- for name in tool.function.parameters.properties %}{{ ',' if not loop.first }}{{ name }}
{{- '' if name in (tool.function.parameters.required or []) else '?' }}{% endfor %}{{ ')\\n' }}{% endfor %}
{%- if messages[0].role == 'system' or tools %}{{ '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}{% if message.role != 'system' %}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') }}
{%- for call in message.tool_calls or [] %}
{{- '<tool_call>' + {'name': call.function.name, 'arguments': call.function.arguments} | tojson + '</tool_call>' }}
{%- endfor %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """A BPE tokenizer that can write any text: characters it has not met fall back to bytes. Deterministic."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token=None))
    # Year, month and day of a date are one piece each, and so is a period's name in front of one: it leads to the date
    # in one step. Ids never are. Whatever is not a letter run stays single.
    names = "|".join(name for words in PERIODS.values() for name in words.values())
    date = r"20\d\d(?=-\d\d-\d\d)|(?<=20\d\d-)\d\d(?=-\d\d)|(?<=20\d\d-\d\d-)\d\d"
    pieces = Regex(rf"(?:{names}) (?=20\d\d-)|{date}" + r"|\d|\p{Han}|[A-Za-z_]+|[\p{P}\p{S}&&[^_]]+|.|\n")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(pieces, behavior="isolated")
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    specials = [PAD, START, END]
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*specials, *(f"<0x{byte:02X}>" for byte in range(256))],
        initial_alphabet=list(string.printable),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    # Byte tokens are for the fallback only: as special tokens they would be matched in text.
    raw = Tokenizer.from_str(_without_special_bytes(tokenizer.to_str()))
    raw.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in specials])
    raw.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in CALL_TAGS])
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token=END,
        pad_token=PAD,
        chat_template=TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )


def new_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Freshly initialised weights in float32."""
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=128,
            intermediate_size=384,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=32,
            max_position_embeddings=2048,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=True,
            attention_bias=True,  # attending to the previous token, half of copying, does not depend on content
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
        )
    )


def _without_special_bytes(serialised: str) -> str:
    import json

    value = json.loads(serialised)
    value["added_tokens"] = []
    return json.dumps(value, ensure_ascii=False)

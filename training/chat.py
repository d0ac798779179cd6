"""Between messages and tokens: one rendering for SFT, GRPO and evaluation, token-in and token-out.

A `ChatFormat` renders the opening of an episode once and afterwards only the tool results that are appended. What the
model sampled is never rendered or tokenised again, so the tokens trained on are the tokens sampled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from transformers import PreTrainedTokenizerBase

PROBE = "\u2603probe\u2603"  # text that no template writes by itself
PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe_tool",
        "description": "probe",
        "parameters": {"type": "object", "properties": {"probe_key": {"type": "string"}}, "required": ["probe_key"]},
    },
}


class TemplateError(ValueError):
    """The tokenizer's chat template cannot be used for multi-turn tool calls; the message names the cure."""


class ChatFormat:
    """tokenizer: with a chat template that renders `tools` and messages of role `tool`. Raises TemplateError."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase):
        self.tokenizer = tokenizer
        if tokenizer.chat_template is None:
            raise TemplateError(
                "the tokenizer has no chat template; set tokenizer.chat_template to one that does tools"
            )
        if tokenizer.eos_token_id is None:
            raise TemplateError("the tokenizer has no eos_token; set it to the token that ends a turn")
        self.end_id = int(tokenizer.eos_token_id)
        self.pad_id = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.end_id)
        controls = sorted(
            {token.content for token in tokenizer.added_tokens_decoder.values() if len(token.content) > 1},
            key=len,
            reverse=True,
        )
        self._controls = re.compile("|".join(map(re.escape, controls))) if controls else None
        self._check_tools()

    def prompt_ids(self, messages: Sequence[Mapping[str, str]], tools: Sequence[Mapping[str, Any]]) -> list[int]:
        """Tokens from the start to where the model's first turn begins. Control tokens in the content are defused."""
        safe = [{**message, "content": self.defuse(message["content"])} for message in messages]
        return self._tokens(self._render(safe, tools, opened=True))

    def results_ids(self, texts: Sequence[str]) -> list[int]:
        """Tokens that follow the model's end token: the tool results and the opening of its next turn."""
        return self._tokens(self._after_turn([self.defuse_json(text) for text in texts]))

    def text_ids(self, text: str) -> list[int]:
        """Tokens of a turn that a script plays, its end token included."""
        return [*self._tokens(text), self.end_id]

    def text_of(self, ids: Sequence[int]) -> str:
        """The text of a sampled turn without its end token."""
        kept = list(ids[:-1]) if ids and ids[-1] == self.end_id else list(ids)
        return str(self.tokenizer.decode(kept, skip_special_tokens=False))

    def defuse(self, text: str) -> str:
        """Plain text with the first character of each control token replaced by its full-width twin."""
        if self._controls is None:
            return text
        return self._controls.sub(lambda match: _wide(match[0][0]) + match[0][1:], text)

    def defuse_json(self, text: str) -> str:
        """JSON text with the first character of each control token escaped: the value stays the same."""
        if self._controls is None:
            return text
        return self._controls.sub(lambda match: f"\\u{ord(match[0][0]):04x}" + match[0][1:], text)

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _render(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], opened: bool) -> str:
        try:
            text = self.tokenizer.apply_chat_template(
                list(messages), tools=list(tools) or None, add_generation_prompt=opened, tokenize=False
            )
        except jinja2.TemplateError as error:  # a syntax error, or the template's own raise_exception
            raise TemplateError(
                f"the chat template cannot render a conversation with tools: {error}; "
                "set tokenizer.chat_template to a template that renders tools and messages of role 'tool'"
            ) from error
        return str(text)

    def _after_turn(self, texts: Sequence[str]) -> str:
        opening: list[dict[str, Any]] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": PROBE}]
        results = [{"role": "tool", "content": text} for text in texts]
        whole = self._render([*opening, *results], [PROBE_TOOL], opened=True)
        _, found, rest = whole.partition(PROBE)
        end = self.tokenizer.decode([self.end_id])
        if not found or not rest.startswith(end):
            raise TemplateError(
                f"the chat template does not close an assistant's turn with {end!r}; set eos_token to it"
            )
        return rest[len(end) :]

    def _check_tools(self) -> None:
        shown = self._render([{"role": "user", "content": "hi"}], [PROBE_TOOL], opened=True)
        if "probe_tool" not in shown or "probe_key" not in shown:
            raise TemplateError(
                "the chat template does not render tools; use a model that was made for tool calls or set "
                "tokenizer.chat_template to a template with tools"
            )
        result = json.dumps({"status": "success", "data": PROBE}, ensure_ascii=False)
        if PROBE not in self._after_turn([result]):
            raise TemplateError("the chat template drops messages of role 'tool'; set a template that renders them")


def _wide(char: str) -> str:
    """The full-width twin of a printable ASCII character; others get a space in front."""
    return chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else " " + char

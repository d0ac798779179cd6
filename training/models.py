"""Loads a policy from a folder: weights, tokenizer, chat format."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from training.chat import ChatFormat


def quiet() -> None:
    """No bars for loading and saving weights, no notices of future renamings inside transformers and trl."""
    disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    warnings.filterwarnings("ignore", category=FutureWarning, module="trl")


class ModelError(ValueError):
    """The model cannot be loaded; the message says what is missing."""


def load_chat(path: str) -> ChatFormat:
    """Tokenizer and chat format only: cheap, so that preflight can refuse before the weights load."""
    folder = Path(path)
    if folder.exists() and not (folder / "config.json").is_file():
        raise ModelError(f"{path}: no config.json; expected a folder written by save_pretrained")
    if not folder.exists() and path.count("/") != 1:
        raise ModelError(f"{path}: no such folder, and not a hub name of the form owner/name")
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: the tokenizer cannot be loaded: {str(error).splitlines()[0]}") from error
    return ChatFormat(tokenizer)


def load_model(path: str, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    """The weights, in eval mode, on the CPU."""
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path}: the weights cannot be loaded: {str(error).splitlines()[0]}") from error
    return model.eval()

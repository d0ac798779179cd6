"""The entry point for reward code in AgentArts' shape: one function that takes the payload and returns a number."""

from __future__ import annotations

from rewards.seed_compat import score_payload


def cal_reward(payload: str) -> float:
    """Score a payload, the JSON text of {"input", "reference_output", "trajectory"}, as AgentArts' example does.

    Never raises; see `rewards.seed_compat` for the rules and for what can be had from them.
    """
    return score_payload(payload)

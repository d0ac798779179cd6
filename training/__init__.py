"""Everything that needs torch: chat format, rollouts, SFT, GRPO. Nothing below this room imports it."""

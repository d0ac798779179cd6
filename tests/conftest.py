"""What every test run has in common: no hub, no chance. Slow tests run too, unless `-m "not slow"` leaves them out."""

import os
import random
import sys

import pytest
from hypothesis import settings

# Before transformers is imported, which reads it once; else a missing file waits for a network that is not there.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

# The same examples in every run; no deadline, as a busy machine is not a failure.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def seeded() -> None:
    """The global random states, for code that forgets to take its own. torch only where the test has imported it."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)

"""Try in a child process what might crash: some machines promise instructions that they do not have."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

PATIENCE = 120.0

BF16 = """
import torch
layer = torch.nn.Linear(64, 64)
with torch.autocast("cpu", torch.bfloat16):
    loss = layer(torch.ones(64, 64)).float().sum()
loss.backward()
"""


@cache
def survives(code: str) -> bool:
    """Whether Python code runs to its end on this machine; a crash stays in the child process."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0

"""A plan of a comparison that is small enough for a test."""

from __future__ import annotations

from powerbert.studies.contenders import Sizes
from powerbert.studies.pareto import ParetoPlan

SHORT = {"epochs": 1, "batch_size": 16, "accumulation": 1, "learning_rate": 1e-3}
FEW = Sizes(budgets=(0.7, 0.5, 0.01), depths=(0.5,), heads=(0.5,), cuts=(0.6,))
PLAN = ParetoPlan(sizes=FEW, engines=(("torch", "fp32"),), inputs=8, rounds=2)

"""How long an acceleration will take: said before it starts, from a step of training on the user's own rows."""

import statistics
import time
from typing import Any

import torch

from powerbert.machine.describe import choose_threads, duration
from powerbert.modeling.apply import remove, unpad
from powerbert.modeling.ops import fast_dropout
from powerbert.text.batches import Collator, length_order
from powerbert.training.data import EncodedData
from powerbert.training.ladder import all_rungs, depth_of, depths_of
from powerbert.training.options import AccelerateOptions
from powerbert.training.runner import attends_to_all, possible_precision
from powerbert.training.shapes import work
from powerbert.training.trainer import FORWARD

TIMED_ROWS = 16  # of the step that is timed
ENGINES_TAKE = 16.0  # seconds for each encoder: to trace it three times, to quantise it, and to measure all engines


def plan(encoded: EncodedData, network: Any, tokenizer: Any, options: AccelerateOptions, *, headed: bool) -> list[str]:
    """A line for each stage with its time, and one for all of them."""
    threads, _ = choose_threads(options.threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        rate = tokens_per_second(encoded, network, tokenizer, possible_precision(options.precision))
    finally:
        torch.set_num_threads(before)
    lengths = encoded.splits["train"]["length"][:]
    tokens, fine_tuning = sum(lengths), options.fine_tuning(len(lengths))
    encoders = int(network.config.num_hidden_layers)
    stages = {"fine-tune the original model": 0.0 if headed else fine_tuning.epochs * tokens / rate}
    for depth in depths_of(encoders):
        shares = [work(each.fractions) for each in all_rungs(encoders, depth)]
        epochs = options.retraining_epochs * sum(shares) / len(shares) + 1 / FORWARD
        if_needed = " if those of fewer do not keep the goal" if depth == depth_of(encoders) else ""
        stages[f"re-train for {len(shares)} configurations of {depth} encoders{if_needed}"] = epochs * tokens / rate
    stages["find the fastest engine and judge"] = ENGINES_TAKE * encoders
    lines = [f"{name}: about {duration(each)}" for name, each in stages.items() if each]
    speed = f"{rate:,.0f} tokens a second on {threads} thread{'s' * (threads > 1)}"
    return [*lines, f"in all at most about {duration(sum(stages.values()))}, with {speed} and a quiet machine"]


def tokens_per_second(encoded: EncodedData, network: Any, tokenizer: Any, precision: str) -> float:
    """Real tokens that one step of training gets through in a second; the model is left as it was."""
    rows = encoded.splits["train"]
    order = length_order(rows["length"][:])
    middle = order[max(0, (len(order) - TIMED_ROWS) // 2) :][:TIMED_ROWS]  # like lengths, as in training
    batch, seconds = Collator(tokenizer)([rows[i] for i in middle]), []
    unpad(network.train())
    attends_to_all(network, statistics.mean(rows["length"][:]))
    with fast_dropout(network):
        for _ in range(3):  # the first one is slower than all others
            start = time.perf_counter()
            with torch.autocast(network.device.type, torch.bfloat16, enabled=precision == "bf16"):
                loss = network(**batch).loss
            loss.backward()
            seconds.append(time.perf_counter() - start)
    network.zero_grad(set_to_none=True)
    remove(network.eval())
    return float(batch["attention_mask"].sum()) / min(seconds)

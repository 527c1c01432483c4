"""Find the cheapest exact way to score, select and mix: one self-attention with elimination, several ways.

    OMP_NUM_THREADS=2 python benchmarks/significance_speed.py

Every way gets queries, keys and values and gives the values mixed for the retained rows. Arms run in turn;
the figure is the median over the rounds of the milliseconds, and `untouched` is the fused kernel over all
rows without scores: what an encoder that eliminates nothing pays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from powerbert.elimination.extract import extract, extract_queries
from powerbert.elimination.selection import select, significance
from powerbert.machine.describe import machine
from powerbert.machine.measure import interleave

HEADS, HEAD = 12, 64
SHAPES = ((1, 128), (8, 128), (32, 128), (1, 256), (8, 256), (1, 512), (8, 512))
BLOCK = 1 << 20
"""Bytes of probabilities that one core's cache holds beside the rest."""

Way = Callable[[Tensor, Tensor, Tensor, int], Tensor]


def untouched(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """Nothing scored, nothing eliminated."""
    return scaled_dot_product_attention(query, key, value)


def explicit(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """All probabilities at once; the retained rows of them mix the values."""
    probabilities = _softmax(query.flatten(0, 1), key.flatten(0, 1)).view(*query.shape[:3], -1)
    index = _choose(significance(probabilities), count)
    rows = extract_queries(probabilities, index)
    return (rows.flatten(0, 1) @ value.flatten(0, 1)).view(*rows.shape[:3], -1)


def by_input(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """As `explicit`, for a few inputs at a time whose probabilities stay in the cache."""
    step = max(1, BLOCK // (4 * query.shape[1] * query.shape[2] ** 2))
    parts = zip(query.split(step), key.split(step), value.split(step), strict=True)
    return torch.cat([explicit(*part, count) for part in parts])


def beside(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """All probabilities for the scores alone; the fused kernel for the retained rows."""
    probabilities = _softmax(query.flatten(0, 1), key.flatten(0, 1)).view(*query.shape[:3], -1)
    return _fused(query, key, value, _choose(significance(probabilities), count))


def blocks(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """Column sums from probabilities of a few heads at a time, which stay in the cache; then as `beside`."""
    batch, heads, length, _ = query.shape
    step = max(1, BLOCK // (4 * length * length))
    flat = zip(query.flatten(0, 1).split(step), key.flatten(0, 1).split(step), strict=True)
    sums = torch.cat([_softmax(q, k).sum(dim=1) for q, k in flat])
    return _fused(query, key, value, _choose(sums.view(batch, heads, length).sum(dim=1), count))


def by_head(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """Column sums of one head of every input after the other; then as `beside`."""
    sums = sum(_softmax(q, k).sum(dim=1) for q, k in zip(query.unbind(1), key.unbind(1), strict=True))
    assert isinstance(sums, Tensor)
    return _fused(query, key, value, _choose(sums, count))


def _softmax(query: Tensor, key: Tensor) -> Tensor:
    """(n, length, head) twice -> (n, length, length)."""
    scale = query.shape[-1] ** -0.5
    products = torch.baddbmm(query.new_empty(()), query, key.transpose(1, 2), beta=0, alpha=scale)
    return products.softmax(dim=-1)


def _sums(query: Tensor, key: Tensor) -> Tensor:
    return _softmax(query.flatten(0, 1), key.flatten(0, 1)).view(*query.shape[:3], -1).sum(dim=(1, 2))


_compiled_sums = torch.compile(_sums, dynamic=True)


def compiled(query: Tensor, key: Tensor, value: Tensor, count: int) -> Tensor:
    """Column sums by a kernel that torch.compile fuses; then as `beside`."""
    return _fused(query, key, value, _choose(_compiled_sums(query, key), count))


def _choose(scores: Tensor, count: int) -> Tensor:
    lengths = torch.full((len(scores),), scores.shape[1])
    return select(scores, lengths, torch.full_like(lengths, count), count)


def _fused(query: Tensor, key: Tensor, value: Tensor, index: Tensor) -> Tensor:
    asking = extract(query.transpose(1, 2), index).transpose(1, 2)
    return scaled_dot_product_attention(asking, key, value)


WAYS: dict[str, Way] = {way.__name__: way for way in (untouched, explicit, by_input, beside, blocks, by_head, compiled)}


@torch.inference_mode()
def main() -> None:
    """Measure every way at every shape, check that they agree, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--retained", type=float, default=0.7, help="share of the rows")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="the first so many of them")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = []
    for batch, length in SHAPES[: given.shapes]:
        torch.manual_seed(0)
        # As an encoder has them: heads split off the hidden size, not copied.
        heads = [torch.randn(batch, length, HEADS, HEAD).transpose(1, 2) for _ in range(3)]
        count = round(given.retained * length)
        answers = {name: way(*heads, count) for name, way in WAYS.items() if name != "untouched"}
        for name, answer in answers.items():
            torch.testing.assert_close(answer, answers["explicit"], atol=1e-5, rtol=0, msg=name)
        arms = {name: partial(way, *heads, count) for name, way in WAYS.items()}
        timings = interleave(arms, given.rounds)
        found.append({"shape": f"{batch} x {length}"} | {n: 1e3 * t.median for n, t in timings.items()})
    if given.json:
        print(json.dumps({"machine": machine(), "threads": torch.get_num_threads(), "ms": found}, indent=1))
        return
    print("| batch x length | " + " | ".join(WAYS) + " |\n" + "|---" * (len(WAYS) + 1) + "|")
    for row in found:
        print(f"| {row['shape']} | " + " | ".join(f"{row[name]:.2f}" for name in WAYS) + " |")


if __name__ == "__main__":
    main()

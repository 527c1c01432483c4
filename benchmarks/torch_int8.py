"""Does int8 pay in torch? Linear layers in fp32 on packed weights and in int8, beside the other engines.

    python benchmarks/torch_int8.py

One core, CPU time, GFLOP/s; the arms of a shape run in turn. `dynamic` is torch's own dynamic quantisation
(a scale for the whole batch), `per word-vector` the same kernel with a scale for each word-vector, which is
what keeps an answer independent of its batch.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from powerbert.machine.verdicts import probe
from powerbert.modeling.packing import PackedLinear

SHAPES = ((256, 768, 3072), (256, 3072, 768), (16, 768, 768), (1, 768, 3072), (256, 384, 1536))
ROUNDS = 25


@torch.inference_mode()
def main() -> None:
    """Print a Markdown table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # torch moves its quantisation to torchao
    print("| rows x in x out | fp32, packed | dynamic | per word-vector |\n|---|---|---|---|")
    for rows, inner, outer in SHAPES:
        found = gflops(arms(torch.randn(rows, inner), nn.Linear(inner, outer)), 2 * rows * inner * outer)
        print(f"| {rows} x {inner} x {outer} | " + " | ".join(f"{figure:.0f}" for figure in found) + " |")
    for engine in ("onnx", "openvino"):
        print(f"{engine} int8, 256 x 768 x 3072: {probe(engine, 'int8').gflops:.0f}")


def arms(words: Tensor, layer: nn.Linear) -> list[Callable[[], object]]:
    """The three ways to compute the layer."""
    torch.backends.quantized.engine = "onednn"
    dynamic = torch.ao.quantization.quantize_dynamic(nn.Sequential(layer), {nn.Linear}, dtype=torch.qint8)
    scale = layer.weight.abs().amax(dim=1) / 127
    integers = (layer.weight / scale[:, None]).round().to(torch.int8)
    packed, zeros = (torch.ops.onednn.qlinear_prepack(integers, None), torch.zeros(len(scale), dtype=torch.int64))

    def per_word_vector() -> Tensor:
        largest = words.abs().amax(dim=1, keepdim=True)
        units = (words * (127 / largest)).round_().add_(128).to(torch.uint8)
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            units, 1 / 127, 128, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product.mul_(largest).add_(layer.bias)

    plain = PackedLinear(layer)
    return [lambda: plain(words), lambda: dynamic(words), per_word_vector]


def gflops(calls: list[Callable[[], object]], flop: int) -> list[float]:
    """The median of the rounds for each call."""
    seconds: list[list[float]] = [[] for _ in calls]
    for turn in range(ROUNDS + 2):
        for call, found in zip(calls, seconds, strict=True):
            start = time.process_time()
            call()
            if turn >= 2:
                found.append(time.process_time() - start)
    return [flop / statistics.median(found) / 1e9 for found in seconds]


if __name__ == "__main__":
    main()

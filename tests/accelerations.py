"""Figures as `accelerate` writes them to report.json, for the tests of its page."""

from __future__ import annotations

from typing import Any

from powerbert.retention import RetentionConfiguration

SHARES = (0.92, 0.84, 0.71, 0.6, 0.46, 0.33, 0.21, 0.12, 0.05, 0, 0, 0)
MACHINE = {
    "processor": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz",
    "cores": 2,
    "isa": ["avx2", "avx512f", "avx512_vnni"],
    "memory_gb": 7.8,
    "system": "Linux-6.1.0-x86_64-with-glibc2.36",
    "python": "3.11.2",
    "versions": {"powerbert": "0.1.0", "torch": "2.7.1", "onnxruntime": "1.31.0", "openvino": "2026.4.0"},
    "onednn_max_cpu_isa": "AVX512_CORE_BF16",
}


def example(text: str, before: str, after: str, truth: str | None, depth: int = 9) -> dict[str, Any]:
    """Words of which the longer survive deeper; [CLS] survives to the end."""
    shown = [{"text": word, "last": min(depth, max(0, 2 * len(word) - 4))} for word in text.split()]
    words = [{"text": "[CLS]", "last": depth, "special": True}, *shown, {"text": "[SEP]", "last": 2, "special": True}]
    answers = {"before": {"label": before, "score": 0.913}, "after": {"label": after, "score": 0.584}}
    return {"words": words, "encoders": len(SHARES), "truth": truth} | answers


def tried() -> list[dict[str, Any]]:
    """Three ways, in four to six sizes each; one fails far below all others."""
    sizes = {
        "sensitivity": (0.2, 0.3, 0.4, 0.5, 0.6, 0.8),
        "re-trained": (0.25, 0.3, 0.36, 0.45),
        "first k": (0.3, 0.6),
    }
    drop = {"sensitivity": 3.0, "re-trained": 0.55, "first k": 1.5}
    found = [
        {"name": f"{way}, {work:.0%}", "retention": ",".join(f"{share:g}" for share in SHARES), "work": work}
        | {"value": 0.872 - drop[way] * (1 - work) ** 3 / 100, "loss": drop[way] * (1 - work) ** 3}
        | {"expected": 7.125 + work}
        | {"ms": 1.1 + 10.4 * work, "chosen": way == "re-trained" and work == 0.36}
        for way, works in sizes.items()
        for work in works
    ]
    return [*found, found[0] | {"name": "sensitivity, 10%", "value": 0.61, "loss": 26.2, "work": 0.1, "ms": 2.1}]


def acceleration_figures() -> dict[str, Any]:
    """All of them, none missing."""
    return {
        "version": "0.1.0",
        "seed": 42,
        "machine": MACHINE,
        "goal": {"kind": "max-loss", "value": 1.0, "text": "lose at most 1 point of F1"},
        "verdict": {
            "met": True,
            "text": "The model is 2.73 times as fast and loses 0.18 points of F1 on rows that no choice has seen.",
            "metric": "F1",
            "loss": 0.18,
            "interval": [-1.21, 1.64],
            "p_value": 0.7432,
            "agreement": 0.9657,
            "rows": 1204,
            "labelled": True,
            "speedup": 2.73,
        },
        "original": {"value": 0.8721, "interval": [0.831, 0.907], "ms": 11.52, "engine": "openvino"}
        | {"precision": "int8", "work": 1.0},
        "accelerated": {"value": 0.8703, "interval": [0.829, 0.9061], "ms": 4.22, "engine": "openvino"}
        | {"precision": "int8", "work": 0.3533, "folder": "runs/mrpc/accelerated"}
        | {"retention": RetentionConfiguration.relative(SHARES).to_json()},
        "speed": [
            {"precision": "fp32", "against": "best full model, sorted", "ratio": 2.61}
            | {"arm": "openvino fp32, batch 32", "baseline": "onnx fp32, batch 8"},
            {"precision": "int8", "against": "best full model, sorted", "ratio": 2.73}
            | {"arm": "openvino int8, batch 32", "baseline": "openvino int8, batch 32"},
        ],
        "parts": {"train": 3668, "choosing": 204, "verdict": 1204, "how": "dev was split in two halves by its seed"},
        "tried": tried(),
        "tried_on": {"value": 0.8721, "ms": 11.52},
        "engines": [
            {"engine": "torch", "precision": "fp32", "ms": 14.91, "agreement": 1.0, "note": ""},
            {"engine": "openvino", "precision": "int8", "ms": 4.22, "agreement": 0.9951, "note": "chosen"},
            {"engine": "onnx", "precision": "int8", "ms": None, "agreement": None, "note": "not installed"},
        ],
        "time": {
            "before": [0.91, 0.92, 0.9, 0.91, 0.93, 0.9, 0.91, 0.91, 0.92, 0.9, 0.91, 0.9],
            "after": [0.87, 0.78, 0.66, 0.57, 0.45, 0.34, 0.24, 0.16, 0.09, 0, 0, 0],
            "rest": 0.31,
        },
        "by_length": [
            {"from": 3, "to": 31, "rows": 311, "agreement": 0.9421},
            {"from": 32, "to": 47, "rows": 406, "agreement": 0.9704},
            {"from": 48, "to": 128, "rows": 487, "agreement": 0.9877},
        ],
        "examples": [
            example(
                "A warm and quietly funny film about people who never say what they mean .", "good", "good", "good"
            ),
            example("The plot is not without charm but nobody involved seems awake .", "bad", "good", "bad"),
        ],
        "costs": [
            {"stage": "search", "tokens": 410_112, "seconds": 96.0, "fine_tunings": 0.31},
            {"stage": "re-training", "tokens": 2_104_320, "seconds": 611.0, "fine_tunings": 1.22},
        ],
        "commands": [
            "powerbert accelerate --model classifier --task mrpc --data data --max-loss 1.0 --output runs/mrpc"
        ],
    }

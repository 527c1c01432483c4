"""Write a BERT-base, or an ALBERT-base, with random weights and a retention configuration, to measure speed on.

    python benchmarks/random_bert.py --tokenizer ../shared/models/gte-small --output base \\
        --retention 80,73,70,50,50,40,33,27,20,15,13,3 --max-length 128

Speed does not depend on the weights; `--albert` shares one set of them among the 12 encoders. `--scale-to 512` scales
counts for N to another N, as fractions do.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from transformers import (
    AlbertConfig,
    AlbertForSequenceClassification,
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
)

import powerbert
from powerbert import RetentionConfiguration


def main() -> None:
    """Build, apply, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--retention", required=True)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--scale-to", type=int)
    parser.add_argument("--albert", action="store_true")
    given = parser.parse_args()
    retention = RetentionConfiguration.parse(given.retention, max_length=given.max_length)
    if given.scale_to is not None:
        factor = given.scale_to / given.max_length
        counts = [round(factor * count) for count in retention.values]
        retention = RetentionConfiguration.absolute(counts, given.scale_to)
    torch.manual_seed(0)
    if given.albert:  # the configuration's defaults are ALBERT-xxlarge
        config = AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072, num_labels=2)
        model: torch.nn.Module = AlbertForSequenceClassification(config)
    else:
        model = BertForSequenceClassification(BertConfig(num_labels=2))
    tokenizer = AutoTokenizer.from_pretrained(given.tokenizer)
    powerbert.save(powerbert.apply(model.eval(), retention), tokenizer, given.output)


if __name__ == "__main__":
    main()

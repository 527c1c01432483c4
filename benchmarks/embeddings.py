"""Embeddings and tagging with elimination and without any training: what is kept, and what is gained.

    OMP_NUM_THREADS=1 python benchmarks/embeddings.py --model ../shared/models/gte-small --data ../shared/data --json F

The model is a bare encoder. Each measure is taken at full retention and at linear falls to some shares of the work:

- STS-B dev: Spearman's correlation of the cosines of mean-pooled vectors with what people said.
- RACE dev: a question with its right option finds its own article among others of 256 word pieces and more, by
  cosine: MRR. Beside it, articles cut to that share of their word pieces, in the full model.
- Tagging, which has no data set here: of IMDB reviews, read in lower case, which words inside a sentence the author
  capitalised (names, mostly). A linear probe on the vectors of first word pieces, trained on other reviews; F1.

A mean is over all words, eliminated ones restored with the last state they had (what a base model gives, and so
`SentenceTransformer.encode`), or over those alone that the last encoder retained. Times are of
`SentenceTransformer.encode`, in torch, all arms in turn.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import statistics
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch import Tensor

from powerbert.folders.atomic import write_file
from powerbert.machine.describe import Watch, machine
from powerbert.machine.measure import interleave, ratio
from powerbert.modeling.apply import apply, base_of, encoders_of
from powerbert.retention import RetentionConfiguration
from powerbert.tasks.encoding import question_and_option
from powerbert.text.batches import collate, plan_batches
from powerbert.text.tokenise import Tokenised, tokenise
from powerbert.training.shapes import linear

SHARES, FULL = (0.85, 0.7, 0.5, 0.35), "full"
LONGEST, LEAST, TAGGED = 512, 256, 256  # word pieces of a text, of an article at least, of a review that is tagged
POOLED = ("restored", "retained alone")

Vectors = NDArray[numpy.float32]
Named = dict[str, RetentionConfiguration]


class Encoder(NamedTuple):
    """The model as sentence-transformers opens it, and the base model and tokenizer inside."""

    whole: SentenceTransformer
    base: Any
    tokenizer: Any


def main() -> None:
    """Take every measure, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, help="bare encoder")
    parser.add_argument("--data", type=Path, required=True, help="folder with STS-B, RACE and IMDB")
    parser.add_argument("--pairs", type=int, default=1_500, help="of STS-B")
    parser.add_argument("--articles", type=int, default=300, help="of RACE, and as many questions")
    parser.add_argument("--reviews", type=int, default=250, help="of IMDB to train the probe on; 6 in 10 as many judge")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    watch, whole = Watch(), SentenceTransformer(str(asked.model), device="cpu")
    whole.max_seq_length = LONGEST
    encoder = Encoder(whole, base_of(whole[0].model), whole.tokenizer)
    encoders = encoders_of(encoder.base)
    named = {FULL: RetentionConfiguration.full(encoders)} | {str(share): linear(encoders, share) for share in SHARES}
    figures: dict[str, Any] = {"machine": machine(), "threads": torch.get_num_threads(), "seed": asked.seed}
    figures |= {"configurations": {name: str(retention) for name, retention in named.items()}}
    for name, measure in (("sts-b", similarity), ("race", retrieval), ("tagging", tagging)):
        figures[name] = measure(asked, encoder, named)
        print(f"{name}: {json.dumps(figures[name])}", file=sys.stderr)
    figures["warning"] = watch.warning()
    print(json.dumps(figures, indent=1))
    if asked.json:
        write_file(asked.json, (json.dumps(figures, indent=1) + "\n").encode())


# ---- what is measured --------------------------------------------------------------------


def similarity(asked: argparse.Namespace, encoder: Encoder, named: Named) -> dict[str, Any]:
    """Spearman of STS-B's dev pairs, and the time of sentences."""
    pairs = list(rows_of(asked, "STS-B", "dev"))[: asked.pairs]
    texts, gold = [row[side] for side in ("text_a", "text_b") for row in pairs], [row["label"] for row in pairs]
    found = {}
    for name, retention in named.items():
        pooled = mean_vectors(encoder, retention, texts)
        halves = {how: (unit(each)[: len(pairs)], unit(each)[len(pairs) :]) for how, each in pooled.items()}
        found[name] = {how: float(spearmanr((a * b).sum(axis=1), gold)[0]) for how, (a, b) in halves.items()}
    same = encoder.whole.encode(texts[:8])  # still the last configuration
    numpy.testing.assert_allclose(same, pooled[POOLED[0]][:8], atol=1e-4)
    timed = texts[:128]
    return about(encoder, timed) | {"pairs": len(pairs), "spearman": found, **times(asked, encoder, named, timed)}


def retrieval(asked: argparse.Namespace, encoder: Encoder, named: Named) -> dict[str, Any]:
    """MRR of questions among long articles, and the time of articles, also of cut ones."""
    questions = articles_and_questions(asked, encoder.tokenizer)
    articles, asks = list(questions), list(questions.values())
    found: dict[str, dict[str, float]] = {}
    full_asks = mean_vectors(encoder, named[FULL], asks)[POOLED[0]]
    for name, retention in named.items():
        vectors, queries = (mean_vectors(encoder, retention, texts) for texts in (articles, asks))
        found[name] = {how: reciprocal_rank(queries[how], vectors[how]) for how in POOLED}
        if name != FULL:
            found[name]["full queries, restored articles"] = reciprocal_rank(full_asks, vectors[POOLED[0]])
            cut = [cut_to(encoder, article, float(name)) for article in articles]
            shorter = mean_vectors(encoder, named[FULL], cut)[POOLED[0]]
            found[name]["articles cut, full model"] = reciprocal_rank(full_asks, shorter)
    timed = articles[:8]
    figures = {"articles": len(articles), "mrr": found, **times(asked, encoder, named, timed, cut=True)}
    return about(encoder, timed) | figures


def tagging(asked: argparse.Namespace, encoder: Encoder, named: Named) -> dict[str, Any]:
    """F1 of the words that were capitalised: of the full model's probe, and of one trained at the configuration."""
    reviews = [row["text"] for row in rows_of(asked, "IMDB", "train")]
    random.Random(asked.seed).shuffle(reviews)
    train, test = reviews[: asked.reviews], reviews[asked.reviews : asked.reviews + asked.reviews * 6 // 10]
    found, first, sizes = {}, None, {}
    for name, retention in named.items():
        (x, y), (seen, truth) = (tagged(encoder, retention, texts) for texts in (train, test))
        own = LogisticRegression(max_iter=300).fit(x, y)
        first = first or own
        sizes = {"words_trained": len(y), "words_judged": len(truth), "capitalised": float(truth.mean())}
        probes = {"probe of the full model": first, "probe of its own": own}
        found[name] = {which: float(f1_score(truth, probe.predict(seen))) for which, probe in probes.items()}
    timed = test[:8]
    return about(encoder, timed) | {**sizes, "f1": found, **times(asked, encoder, named, timed)}


def times(
    asked: argparse.Namespace, encoder: Encoder, named: Named, texts: list[str], *, cut: bool = False
) -> dict[str, Any]:
    """How many times as fast as at full retention the same texts are encoded; cut: also in the full model, cut."""
    arms: dict[str, Callable[[], object]] = {
        name: partial(encoded, encoder, retention, texts) for name, retention in named.items()
    }
    for share in SHARES if cut else ():
        shorter = [cut_to(encoder, text, share) for text in texts]
        arms[f"cut to {share}"] = partial(encoded, encoder, named[FULL], shorter)
    timings = interleave(arms, asked.rounds)
    return {
        "times_as_fast": {name: ratio(timings[FULL], each) for name, each in timings.items() if name != FULL},
        "seconds": {name: each.median for name, each in timings.items()},
        "spread": {name: each.spread for name, each in timings.items()},
    }


# ---- texts to vectors --------------------------------------------------------------------


def encoded(encoder: Encoder, retention: RetentionConfiguration, texts: list[str]) -> Vectors:
    """What `SentenceTransformer.encode` makes of texts with elimination in the model."""
    apply(encoder.base, retention)
    found: Vectors = encoder.whole.encode(texts, batch_size=32)
    return found


def mean_vectors(encoder: Encoder, retention: RetentionConfiguration, texts: list[str]) -> dict[str, Vectors]:
    """The vectors (texts, hidden) of both means."""
    made = tokenise(encoder.tokenizer, texts, LONGEST)
    found = {how: numpy.empty((len(texts), encoder.base.config.hidden_size), numpy.float32) for how in POOLED}
    for batch, mask, output in outputs(encoder, retention, made):
        rows, (places, counts) = output.last_hidden_state, output.retained[-1]
        kept = torch.take_along_dim(rows, places[..., None], dim=1)
        alone = torch.arange(places.shape[1]) < counts[:, None]
        for how, mean in zip(POOLED, (mean_of(rows, mask), mean_of(kept, alone)), strict=True):
            found[how][batch] = mean.numpy()
    return found


def tagged(encoder: Encoder, retention: RetentionConfiguration, texts: list[str]) -> tuple[Vectors, NDArray[Any]]:
    """The vectors of first word pieces of words inside sentences, and whether the author capitalised them."""
    made = tokenise(encoder.tokenizer, texts, TAGGED)
    vectors, labels = [], []
    for batch, _, output in outputs(encoder, retention, made):
        for row, i in enumerate(batch):
            places = list(inner_words(made, i))
            vectors.append(output.last_hidden_state[row, [place for place, _ in places]].numpy())
            labels += [capital for _, capital in places]
    return numpy.concatenate(vectors), numpy.array(labels)


@torch.inference_mode()
def outputs(
    encoder: Encoder, retention: RetentionConfiguration, made: Tokenised
) -> Iterator[tuple[list[int], Tensor, Any]]:
    """Of each batch of like lengths the places of its texts, its mask, and what the base model gives."""
    model = apply(encoder.base, retention)
    for batch in plan_batches([len(row["input_ids"]) for row in made.rows]):
        padded = collate([made.rows[i] for i in batch], encoder.tokenizer.pad_token_id)
        inputs = {name: torch.from_numpy(rows) for name, rows in padded.items()}
        yield batch, inputs["attention_mask"], model(**inputs, output_retained=True)


def inner_words(made: Tokenised, text: int) -> Iterator[tuple[int, bool]]:
    """Of each word inside a sentence, but for I, the place of its first word piece and whether it is capitalised."""
    encoding, whole, before = made.encodings[text], str(made.texts[text]), None
    for place, word in enumerate(encoding.word_ids):
        start, end = encoding.offsets[place]
        if word is not None and word != before and whole[start:end].isalpha() and whole[start:end] not in ("I", "br"):
            earlier = whole[:start].rstrip()
            if earlier and (earlier[-1].isalnum() or earlier[-1] == ","):  # else a sentence may begin here
                yield place, whole[start].isupper()
        before = word


def cut_to(encoder: Encoder, text: str, share: float) -> str:
    """The beginning of a text that has this share of its word pieces."""
    (encoding,) = tokenise(encoder.tokenizer, [text], LONGEST).encodings
    ends = [end for _, end in encoding.offsets if end]
    return text[: ends[max(1, round(share * len(ends))) - 1]]


def mean_of(rows: Tensor, mask: Tensor) -> Tensor:
    """(batch, length, hidden) and (batch, length) -> (batch, hidden)."""
    weights = mask[..., None].float()
    return (rows * weights).sum(dim=1) / weights.sum(dim=1)


def unit(vectors: Vectors) -> Vectors:
    """Vectors of length 1."""
    found: Vectors = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def reciprocal_rank(queries: Vectors, articles: Vectors) -> float:
    """The mean over queries of one over the rank of the article of the same number."""
    cosines = unit(queries) @ unit(articles).T
    own = numpy.diag(cosines)[:, None]
    return float((1 / (1 + (cosines > own).sum(axis=1))).mean())


# ---- data --------------------------------------------------------------------------------


def rows_of(asked: argparse.Namespace, task: str, split: str) -> Iterator[dict[str, Any]]:
    """The rows of a file of JSON lines."""
    with gzip.open(asked.data / task / f"{split}.jsonl.gz", "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def articles_and_questions(asked: argparse.Namespace, tokenizer: Any) -> dict[str, str]:
    """Long articles of RACE's dev set, each with the first question about it and the right option."""
    rows, found = list(rows_of(asked, "RACE", "dev")), dict[str, str]()
    random.Random(asked.seed).shuffle(rows)
    for row in rows:
        known = row["article"] in found or len(found) == asked.articles
        if not known and len(tokenizer(row["article"])["input_ids"]) >= LEAST:
            found[row["article"]] = question_and_option(row["question"], row["options"][row["answer"]])
    return found


def about(encoder: Encoder, timed: list[str]) -> dict[str, Any]:
    """How many texts are timed, and how long they are."""
    lengths = [len(row["input_ids"]) for row in tokenise(encoder.tokenizer, timed, LONGEST).rows]
    return {"timed": len(timed), "mean_word_pieces": round(statistics.mean(lengths), 1)}


if __name__ == "__main__":
    main()

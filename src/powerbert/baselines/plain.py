"""The plain ways to be faster, with the same head and the same re-training: fewer encoders, and shorter texts.

Paper: Baseline methods
"""

import copy
import logging
from dataclasses import replace
from typing import Any

from datasets import Dataset

from powerbert.baselines.students import check_depth
from powerbert.baselines.taught import taught, train_taught
from powerbert.bench.arms import same_mean
from powerbert.errors import PowerBertError
from powerbert.modeling.apply import encoders_of
from powerbert.training.data import Data, encode_data
from powerbert.training.heads import fine_tuned
from powerbert.training.options import RetrainOptions
from powerbert.training.runner import Folder, StepResult, begin
from powerbert.training.shapes import first_encoders
from powerbert.training.steps import retrain

LEAST_TEXT = 2  # tokens of text that an input has at least, beside the special ones

logger = logging.getLogger("powerbert.training")


def first_k(
    model: Folder,
    data: Data,
    output: Folder,
    options: RetrainOptions | None = None,
    *,
    encoders: int,
    progress: bool = False,
) -> StepResult:
    """Re-train the first so many encoders of a fine-tuned model with its head, every word-vector retained in them."""
    network, _ = fine_tuned(model, data.task)
    check_depth(encoders, encoders_of(network))
    retention = first_encoders(encoders_of(network), encoders)
    return retrain(model, data, output, options, retention=retention, progress=progress)


def truncate(
    model: Folder,
    data: Data,
    output: Folder,
    options: RetrainOptions | None = None,
    *,
    share: float,
    progress: bool = False,
) -> StepResult:
    """Re-train a fine-tuned model on texts that are cut to this share of their words, on the average.

    N of the folder is the length they are cut to, so that it reads no more of any text. The teacher, which is the
    fine-tuned model, reads the whole texts.
    """
    network, tokenizer = fine_tuned(model, data.task)
    reader = copy.deepcopy(tokenizer)  # of whole texts; the other one will read N of the cut ones
    whole = encode_data(data, network, reader).splits["train"]
    options, cut = options or RetrainOptions(), replace(data, max_length=_longest(whole, share, tokenizer, data))
    width = network.config.hidden_size
    with begin("baselines.truncate", model, cut, output, options, width, progress=progress, share=share) as run:
        if run.finished:
            return run.result()
        rows = run.encode(network, tokenizer).splits["train"]
        train_taught(run, taught(run, network, reader, rows, whole))
        return run.finish()


def _longest(whole: Dataset, share: float, tokenizer: Any, data: Data) -> int:
    """The N at which the rows have this share of their word-vectors."""
    if not 0 < share < 1:
        raise PowerBertError("texts are cut to a share of their words", got=share, rule="between 0 and 1")
    least = tokenizer.num_special_tokens_to_add(pair=len(data.task.columns) > 1) + LEAST_TEXT
    longest = same_mean(whole["length"][:], share)
    if longest < least:
        what, rule = f"{share:g} of the words leaves no text", f"N is {longest}, and has to be {least} at least"
        raise PowerBertError(what, rule=rule, remedy="give a larger share")
    logger.info("%.0f %% of the words: texts are cut to N=%d", 100 * share, longest)
    return longest

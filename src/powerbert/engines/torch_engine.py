"""The torch engine: the model itself, on packed weights."""

import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase
from typing_extensions import override

from powerbert.engines.engine import Answer, Engine
from powerbert.folders.cross_encoder import activation_of
from powerbert.folders.manifest import Manifest, read_manifest
from powerbert.modeling.apply import base_of, encoders_of, replica, retention_of, unpad, with_retention
from powerbert.modeling.dial import Dial, dial_in
from powerbert.modeling.limits import CHOICE, SEQUENCE, check_classifier, eliminates, limits_of
from powerbert.modeling.packing import pack
from powerbert.modeling.storage import load
from powerbert.modeling.trace import by_input
from powerbert.retention import RetentionConfiguration
from powerbert.text.batches import Integers


class TorchEngine(Engine):
    """fp32 on packed weights, without PAD. `threads` is torch's own setting, for the whole process.

    It takes the model over; `with TorchEngine(model, tokenizer) as engine:` gives it back as it was. A
    multiple-choice model answers each choice as a row of its own, with one logit.
    """

    name = "torch"
    precisions = ("fp32",)
    precision = "fp32"

    def __init__(
        self,
        model: Any,
        tokenizer: PreTrainedTokenizerBase,
        *,
        unpadded: bool = True,
        packed: bool = True,
        dial: Dial | None = None,
    ) -> None:
        check_classifier(model, SEQUENCE, CHOICE)
        # Mode, packed layers and elimination are attributes of the modules; weights stay where they are.
        self._before = [(module, dict(vars(module))) for module in model.modules()]
        self.retention = retention_of(model)
        self.encoders = encoders_of(model)
        self.labels, self.limits = model.config.id2label, limits_of(model, tokenizer)
        self.problem_type, self.activation = model.config.problem_type, activation_of(model.config)
        self.model, self.tokenizer = unpad(model.eval(), unpadded), tokenizer
        if packed:
            pack(model)
        self.dial: Dial = dial or {}
        self._beside: dict[RetentionConfiguration, Self] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for module, attributes in self._before:
            vars(module).clear()
            vars(module).update(attributes)

    @classmethod
    def load(cls, folder: Path, precision: str | None, threads: int | None, manifest: Manifest | None = None) -> Self:
        """Load what `powerbert.save` wrote, or a plain transformers folder."""
        manifest = read_manifest(folder) if manifest is None else manifest
        model, tokenizer = load(folder, manifest=manifest)
        if threads is not None:
            torch.set_num_threads(threads)
        return cls(model, tokenizer, dial=dial_in(folder, manifest, retention_of(model)))

    @override
    def retaining(self, retention: RetentionConfiguration) -> Self:
        """A replica of the model on the same layers: threads may answer at several budgets at once."""
        if retention not in self._beside:
            beside = copy.copy(self)
            beside.model, beside.retention = with_retention(replica(self.model), retention), retention
            self._beside.setdefault(retention, beside)  # of two threads one wins, and the other's goes
        return self._beside[retention]

    @torch.inference_mode()
    def answer(self, inputs: dict[str, Integers], retained: bool) -> Answer:
        """Run the model in eager mode: its plan of a batch is exact."""
        batch = {name: torch.from_numpy(rows).to(self.model.device) for name, rows in inputs.items()}
        given = batch
        if type(self.model).__name__.endswith(CHOICE):
            given = {name: rows[:, None] for name, rows in batch.items()}
        logits = self.model(**given).logits.float().numpy(force=True)
        if not retained:
            return Answer(np.asarray(logits), None)
        places = base_of(self.model)(**batch, output_retained=True).retained if eliminates(self.model) else ()
        return Answer(np.asarray(logits), by_input(places, len(logits)))

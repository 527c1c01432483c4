"""A model with elimination as one ONNX graph in which batch and length are free.

The graph computes everything that depends on the input: how many word-vectors each input retains, from its
own real length by whole-number arithmetic, the width of the batch behind each encoder, the selection, and
where padding stands. It agrees with eager torch at every length, also at those never traced.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from powerbert.errors import ExportError, UnsupportedModelError, one_line, require
from powerbert.folders.safe import silenced
from powerbert.modeling.apply import base_of, elimination_of, replica, unpad, with_retention
from powerbert.modeling.dial import covering
from powerbert.modeling.limits import Limits, eliminates
from powerbert.retention import RetentionConfiguration

LOGITS, _RETAINED, RETENTION = "logits", "retained_{}", "retention"
"""Outputs: (batch, labels), and for encoder j (batch, width) positions, -1 behind those of an input."""


class Graph(nn.Module):
    """A classifier as a function from the inputs to logits and retained positions."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        token_type_ids: Tensor | None = None,
        retention: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Inputs are (batch, length) each, and `retention` is (encoders,); `outputs_of` names the outputs."""
        given = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        with _recording(self.model, retention) as recorded:
            logits = self.model(input_ids=input_ids, attention_mask=attention_mask, **given).logits
        retained = []
        for places, lengths in recorded:
            real = torch.arange(places.shape[1], device=places.device) < lengths[:, None]
            retained.append(torch.where(real, places, -1))
        return logits, *retained


def trace_graph(model: Any, limits: Limits, served: Sequence[RetentionConfiguration] = ()) -> Any:
    """Trace a classifier to a torch.onnx.ONNXProgram.

    served: configurations that run equally many encoders, instead of the model's own. If there are several, the graph
        takes the one to run as one more input, `RETENTION`: (encoders,) ten-thousandths.
    """
    require("onnxscript", "onnx")
    model.eval()
    if served:
        model = with_retention(replica(model), covering(served) if len(served) > 1 else served[0])
    elif not eliminates(model):
        # What the exporter makes of torch's own attention looks for rows of NaN between softmax and product, and no
        # engine fuses that: in the loop of this project a full model is 1.1 to 1.4 times as fast.
        model = unpad(replica(model))
    length = min(limits.longest, 7)
    if length < 2:
        raise UnsupportedModelError("a graph needs inputs of two words at least", got=limits.longest)
    # Batch and length of the example must differ, or the exporter takes them for one number.
    example = {name: torch.ones(length + 1, length, dtype=torch.long) for name in limits.inputs}
    free: dict[str, Any] = dict.fromkeys(example, dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC))
    more = {RETENTION: torch.tensor(served[0].values)} if len(served) > 1 else {}
    free |= dict.fromkeys(more)
    traced = one_line("the model cannot be traced", "export a model of a supported family", ExportError)
    with silenced(), traced, torch.no_grad(), _quiet():
        model(**example)  # what Rand-WS computes once and remembers must not be remembered from a trace
        program = torch.export.export(Graph(model), (), kwargs=example | more, dynamic_shapes=free)
        names: Any = {"input_names": list(free), "output_names": outputs_of(model)}
        onnx: Any = torch.onnx.export(program, **names, dynamo=True, verbose=False)
    _forget_sources(onnx.model)
    return onnx


def outputs_of(model: Any) -> list[str]:
    """Names of the outputs of the graph: logits, then the retained positions of each encoder."""
    elimination = elimination_of(model)
    encoders = elimination.retention.depth if elimination is not None and eliminates(model) else 0
    return [LOGITS, *(_RETAINED.format(j) for j in range(1, encoders + 1))]


@contextmanager
def _recording(model: Any, retention: Tensor | None) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """Collect the retained positions while the model runs; the head would not hand them on."""
    recorded: list[tuple[Tensor, Tensor]] = []
    handles: list[Any] = []

    def ask(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {**kwargs, "output_retained": True, "retention": retention}

    def collect(_: Any, __: Any, output: Any) -> None:
        recorded.extend(output.retained)

    if eliminates(model):
        base = base_of(model)
        handles = [base.register_forward_pre_hook(ask, with_kwargs=True), base.register_forward_hook(collect)]
    try:
        yield recorded
    finally:
        for handle in handles:
            handle.remove()


def _forget_sources(model: Any) -> None:
    """Take the exporter's notes out of a graph: they tell the paths of this machine."""
    model.graph.metadata_props.clear()
    for node in model.graph:
        node.metadata_props.clear()
        for value in node.outputs:
            value.metadata_props.clear()


@contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what the exporter tells about packages that nobody needs."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)

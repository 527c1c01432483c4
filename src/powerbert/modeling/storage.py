"""Save a model with its retention configuration, and load it back with elimination applied.

The folder is an ordinary transformers folder plus `powerbert.json`, which says what elimination it
carries and holds a sha256 of every other file. A plain `from_pretrained` of it gives the ordinary
model, without elimination. Exported graphs of the same model may lie in sub-folders: `load` does not
look at them, an engine does.
"""

import logging
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from powerbert.elimination.selection import STRATEGIES, Scoring
from powerbert.errors import ModelFolderError, UnsupportedModelError, one_line
from powerbert.folders.atomic import write_folder
from powerbert.folders.cross_encoder import adopt
from powerbert.folders.manifest import (
    MANIFEST,
    Manifest,
    check_graphs,
    check_replaceable,
    own_files,
    read_manifest,
    write_manifest,
)
from powerbert.folders.safe import read_model, read_tokenizer, silenced
from powerbert.modeling.apply import apply, elimination_of, retention_of
from powerbert.modeling.attention_heads import fewer_heads, heads_in, retain_heads, whole_state
from powerbert.modeling.dial import Dial, check_dial, dial_to_json
from powerbert.modeling.families import FAMILIES
from powerbert.modeling.limits import SEQUENCE, trained_length
from powerbert.modeling.retain import Elimination
from powerbert.retention import RetentionConfiguration

logger = logging.getLogger(__name__)


def save(
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    folder: str | Path,
    *,
    extra: Mapping[str, bytes] | None = None,
    graphs: Mapping[str, str | Path] | None = None,
    engine: str | None = None,
    dial: Dial | None = None,
) -> None:
    """Write model, tokenizer and retention configuration to `folder`, all of it or nothing.

    extra: other files by name, such as a model card; loading does not look at them.
    graphs: exported folders of this very model, by the name of the sub-folder to which each is copied.
    engine: the one of them that `pipeline` and `open_engine` open by default; None is torch.
    dial: other retention configurations, by budget, that these weights serve: `pipeline(folder, budget="2x")`.
    """
    adapted = getattr(model, "_hf_peft_config_loaded", False)  # save_pretrained would write the adapter alone
    if adapted or not isinstance(model, PreTrainedModel):
        what, got = "only a transformers model without adapters can be saved", type(model).__name__
        remedy = "merge adapters first, with merge_and_unload() of a PEFT model"
        raise UnsupportedModelError(what, got=got + " with an adapter" * adapted, remedy=remedy)
    elimination = elimination_to_json(elimination_of(model))
    sources = {name: Path(path) for name, path in (graphs or {}).items()}
    check_graphs(str(folder), sources, engine)
    check_dial(dial or {}, retention_of(model))
    budgets = dial_to_json(dial or {})
    for source in sources.values():
        _check_graph(source, elimination, budgets)

    def write(staging: Path) -> None:
        with silenced(), one_line(f"the model cannot be written to {folder}", "check the disk and try again"):
            model.save_pretrained(staging, state_dict=whole_state(model))
            tokenizer.save_pretrained(staging)
            for name, source in sources.items():
                (staging / name).mkdir()
                for own in own_files(source):
                    shutil.copyfile(source / own, staging / name / own)
        more: dict[str, Any] = {"graphs": sources, "engine": engine, "dial": budgets, "heads": fewer_heads(model)}
        write_manifest(staging, elimination, extra=extra or (), **more)
        for name, content in (extra or {}).items():
            with (staging / name).open("xb") as file:  # never over a file of the model's
                file.write(content)

    write_folder(folder, write, check_replaceable)


def _check_graph(source: Path, elimination: dict[str, Any] | None, budgets: list[dict[str, Any]]) -> None:
    """Refuse what is no whole export, or one of a model with another elimination or dial."""
    manifest = read_manifest(source)
    if manifest.export is None:
        raise ModelFolderError(f"{source} is not an exported model", rule="a graph is what export wrote")
    for what, found, own in (("elimination", manifest.elimination, elimination), ("dial", manifest.dial, budgets)):
        if found != own:
            rule, remedy = "all graphs of a folder are of one model", f"export this model with this {what}"
            raise ModelFolderError(f"{source} has another {what} than the model", rule=rule, remedy=remedy)


def load(folder: str | Path, *, manifest: Manifest | None = None) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load what `save` wrote, checked and with elimination applied; or a plain transformers folder.

    Only safetensors are read, no code of the folder runs, and every tensor must be there. `manifest` is what
    `read_manifest` gave for this very folder, where the caller has read it: every file is hashed for it.
    """
    folder = Path(folder)
    manifest = read_manifest(folder) if manifest is None else manifest
    if manifest.export is not None:
        what, rule = f"{folder} holds an exported model", "an engine runs it, torch cannot"
        remedy = "open it with powerbert.engines, or load the folder that it was exported from"
        raise ModelFolderError(what, rule=rule, remedy=remedy)
    settings = elimination_in(folder, manifest)
    model, tokenizer = read_model(folder, FAMILIES), read_tokenizer(folder)
    if manifest.heads:
        retain_heads(model, heads_in(folder, manifest, model))
    if type(model).__name__.endswith(SEQUENCE):
        adopt(folder, model.config)
    if (trained := trained_length(folder)) is not None:
        tokenizer.model_max_length = trained  # a text is answered as it was evaluated
    if settings is None:
        logger.info("%s carries no retention configuration: loaded as it is", folder)
    else:
        retention, strategy, scoring = settings
        apply(model, retention, strategy, scoring=scoring)
        logger.info("%s: elimination applied, %s, retention %s", folder, strategy, retention)
    return model, tokenizer


def elimination_to_json(elimination: Elimination | None) -> dict[str, Any] | None:
    """What powerbert.json says of elimination; `elimination_in` reads it."""
    if elimination is None:
        return None
    scoring = asdict(elimination.scoring)
    return {"retention": elimination.retention.to_json(), "strategy": elimination.strategy, "scoring": scoring}


def elimination_in(folder: Path, manifest: Manifest) -> tuple[RetentionConfiguration, str, Scoring] | None:
    """The elimination that a manifest describes: retention, strategy and scoring; None if there is none."""
    path, settings = folder / MANIFEST, manifest.elimination
    if settings is None:
        return None
    try:
        retention = RetentionConfiguration.from_json(settings["retention"])
        strategy, scoring = settings["strategy"], Scoring(**settings["scoring"])
    except (KeyError, TypeError, RecursionError) as error:
        raise ModelFolderError(f"{path} has an unknown elimination", got=settings) from error
    kinds = {name: type(value) for name, value in asdict(scoring).items()}
    if kinds != {name: type(value) for name, value in asdict(Scoring()).items()} or abs(scoring.seed) >> 63:
        raise ModelFolderError(f"{path} has unknown scoring options", got=settings["scoring"])
    if not isinstance(strategy, str) or strategy not in STRATEGIES:
        raise ModelFolderError(f"{path} has an unknown strategy", got=strategy, rule="one of " + ", ".join(STRATEGIES))
    return retention, strategy, scoring

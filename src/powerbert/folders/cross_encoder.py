"""What sentence-transformers keeps of a CrossEncoder beside the model: what becomes of its logits.

Every version reads the entry of config.json, to which `adopt` takes it over, so it goes wherever the configuration
goes: into saved folders, trainings and exports. An activation is a name here; nothing is imported by it.
"""

import re
from pathlib import Path
from typing import Any

from powerbert.errors import ModelFolderError, UnsupportedModelError
from powerbert.folders.manifest import MAX_CONFIG, MODULES, cross_encoder_settings, read_json, read_plain_json

ENTRY, ENTRY_BEFORE_4 = "sentence_transformers", "sbert_ce_default_activation_function"  # of config.json
MODULE_SETTINGS = "sentence_bert_config.json"
ACTIVATIONS = {"sigmoid": "torch.nn.modules.activation.Sigmoid", "none": "torch.nn.modules.linear.Identity"}
"""What becomes of the logits, as `text.answers` names it -> as sentence-transformers names it."""
_FUNCTIONS = {path.rpartition(".")[2]: function for function, path in ACTIVATIONS.items()}


def adopt(folder: Path, config: Any) -> None:
    """Give a model's configuration the activation that its folder names, wherever; an unknown one is refused."""
    settings = cross_encoder_settings(folder)
    if settings:
        _check_settings(folder, settings)
    path = settings.get("activation_fn") or _named(config)
    if path is not None:
        own = getattr(config, ENTRY, None) or {}
        setattr(config, ENTRY, {**own, "activation_fn": ACTIVATIONS[_function(path)]})


def activation_of(config: Any) -> str | None:
    """What becomes of the logits, where a configuration says so; None where it does not."""
    path = _named(config)
    return None if path is None else _function(path)


def forget_activation(config: Any) -> None:
    """Take the activation out of a configuration: that of a head which is no longer there."""
    for name in (ENTRY, ENTRY_BEFORE_4):
        if hasattr(config, name):
            delattr(config, name)


def _named(config: Any) -> object:
    own = getattr(config, ENTRY, None)
    if own is not None and not isinstance(own, dict):
        raise ModelFolderError(f"{ENTRY} in config.json is no object", got=own)
    return (own or {}).get("activation_fn") or getattr(config, ENTRY_BEFORE_4, None)


def _function(path: object) -> str:
    found = re.fullmatch(r"torch\.nn\.(?:\w+\.)*(\w+)", path) if isinstance(path, str) else None
    if found is None or found[1] not in _FUNCTIONS:
        rule, remedy = (
            "torch's Sigmoid and Identity are served, and no code of a folder is run",
            "save it with one of them",
        )
        raise UnsupportedModelError("unknown activation of a CrossEncoder", got=path, rule=rule, remedy=remedy)
    return _FUNCTIONS[found[1]]


def _check_settings(folder: Path, settings: dict[str, Any]) -> None:
    """Refuse what would change the text or the score, rather than leave it out."""
    modules, prompts = read_plain_json(folder / MODULES, MAX_CONFIG), settings.get("prompts") or {}
    if not isinstance(modules, list) or len(modules) != 1:
        what, rule = f"{folder / MODULES} has other modules than a classifier", "a CrossEncoder of one module is served"
        raise UnsupportedModelError(what, got=modules, rule=rule)
    if isinstance(prompts, dict) and prompts.get(settings.get("default_prompt_name")):
        what, remedy = f"{folder} puts a prompt before every text", "save it without default_prompt_name"
        raise UnsupportedModelError(what, got=settings["default_prompt_name"], remedy=remedy)
    module = read_json(folder / MODULE_SETTINGS, MAX_CONFIG) if (folder / MODULE_SETTINGS).exists() else {}
    if changed := [name for name in ("do_lower_case", "max_seq_length", "processing_kwargs") if module.get(name)]:
        what, rule = f"{folder / MODULE_SETTINGS} changes how text is read", "the tokenizer's own files decide that"
        raise UnsupportedModelError(what, got=changed, rule=rule, remedy="save it again with sentence-transformers")

"""Read a Hugging Face model folder safely; nothing here knows of word-vector elimination.

A folder may come from anybody, so it is believed step by step: config.json by hand, the headers of the weight
files, an empty model on the meta device that must agree with them in names and shapes, and only then the
weights. What is refused is refused before memory for weights is taken; no step goes online.
"""

import copy
import inspect
import re
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from safetensors import safe_open
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from powerbert.errors import ModelFolderError, UnsupportedModelError, one_line
from powerbert.folders.manifest import CONFIG, INDEX, MAX_CONFIG, SAVE_AGAIN, WEIGHTS, read_json

Header = dict[str, tuple[str, list[int]]]  # tensor name -> dtype and shape

MAX_INDEX = 16_000_000  # bytes; an index of a thousand layers has 2 MB
_BOUNDS = {
    (1, 1_000): "num_hidden_layers n_layers num_hidden_groups inner_group_num num_attention_heads n_heads",
    (1, 100_000): "hidden_size dim intermediate_size hidden_dim embedding_size num_labels id2label",
    (1, 1_000_000): "max_position_embeddings relative_attention_num_buckets",
    (1, 10_000_000): "vocab_size",
    (0, 100_000): "type_vocab_size conv_kernel_size",
    (-1, 1_000_000): "max_relative_positions position_buckets",
}
_SIZES = {name: bounds for bounds, names in _BOUNDS.items() for name in names.split()}
_REFUSED = {
    "auto_map": "code from a model folder is never run",
    "quantization_config": "weights are F64, F32, F16 or BF16, never quantised",
    "configuration_files": f"{CONFIG} alone describes the model",
    "transformers_weights": f"the weights are in {WEIGHTS}",
    "per_layer_config": "all layers share one configuration",
}
# By these transformers would fetch a kernel, replace layers, or look a dtype up in the torch module.
_IGNORED = {"dtype", "torch_dtype", "attn_implementation", "experts_implementation", "fusion_config"}
_FLOATS = {"F64", "F32", "F16", "BF16"}
_RENAMED = {"gamma": "weight", "beta": "bias"}  # of LayerNorm, in files converted from TensorFlow
# What older or pretrained files hold beside the model: buffers, and heads of pretraining.
_LEFTOVERS = r"(^|\.)(position_ids|token_type_ids)$|^cls\.|^(bert\.)?pooler\."
_OFFLINE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def read_model(folder: str | Path, model_types: Collection[str]) -> PreTrainedModel:
    """Read the model of a folder as its own class, in fp32, in eval mode, on the CPU."""
    folder = Path(folder)
    data = read_config(folder)
    model_class, header = _model_class(folder / CONFIG, data, model_types), _read_weights(folder)
    with silenced(), one_line(f"{folder / CONFIG} does not describe a {model_class.__name__}", SAVE_AGAIN):
        empty, config, options = _build_empty(folder / CONFIG, model_class, data, header)
    _check_weights(folder, empty, header)
    # One thread at a time: while transformers loads, it unties weights for the whole process, and of two loads that
    # overlap the last one would leave them untied for good.
    with _loading, silenced(), one_line(f"the weights in {folder} cannot be loaded", SAVE_AGAIN):
        return _load(folder, model_class, config, options)


def read_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Read the fast tokenizer of a model folder."""
    folder = Path(folder)
    read_config(folder)  # AutoTokenizer reads these two as well
    if (folder / "tokenizer_config.json").exists():
        _read_plain(folder / "tokenizer_config.json", MAX_INDEX)
    remedy = "save it with tokenizer.save_pretrained"
    with silenced(), one_line(f"the tokenizer in {folder} cannot be read", remedy):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(folder), **_OFFLINE)
    # Without a vocabulary transformers makes a tokenizer of the special tokens alone, and says nothing.
    if not tokenizer.is_fast or set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        rule = "tokenizer.json or the vocabulary lies beside the model"
        raise _wrong(f"{folder} has no fast tokenizer with words", rule, type(tokenizer).__name__, remedy)
    longest: object = tokenizer.model_max_length
    if not isinstance(longest, int | float) or longest < 1:
        raise _wrong(f"model_max_length of the tokenizer in {folder} is wrong", "at least 1", longest, remedy)
    return tokenizer


def read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as a dict whose sizes are sane; no class of transformers has seen it yet."""
    if not folder.is_dir():
        raise _wrong(f"{folder} is not a folder", "a model is a local folder", remedy="get it with hf download")
    for other in (*folder.glob("adapter_config.json"), *folder.glob("shard-*.safetensors")):
        # from_pretrained would follow these to other weights than the ones checked here
        raise _wrong(f"{other} is not part of a plain model", f"the weights are in {WEIGHTS}")
    data = _read_plain(folder / CONFIG, MAX_CONFIG)
    sizes = {name: data[name] for name in _SIZES if data.get(name) is not None}
    if isinstance(sizes.get("id2label"), dict):
        sizes["id2label"] = len(sizes["id2label"])
    for name, value in sizes.items():
        least, most = _SIZES[name]
        if type(value) is not int or not least <= value <= most:  # isinstance would let True pass
            rule = f"a whole number from {least} to {most:,}"
            raise _wrong(f"{name} in {folder / CONFIG} is out of range", rule, value)
    return data


def _model_class(path: Path, data: Mapping[str, Any], model_types: Collection[str]) -> type[PreTrainedModel]:
    """Find the class that config.json names, among the models of transformers itself."""
    kind, names = data.get("model_type"), data.get("architectures")
    if not isinstance(kind, str) or kind not in model_types:
        what, rule = f"{path} has a foreign model_type", f"supported are {', '.join(sorted(model_types))}"
        raise UnsupportedModelError(what, got=kind or "none", rule=rule, remedy="see docs/add-a-family.md")
    if isinstance(names, list) and len(names) == 1 and isinstance(names[0], str):
        found: Any = getattr(transformers, names[0], None)
        is_model = isinstance(found, type) and issubclass(found, PreTrainedModel)
        if is_model and getattr(found.config_class, "model_type", None) == kind:
            return cast(type[PreTrainedModel], found)
    rule = f'one {kind} class of transformers, such as ["BertForSequenceClassification"]'
    raise _wrong(f"architectures in {path} does not name a model", rule, names)


def _build_empty(path: Path, model_class: Any, data: Mapping[str, Any], header: Header) -> tuple[Any, ...]:
    """Build the model on the meta device, names and shapes without memory; return its making as well."""
    kept = {key: data[key] for key in data if key not in _IGNORED and not key.startswith("_")}
    config = model_class.config_class.from_dict(kept)
    layers = config.num_hidden_layers
    if hasattr(type(config), "num_hidden_groups"):  # ALBERT builds its groups once and shares them
        layers = config.num_hidden_groups * config.inner_group_num
    if layers > len(header):  # building a thousand layers takes seconds even without memory
        got = f"{layers} layers, {len(header)} tensors"
        raise _wrong(f"num_hidden_layers in {path} does not fit the weights", "a layer has tensors", got)
    options = {}
    if "add_pooling_layer" in inspect.signature(model_class.__init__).parameters:
        options["add_pooling_layer"] = any(name.startswith("pooler.") for name in header)
    with torch.device("meta"):
        return model_class(copy.deepcopy(config), **options), config, options


def _check_weights(folder: Path, model: PreTrainedModel, header: Header) -> None:
    """Compare the names, shapes and dtypes that the model needs with those in the headers."""
    needed = model.state_dict()
    legacy = re.compile(r"(?<=LayerNorm\.)(gamma|beta)")  # from_pretrained renames them too
    found = {legacy.sub(lambda match: _RENAMED[match[0]], name): header[name] for name in header}
    rule = f"the file holds the weights of {type(model).__name__} as {CONFIG} describes it, and nothing else"
    if absent := needed.keys() - found.keys() - _tied(model, found.keys()):
        raise _wrong(f"the weights in {folder} lack {_names(absent)}", rule)
    ignored = re.compile("|".join([_LEFTOVERS, *(model._keys_to_ignore_on_load_unexpected or ())]))
    unexpected = {name for name in found.keys() - needed.keys() if not ignored.search(name)}
    if unexpected or len(found) < len(header):
        names = _names(unexpected or header.keys() - found.keys())  # or one weight under two names
        raise _wrong(f"the weights in {folder} have unexpected {names}", rule, remedy="save the class you mean")
    for name in needed.keys() & found.keys():
        shape, is_float = list(needed[name].shape), needed[name].is_floating_point()
        dtype, stored = found[name]
        if stored != shape or (dtype in _FLOATS) != is_float:
            rule = f"{CONFIG} asks for {'floating point' if is_float else 'whole numbers'} {shape}"
            raise _wrong(f"the tensor {name} in {folder} does not fit the model", rule, f"{dtype} {stored}")


def _tied(model: PreTrainedModel, found: Collection[str]) -> set[str]:
    """Names that need not be in the file because the weight they share is there under another name."""
    ties = model.all_tied_weights_keys
    present = {ties.get(name, name) for name in found}  # the source that each one stands for
    return {name for target, source in ties.items() if source in present for name in (target, source)}


def _load(folder: Path, model_class: Any, config: Any, options: dict[str, Any]) -> PreTrainedModel:
    """Load checked weights, and check once more what only the loaded model shows."""
    options = {**options, **_OFFLINE, "use_safetensors": True, "output_loading_info": True}
    loaded, info = model_class.from_pretrained(str(folder), config=config, dtype=torch.float32, **options)
    if wrong := {*info["missing_keys"], *map(str, info["mismatched_keys"])}:
        raise _wrong(f"the weights in {folder} lack {_names(wrong)}", "every weight is in the file")
    model: PreTrainedModel = loaded.to("cpu").eval()
    # An fp32 file stays mapped: a later write to it would show, and its odd addresses change last bits.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise _wrong(f"the tensor {name} in {folder} is not finite", "no weight is NaN or infinite in fp32")
    return model


def _read_weights(folder: Path) -> Header:
    """Read what the weight files of the folder hold, without reading a tensor."""
    if (folder / WEIGHTS).is_file():
        return _read_header(folder / WEIGHTS)
    path, header = folder / INDEX, Header()
    if not path.is_file():
        pickles = _names(path.name for path in folder.glob("*.bin"))
        rule = f"pickles ({pickles}) can run code and are never loaded" if pickles else "weights are safetensors"
        raise _wrong(f"{folder} has no {WEIGHTS}", rule, remedy="save the model with save_pretrained")
    places = _read_plain(path, MAX_INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise _wrong(f"{path} has no weight_map", "it maps each tensor to the file that holds it")
    for shard in sorted(set(places.values())):
        if not re.fullmatch(r"\w[\w.-]*\.safetensors", shard) or not (folder / shard).is_file():
            raise _wrong(f"{path} names a wrong file", "a shard is a .safetensors file beside it", shard)
        part = _read_header(folder / shard)
        if wrong := part.keys() ^ {name for name, place in places.items() if place == shard}:
            raise _wrong(f"{path} and {shard} disagree about {_names(wrong)}", "both list the same tensors")
        header |= part
    return header


def _read_header(path: Path) -> Header:
    """Read names, dtypes and shapes with the reader that loads them; it refuses gaps, overlaps and a rest."""
    with one_line(f"{path} is damaged or no safetensors file", SAVE_AGAIN), safe_open(path, "pt") as file:
        parts = [(name, file.get_slice(name)) for name in file.keys()]  # noqa: SIM118 - it is no dict
        return {name: (part.get_dtype(), part.get_shape()) for name, part in parts}


def _read_plain(path: Path, limit: int) -> dict[str, Any]:
    """Read a JSON file of a model folder that asks for nothing we refuse."""
    data = read_json(path, limit)
    for key, rule in _REFUSED.items():
        if data.get(key) is not None:
            raise _wrong(f"{path} has {key}", rule, remedy="save a plain transformers model")
    return data


def _wrong(what: str, rule: str, got: object = ..., remedy: str = SAVE_AGAIN) -> ModelFolderError:
    shown = None if got is ... else "null" if got is None else got
    return ModelFolderError(what, got=shown, rule=rule, remedy=remedy)


def _names(names: Iterable[str]) -> str:
    shown = [repr(name[:100]) for name in sorted(names)]  # repr keeps a hostile name printable
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


_lock, _loading = threading.Lock(), threading.Lock()
_readers: list[tuple[int, Any]] = []  # per thread: verbosity and hook as the first one found them


@contextmanager
def silenced() -> Iterator[None]:
    """Keep transformers quiet meanwhile; the last of several threads leaves it as the first one found it."""
    with _lock:
        _readers.append(_readers[0] if _readers else (logging.get_verbosity(), logging.set_tqdm_hook(_without_bar)))
        logging.set_verbosity(50)  # above its load report, which is a warning
    try:
        yield
    finally:
        with _lock:
            verbosity, hook = _readers.pop()
            if not _readers:
                logging.set_verbosity(verbosity)
                logging.set_tqdm_hook(hook)


def _without_bar(bar: Any, args: Any, kwargs: Any) -> Any:
    return bar(*args, **{**kwargs, "disable": True})

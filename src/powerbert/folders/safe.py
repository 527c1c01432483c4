"""Read and write a Hugging Face model folder safely; nothing here knows of word-vector elimination.

A folder may come from anybody, so it is believed step by step: config.json by hand, the headers of the weight
files, an empty model on the meta device that must agree with them in names and shapes, and only then the
weights. What is refused is refused before memory for weights is taken; no step goes online.
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import transformers
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from powerbert.errors import ModelFolderError, PowerBertError, UnsupportedModelError

Header = dict[str, dict[str, Any]]  # tensor name -> dtype, shape and data_offsets

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
MAX_CONFIG, MAX_HEADER = 1_000_000, 16_000_000  # bytes; the header of a thousand layers has 2 MB
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
_FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
_BYTES = _FLOATS | {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
_RENAMED = {"gamma": "weight", "beta": "bias"}  # of LayerNorm, in files converted from TensorFlow
# What older or pretrained files hold beside the model: buffers, and heads of pretraining.
_LEFTOVERS = r"(^|\.)(position_ids|token_type_ids)$|^cls\.|^(bert\.)?pooler\."
_AGAIN = "copy or save the model again"
_OFFLINE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def read_model(folder: str | Path, model_types: Collection[str]) -> PreTrainedModel:
    """Read the model of a folder as its own class, in fp32, in eval mode, on the CPU."""
    folder = Path(folder)
    data = _read_config(folder)
    model_class = _model_class(folder / CONFIG, data, model_types)
    header = _read_weights(folder)
    with told(f"{folder / CONFIG} does not describe a {model_class.__name__}"):
        empty, config, options = _build_empty(folder / CONFIG, model_class, data, header)
    _check_weights(folder, empty, header)
    with told(f"the weights in {folder} cannot be loaded"):
        return _load(folder, model_class, config, options)


def read_tokenizer(folder: str | Path) -> PreTrainedTokenizerBase:
    """Read the fast tokenizer of a model folder."""
    folder = Path(folder)
    _read_config(folder)  # AutoTokenizer reads these two as well
    if (folder / "tokenizer_config.json").exists():
        _read_json(folder / "tokenizer_config.json", MAX_HEADER)
    remedy = "save it with tokenizer.save_pretrained"
    with told(f"the tokenizer in {folder} cannot be read", remedy):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(folder), **_OFFLINE)
    # Without a vocabulary transformers makes a tokenizer of the special tokens alone, and says nothing.
    if not tokenizer.is_fast or set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        rule = "tokenizer.json or the vocabulary lies beside the model"
        raise _bad(f"{folder} has no fast tokenizer with words", rule, type(tokenizer).__name__, remedy)
    return tokenizer


def write_folder(folder: str | Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a staging folder, then put it in place whole; a failure leaves what was there."""
    target = Path(folder).resolve()
    _check_replaceable(target)
    staging = target.parent / f".powerbert-{secrets.token_hex(8)}"
    what, remedy = f"{target} cannot be written", "give another folder"
    try:
        with told(what, remedy):
            target.parent.mkdir(parents=True, exist_ok=True)
            staging.mkdir()
        write(staging)
        for path in (*staging.rglob("*"), staging):
            _flush(path)
        _check_replaceable(target)  # writing took time: somebody may have used it
        with told(what, remedy):
            _swap(staging, target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _read_config(folder: Path) -> dict[str, Any]:
    """Read config.json as a dict whose sizes are sane; no class of transformers has seen it yet."""
    if not folder.is_dir():
        raise _bad(f"{folder} is not a folder", "a model is a local folder", remedy="get it with hf download")
    for other in (*folder.glob("adapter_config.json"), *folder.glob("shard-*.safetensors")):
        # from_pretrained would follow these to other weights than the ones checked here
        raise _bad(f"{other} is not part of a plain model", f"the weights are in {WEIGHTS}")
    data = _read_json(folder / CONFIG, MAX_CONFIG)
    sizes = {name: data[name] for name in _SIZES if data.get(name) is not None}
    if isinstance(sizes.get("id2label"), dict):
        sizes["id2label"] = len(sizes["id2label"])
    for name, value in sizes.items():
        least, most = _SIZES[name]
        if type(value) is not int or not least <= value <= most:  # isinstance would let True pass
            rule = f"a whole number from {least} to {most:,}"
            raise _bad(f"{name} in {folder / CONFIG} is out of range", rule, value)
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
    raise _bad(f"architectures in {path} does not name a model", rule, names)


def _build_empty(path: Path, model_class: Any, data: Mapping[str, Any], header: Header) -> tuple[Any, ...]:
    """Build the model on the meta device, names and shapes without memory; return its making as well."""
    kept = {key: data[key] for key in data if key not in _IGNORED and not key.startswith("_")}
    config = model_class.config_class.from_dict(kept)
    layers = config.num_hidden_layers
    if hasattr(type(config), "num_hidden_groups"):  # ALBERT builds its groups once and shares them
        layers = config.num_hidden_groups * config.inner_group_num
    if layers > len(header):  # building a thousand layers takes seconds even without memory
        got = f"{layers} layers, {len(header)} tensors"
        raise _bad(f"num_hidden_layers in {path} does not fit the weights", "a layer has tensors", got)
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
        raise _bad(f"the weights in {folder} lack {_names(absent)}", rule)
    ignored = re.compile("|".join([_LEFTOVERS, *(model._keys_to_ignore_on_load_unexpected or ())]))
    unexpected = {name for name in found.keys() - needed.keys() if not ignored.search(name)}
    if unexpected or len(found) < len(header):
        names = _names(unexpected or header.keys() - found.keys())  # or one weight under two names
        raise _bad(f"the weights in {folder} have unexpected {names}", rule, remedy="save the class you mean")
    for name in needed.keys() & found.keys():
        shape, is_float = list(needed[name].shape), needed[name].is_floating_point()
        dtype, stored = found[name]["dtype"], found[name]["shape"]
        if stored != shape or (dtype in _FLOATS) != is_float:
            rule = f"{CONFIG} asks for {'floating point' if is_float else 'whole numbers'} {shape}"
            raise _bad(f"the tensor {name} in {folder} does not fit the model", rule, f"{dtype} {stored}")


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
        raise _bad(f"the weights in {folder} lack {_names(wrong)}", "every weight is in the file")
    model: PreTrainedModel = loaded.to("cpu").eval()
    # An fp32 file stays mapped: a later write to it would show, and its odd addresses change last bits.
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            raise _bad(f"the tensor {name} in {folder} is not finite", "no weight is NaN or infinite in fp32")
    return model


def _read_weights(folder: Path) -> Header:
    """Read what the weight files of the folder hold, without reading a tensor."""
    if (folder / WEIGHTS).is_file():
        return _read_header(folder / WEIGHTS)
    if (folder / INDEX).is_file():
        return _read_shards(folder)
    pickles = _names(path.name for path in folder.glob("*.bin"))
    rule = f"pickles ({pickles}) can run code and are never loaded" if pickles else "weights are safetensors"
    raise _bad(f"{folder} has no {WEIGHTS}", rule, remedy="save the model with save_pretrained")


def _read_shards(folder: Path) -> Header:
    path, header = folder / INDEX, Header()
    places = _read_json(path, MAX_HEADER).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(place, str) for place in places.values()):
        raise _bad(f"{path} has no weight_map", "it maps each tensor to the file that holds it")
    for shard in sorted(set(places.values())):
        if not re.fullmatch(r"\w[\w.-]*\.safetensors", shard) or not (folder / shard).is_file():
            raise _bad(f"{path} names a wrong file", "a shard is a .safetensors file beside it", shard)
        part = _read_header(folder / shard)
        if wrong := part.keys() ^ {name for name, place in places.items() if place == shard}:
            raise _bad(f"{path} and {shard} disagree about {_names(wrong)}", "both list the same tensors")
        header |= part
    return header


def _read_header(path: Path) -> Header:
    """Parse a header: 8 bytes of length, JSON, then data that its tensors tile without gap or rest."""
    with told(f"{path} cannot be read"), path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size - 8
        length = int.from_bytes(file.read(8), "little")
        if not 2 <= length <= min(size, MAX_HEADER):
            rule = f"a header fits the file and has at most {MAX_HEADER:,} bytes"
            raise _bad(f"{path} is damaged or no safetensors file", rule, f"a header of {length:,} bytes")
        header = _parse_json(path, file.read(length))
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not _is_tensor(entry):
            rule = f"dtype is one of {', '.join(_BYTES)}, and the offsets fit the shape"
            raise _bad(f"the tensor {_names([name])} in {path} cannot be read", rule, entry)
    offsets = sorted(entry["data_offsets"] for entry in header.values())
    if [begin for begin, _ in offsets] + [size - length] != [0] + [end for _, end in offsets]:
        rule = "its tensors fill the data area, without a gap, an overlap or a rest"
        raise _bad(f"{path} is damaged", rule, f"{size - length:,} bytes of data")
    return header


def _is_tensor(entry: object) -> bool:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]} if dtype in _BYTES:
            counts = all(type(size) is int and size >= 0 for size in (*shape, begin, end))
            return counts and len(shape) <= 8 and bool(end - begin == math.prod(shape) * _BYTES[dtype])
    return False


def _read_json(path: Path, limit: int) -> dict[str, Any]:
    """Read a JSON file of a model folder that asks for nothing we refuse."""
    if not path.is_file():
        raise _bad(f"{path} is missing", "a model folder holds it as a plain file")
    with told(f"{path} cannot be read"), path.open("rb") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise _bad(f"{path} is too large", f"at most {limit:,} bytes")
    data = _parse_json(path, text)
    for key, rule in _REFUSED.items():
        if data.get(key) is not None:
            raise _bad(f"{path} has {key}", rule, remedy="save a plain transformers model")
    return data


def _parse_json(path: Path, text: bytes) -> dict[str, Any]:
    """Parse one JSON object; a key given twice or NaN would mean different things to different readers."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key is given twice")
        return dict(pairs)

    with told(f"{path} is not valid JSON"):
        data = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=int)  # int refuses NaN
        if isinstance(data, dict):
            return data
        raise ValueError("not an object")


def _check_replaceable(target: Path) -> None:
    """Refuse to replace anything but an earlier model folder: a user's own files are never deleted."""
    inside = list(target.iterdir()) if target.is_dir() else [target] if target.exists() else []
    plain = target / CONFIG in inside and not any(path.is_dir() for path in inside)
    if inside and not (plain and "model_type" in _read_json(target / CONFIG, MAX_CONFIG)):
        rule = f"only a folder with the {CONFIG} of a model and no sub-folders is replaced"
        raise _bad(f"{target} exists and is not a model folder", rule, remedy="give another folder")


def _swap(staging: Path, target: Path) -> None:
    """Rename the staging folder into place; the old one waits beside it until the new one is there."""
    old = staging.with_suffix(".old")
    try:
        if target.exists():
            target.rename(old)
        staging.rename(target)
        _flush(target.parent)
    finally:
        if old.exists() and not target.exists():
            old.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def _flush(path: Path) -> None:
    """Have the disk hold a file, or the names in a folder, before anything is renamed over it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        if not path.is_dir():  # some file systems cannot flush a folder
            raise
    finally:
        os.close(handle)


def _bad(what: str, rule: str, got: object = ..., remedy: str = _AGAIN) -> ModelFolderError:
    shown = None if got is ... else "null" if got is None else got
    return ModelFolderError(what, got=shown, rule=rule, remedy=remedy)


def _names(names: Iterable[str]) -> str:
    shown = [repr(name[:100]) for name in sorted(names)]  # repr keeps a hostile name printable
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")


@contextmanager
def told(what: str, remedy: str = _AGAIN) -> Iterator[None]:
    """Keep transformers quiet meanwhile, and tell a failure in one line; our own errors pass."""
    verbosity = logging.get_verbosity()
    hook = logging.set_tqdm_hook(lambda bar, args, kwargs: bar(*args, **{**kwargs, "disable": True}))
    logging.set_verbosity(50)  # above its load report, which is a warning
    try:
        yield
    except (PowerBertError, MemoryError):
        raise
    except Exception as error:
        got = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelFolderError(what, got=got, remedy=remedy) from error
    finally:
        logging.set_verbosity(verbosity)
        logging.set_tqdm_hook(hook)

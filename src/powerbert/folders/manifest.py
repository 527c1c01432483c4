"""powerbert.json, which says what a model folder carries, and holds a sha256 of each file of the model.

Without it a folder is a plain one of transformers. Either way it is known which files are the model's own:
only those are ever replaced. A saved folder may hold exported graphs of its model, each in a sub-folder that is
an exported folder of its own; `graphs` has the sha256 of their manifests.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from powerbert.errors import ModelFolderError, one_line
from powerbert.folders.atomic import digest

MANIFEST, FORMAT, MAX_MANIFEST = "powerbert.json", 1, 1 << 20
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
MAX_CONFIG = 1_000_000  # bytes
MAX_GRAPHS = 16
SAVE_AGAIN = "copy or save the model again"
MODULES, CROSS_ENCODER = "modules.json", "config_sentence_transformers.json"  # of sentence-transformers
# What save_pretrained of a model and of a tokenizer of BERT's kin writes.
_TRANSFORMERS = re.compile(
    r"(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab)\.json"
    r"|chat_template\.jinja|vocab\.txt|merges\.txt|(spiece|spm|tokenizer|sentencepiece\.bpe)\.model"
    r"|model\.safetensors(\.index\.json)?|model-\d{5}-of-\d{5}\.safetensors"
)
_GRAPH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")  # a sub-folder, and no way out of the folder


class Manifest(NamedTuple):
    """What powerbert.json says; of a plain transformers folder, nothing."""

    elimination: Any = None
    export: Any = None
    sha256: dict[str, str] = {}
    extra: tuple[str, ...] = ()  # other files that were written with the model
    graphs: dict[str, str] = {}  # sub-folders with an exported graph of the model: the sha256 of each one's manifest
    engine: str | None = None  # which of them the folder was made for; None: torch
    dial: Any = []
    heads: Any = []  # attention heads of each encoder, where some are missing


def write_manifest(
    folder: Path,
    elimination: Any,
    *,
    export: Any = None,
    extra: Iterable[str] = (),
    graphs: Iterable[str] = (),
    engine: str | None = None,
    dial: Any = None,
    heads: Iterable[int] = (),
) -> None:
    """Write powerbert.json beside the files and the graphs of a model: what it carries, and their sha256."""
    digests = {path.name: digest(path) for path in sorted(folder.iterdir()) if path.is_file()}
    data = {"format": FORMAT, "elimination": elimination, "sha256": digests}
    held = {name: digest(folder / name / MANIFEST) for name in graphs}
    more = {"export": export, "extra": [*extra], "graphs": held, "engine": engine, "dial": dial, "heads": [*heads]}
    data |= {name: value for name, value in more.items() if value}
    (folder / MANIFEST).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read powerbert.json and compare every file with its sha256; an empty one where there is none.

    The weights are read for it: who needs it in several places hands it on. Graphs are not looked at.
    """
    manifest = glance(folder)
    for name, expected in manifest.sha256.items():
        file = folder / Path(name).name
        if not file.is_file():
            raise ModelFolderError(f"{file} is missing", remedy=SAVE_AGAIN)
        if digest(file) != expected:
            remedy = f"save the model again, or delete {MANIFEST} to load it as a plain model"
            raise ModelFolderError(f"{file} is not what was saved", rule=f"its sha256 is in {MANIFEST}", remedy=remedy)
    return manifest


def folder_digest(folder: str | Path) -> str:
    """Name the content of a model folder: the model's files and its elimination, not what lies beside.

    Two folders of one name give the same model when they are loaded, whatever graphs of it they hold.
    """
    folder = Path(folder)
    manifest = read_manifest(folder)
    names = own_files(folder) - {MANIFEST, *manifest.extra}
    digests = {name: manifest.sha256.get(name) or digest(folder / name) for name in sorted(names)}
    if not digests:
        raise ModelFolderError(f"{folder} holds no model", remedy="give the folder of a model")
    heads = [manifest.heads] if manifest.heads else []
    content = json.dumps([manifest.elimination, manifest.export, digests, *heads], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def own_files(folder: Path) -> set[str]:
    """The files in a folder that belong to its model; none if it holds no model."""
    present = {path.name for path in folder.iterdir() if path.is_file()} if folder.is_dir() else set()
    if MANIFEST in present:
        manifest = glance(folder)
        return present & {MANIFEST, *manifest.sha256, *manifest.extra}
    with suppress(ModelFolderError):  # many a program has a config.json, and not all of them are plain JSON
        if CONFIG in present and "model_type" in read_json(folder / CONFIG, MAX_CONFIG):
            reranks = {CROSS_ENCODER} if cross_encoder_settings(folder) else set()
            return {name for name in present if name in reranks or _TRANSFORMERS.fullmatch(name)}
    return set()


def check_replaceable(folder: Path, *, exported: bool = False) -> None:
    """Refuse to replace anything but an earlier model of the same kind: a user's files are never deleted.

    exported: the new model is an exported one; over a saved one it would delete the only weights.
    """
    remedy = "give another folder"
    if folder.exists() and not folder.is_dir():
        raise ModelFolderError(f"{folder} is a file", rule="a model is written to a folder", remedy=remedy)
    inside = sorted(folder.iterdir()) if folder.exists() else []
    own, manifest = own_files(folder), glance(folder)
    for path in inside:
        if path.is_dir() and path.name in manifest.graphs:
            check_replaceable(graph_folder(folder, manifest, path.name), exported=True)
        elif path.name not in own:
            what = f"{folder} is not replaced: {path.name} in it is not of a model"
            raise ModelFolderError(what, rule="a user's files are never deleted", remedy=remedy)
    if inside and exported != (manifest.export is not None):
        held, new = ("a saved", "an exported") if exported else ("an exported", "a saved")
        raise ModelFolderError(f"{folder} holds {held} model", rule=f"{new} one never replaces it", remedy=remedy)


def cross_encoder_settings(folder: Path) -> dict[str, Any]:
    """What sentence-transformers writes beside a CrossEncoder; of any other folder, and of older ones, nothing."""
    if not ((folder / MODULES).exists() and (folder / CROSS_ENCODER).exists()):
        return {}
    settings = read_json(folder / CROSS_ENCODER, MAX_CONFIG)
    return settings if settings.get("model_type") == "CrossEncoder" else {}


def read_json(path: Path, limit: int) -> dict[str, Any]:
    """Read one JSON object, as `read_plain_json` reads it."""
    data = read_plain_json(path, limit)
    if not isinstance(data, dict):
        raise ModelFolderError(f"{path} is not valid JSON", got="ValueError: not an object", remedy=SAVE_AGAIN)
    return data


def read_plain_json(path: Path, limit: int) -> Any:
    """Read a JSON file; a key given twice or NaN would mean different things to different readers."""
    if not path.is_file():
        raise ModelFolderError(f"{path} is missing", rule="a model folder holds it as a plain file", remedy=SAVE_AGAIN)
    with one_line(f"{path} cannot be read", SAVE_AGAIN), path.open("rb") as file:
        text = file.read(limit + 1)
    if len(text) > limit:
        raise ModelFolderError(f"{path} is too large", rule=f"at most {limit:,} bytes", remedy=SAVE_AGAIN)
    with one_line(f"{path} is not valid JSON", SAVE_AGAIN):
        return json.loads(text.decode(), object_pairs_hook=unique_keys, parse_constant=int)  # int refuses NaN


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which `json` itself would silently keep the last of two equal keys."""
    if len(values := dict(pairs)) < len(pairs):
        raise ValueError("a key appears twice")
    return values


def graph_folder(folder: Path, manifest: Manifest, name: str) -> Path:
    """The sub-folder of a graph that a manifest names, with the manifest that was saved; its files are not read."""
    path = folder / name
    if path.is_symlink() or not (path / MANIFEST).is_file():
        rule = f"{folder / MANIFEST} names it, and it is a folder with a {MANIFEST}, no link"
        raise ModelFolderError(f"{path} is missing", rule=rule, remedy=SAVE_AGAIN)
    if digest(path / MANIFEST) != manifest.graphs[name]:
        rule = f"the sha256 of its {MANIFEST} is in {folder / MANIFEST}"
        raise ModelFolderError(f"{path} is not what was saved", rule=rule, remedy=SAVE_AGAIN)
    if glance(path).export is None:
        raise ModelFolderError(f"{path} holds no exported model", rule="a graph is one", remedy=SAVE_AGAIN)
    return path


def check_graphs(what: str, names: Iterable[object], engine: object) -> None:
    """Refuse names that are no sub-folder, too many of them, and an engine that is none of them."""
    names = list(names)
    for name in names:
        if not isinstance(name, str) or not _GRAPH.fullmatch(name):
            rule = "letters, digits, - and _, at most 64, such as openvino-int8"
            raise ModelFolderError(f"{what} has a graph of a wrong name", got=name, rule=rule)
    if len(names) > MAX_GRAPHS:
        raise ModelFolderError(f"{what} has too many graphs", got=len(names), rule=f"at most {MAX_GRAPHS}")
    if engine is not None and engine not in names:
        rule = "one of its graphs: " + (", ".join(map(str, names)) or "it has none")
        raise ModelFolderError(f"{what} is made for an unknown graph", got=engine, rule=rule)


def glance(folder: Path) -> Manifest:
    """Read powerbert.json without looking at the files that it names."""
    path = folder / MANIFEST
    if not path.exists():
        return Manifest()
    data = read_json(path, MAX_MANIFEST)
    if (found := data.get("format")) != FORMAT:
        raise ModelFolderError(f"{path} has an unknown format", got=found, rule=f"this version reads format {FORMAT}")
    match data:
        case {"elimination": elimination, "sha256": dict(digests)} if isinstance(data.get("extra", []), list):
            extra, export = tuple(str(name) for name in data.get("extra", [])), data.get("export")
            graphs, engine = data.get("graphs", {}), data.get("engine")
            if isinstance(graphs, dict) and not (graphs and export is not None):  # a graph holds no others
                check_graphs(str(path), graphs, engine)
                dial, heads = data.get("dial", []), data.get("heads", [])
                return Manifest(elimination, export, digests, extra, graphs, engine, dial, heads)
    raise ModelFolderError(f"{path} is incomplete", got=sorted(data), remedy=SAVE_AGAIN)

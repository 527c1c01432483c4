"""What makes scoring resumable: OUT.partial holds the finished windows, and a record of how far it is.

A window is written and synced before the record counts it, and the record is replaced in one step. So whenever the
process is killed, the record is true, and the next run begins with the first window that it does not count. OUT
appears by a rename when all is there.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from powerbert.errors import DataError, PowerBertError, one_line
from powerbert.folders.atomic import only_run, sync, write_file
from powerbert.scoring.write import Form

RECORD, WHOLE, PART = "record.json", "whole", "{:08d}.part"
OWN = re.compile(rf"\..*|{RECORD}|{WHOLE}-.*|\d{{8,}}\.part", re.DOTALL)  # what a run writes; staged files have a dot


@dataclass(frozen=True)
class Counts:
    """What became of the rows: those that were read are those answered, skipped and recorded."""

    read: int = 0
    answered: int = 0
    skipped: int = 0
    recorded: int = 0


@dataclass
class Staging:
    """One run under way; take it from `staged`."""

    target: Path
    folder: Path
    settings: Mapping[str, Any]  # what decides the result; a run goes on only with the same
    windows: int = 0  # that are done
    counts: Counts = field(default_factory=Counts)
    finished: bool = False  # all windows are done
    size: int = 0  # bytes of what the windows became

    def add(self, part: bytes, counts: Counts) -> None:
        """Keep what a window became, then count it."""
        with self._written():
            if part:
                write_file(self.folder / PART.format(self.windows), part)
            self.windows, self.counts, self.size = self.windows + 1, counts, self.size + len(part)
            self._write_record()

    def finish(self, form: Form) -> None:
        """Put the whole in its place."""
        _check_some(self.counts)
        parts = self.parts()
        with self._written():
            whole = self.folder / f"{WHOLE}-{self.target.name}"
            form.join(parts, whole)
            sync(whole)
            self.finished = True
            self._write_record()
            whole.replace(self.target)
            sync(self.target.parent)

    def remind(self, form: Form) -> None:
        """Let the format see what the windows before have settled."""
        if parts := self.parts():
            form.resume(parts[0])

    def parts(self) -> list[Path]:
        """What is kept of the windows that are done; of one without a row nothing is."""
        paths = (self.folder / PART.format(number) for number in range(self.windows))
        return [path for path in paths if path.exists()]

    def check_parts(self) -> None:
        """Refuse to go on where something of the windows that are done is gone."""
        if not self.finished and (there := sum(path.stat().st_size for path in self.parts())) != self.size:
            got, remedy = f"{there:,} of {self.size:,} bytes", f"remove {self.folder} to begin again"
            raise PowerBertError(f"{self.folder} has lost what was done", got=got, remedy=remedy)

    def _written(self) -> AbstractContextManager[None]:
        return one_line(f"{self.target} cannot be written", "give the same command again, with room", PowerBertError)

    def _write_record(self) -> None:
        known = {"settings": self.settings, "windows": self.windows, "counts": asdict(self.counts), "size": self.size}
        write_file(self.folder / RECORD, json.dumps(known | {"finished": self.finished}, indent=1).encode())


@dataclass
class Passage:
    """In the place of a `Staging`: windows that pass straight to a stream, which cannot be resumed."""

    stream: BinaryIO
    windows: int = 0
    counts: Counts = field(default_factory=Counts)

    def add(self, part: bytes, counts: Counts) -> None:
        """Write what a window became."""
        self.stream.write(part)
        self.stream.flush()
        self.counts = counts

    def remind(self, form: Form) -> None:
        """There are no windows before."""

    def finish(self, form: Form) -> None:
        """All of it is written."""
        _check_some(self.counts)


def staging_folder(target: Path) -> Path:
    """Where a run keeps what it has done."""
    return target.with_name(f"{target.name}.partial")


def begun(target: Path) -> dict[str, Any]:
    """The record of a run that was stopped; empty if there is none."""
    path = staging_folder(target) / RECORD
    if not path.exists():
        return {}
    with one_line(f"{path} cannot be read", f"remove {path.parent} to begin again", PowerBertError):
        known: dict[str, Any] = json.loads(path.read_bytes())
        numbers = (known["windows"], *asdict(Counts(**known["counts"])).values(), known["size"])
        if not (isinstance(known["settings"], dict) and isinstance(known["finished"], bool)):
            raise TypeError("settings or finished")
        if not all(type(number) is int and number >= 0 for number in numbers) or numbers[0] > numbers[1]:
            raise ValueError("windows have rows, and both are counted")
        return known


def check_target(target: Path) -> None:
    """Refuse to write over a file; but for the one that a run left whose last step was not counted."""
    if target.exists() and not begun(target).get("finished"):
        rule = "answers are never written over a file"
        raise PowerBertError(f"{target} exists", rule=rule, remedy="remove it, or give another name")


@contextmanager
def staged(target: Path, settings: Mapping[str, Any], *, resumable: bool = True) -> Iterator[Staging]:
    """Hold OUT.partial for this process, and go on with what an earlier run did there, if it was the same.

    A run that has answered nothing leaves nothing behind; any other keeps what it has answered, whatever ended it.
    """
    folder = staging_folder(target)
    _check_ours(folder)
    with only_run(folder):
        staging = Staging(target, folder, settings)
        earlier = begun(target)
        if earlier and resumable:
            _check_same(folder, earlier["settings"], settings)
            counts = Counts(**earlier["counts"])
            done = earlier["windows"], counts, earlier["finished"], earlier["size"]
            staging = Staging(target, folder, settings, *done)
            staging.check_parts()
        else:
            for path in (*folder.glob(PART.replace("{:08d}", "*")), folder / RECORD):
                path.unlink(missing_ok=True)
        try:
            check_target(target)
            yield staging
        finally:
            if not staging.parts() or (staging.finished and target.exists()):
                shutil.rmtree(folder, ignore_errors=True)


def _check_some(counts: Counts) -> None:
    """Refuse to end well where every row was skipped."""
    if counts.read == counts.skipped:
        rule = f"read {counts.read:,} rows, skipped {counts.skipped:,}"
        raise DataError("no row could be answered", rule=rule, remedy="see what is wrong with --on-error record")


def _check_ours(folder: Path) -> None:
    """Refuse a folder that holds what no run has written: it will be deleted."""
    others = [path.name for path in folder.glob("*") if not OWN.fullmatch(path.name)] if folder.is_dir() else []
    if others:
        rule, remedy = "a run keeps its windows there, and deletes it at the end", "remove it, or give another name"
        raise PowerBertError(f"{folder} holds something else", got=sorted(others)[0], rule=rule, remedy=remedy)


def _check_same(folder: Path, earlier: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    now = json.loads(json.dumps(settings))  # as it comes back
    if other := sorted(name for name in {*earlier, *now} if earlier.get(name) != now.get(name)):
        remedy = f"give the same command as then, or remove {folder} to begin again"
        rule = "a run goes on with the same input, model and flags alone"
        raise PowerBertError(f"{folder} is of another run", got=f"another {', '.join(other)}", rule=rule, remedy=remedy)

"""The same windows answered on Ray Data, by workers that each load the model once.

One task reads the input and gives a window of texts at a time; actors answer them; the answers come back in order and
meet the rows, which this process reads as well. So columns never travel, and what is written does not depend on who
answered. A killed worker is started again, and what it had under way is done again.
"""

import logging
import os
import pickle
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy
import pyarrow

from powerbert.errors import PowerBertError, one_line, require, require_all
from powerbert.scoring.answering import Answered, Answerer, texts_to_answer
from powerbert.scoring.rows import InputFiles, Window

_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_PATIENCE = 5.0  # seconds for an address to answer

Cells = dict[str, Any]  # columns of a batch, which is one window


def check_reachable(address: str) -> None:
    """Refuse an address where nobody answers; Ray itself would wait for long."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    remedy = "start it with ray start --head, or leave out the address"
    if colon:
        with one_line(f"no Ray cluster answers at {address}", remedy, PowerBertError):
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()


@contextmanager
def cluster(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; a local one is started and stopped. Nothing is reported to anybody."""
    require_all("--ray needs", ("ray",), "ray")
    check_reachable(address)
    os.environ |= _QUIET
    ray = require("ray", "ray")
    own = {"include_dashboard": False} if address == "local" else {}
    with one_line(f"no Ray cluster at {address}", "start it with ray start --head", PowerBertError):
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **own)
    try:
        yield ray
    finally:
        ray.shutdown()


def answered_on_ray(
    ray: Any,
    inputs: InputFiles,
    opened: Callable[[], Answerer],
    first: int,
    cpus: int,
    workers: int | None,
    windows: Iterable[Window],
    done: Callable[[float], object] = lambda rows: None,
) -> Iterator[Answered]:
    """Answer `windows`, which are those of `inputs` from the `first` on, on a cluster that sees the same files.

    opened: makes the model in a worker. cpus, workers: of a worker, and how many; by default as many as there is room
        for in the cluster. done: as in `answered_here`.
    """
    data = require("ray.data", "ray")
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.execution_options.preserve_order = True
    context.target_max_block_size = 1  # each window travels alone, to whoever is free
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    room = workers_with_room(ray.nodes(), cpus)
    most = workers or room
    texts = data.read_datasource(_source(inputs, first), override_num_blocks=1, num_cpus=0)
    answers = texts.map_batches(
        Worker,
        fn_constructor_args=(opened,),
        batch_size=1,
        compute=data.ActorPoolStrategy(min_size=min(most, workers or 1), max_size=most),
        num_cpus=cpus,  # a lost worker is started again and its task repeated, without limit: Ray Data's default
    )
    coming = iter(answers.iter_batches(batch_size=1, prefetch_batches=1))
    for window in windows:
        try:
            cells = next(coming, None)
        except Exception as error:  # of any worker, wrapped by Ray; what happened is in the last line of the trace
            what, remedy = "a worker of Ray could not answer", "see the logs of Ray on its machine"
            raise PowerBertError(what, got=str(error).strip().rpartition("\n")[2], remedy=remedy) from error
        if cells is None:
            remedy = "give files that all machines see under the same path"
            raise PowerBertError("the cluster does not read the rows that this machine reads", remedy=remedy)
        logits = pickle.loads(cells["logits"][0])
        done(len(logits))
        yield window, logits


def workers_with_room(nodes: Iterable[Mapping[str, Any]], cpus: int) -> int:
    """How many workers of so many cores the machines of a cluster have room for, as Ray describes them."""
    cores = [int(node["Resources"].get("CPU", 0)) for node in nodes if node["Alive"]]
    if cpus > max(cores):  # Ray would wait for such a machine for ever
        rule = f"the largest machine of the cluster has {max(cores)}"
        raise PowerBertError("no worker has room", got=f"--ray-cpus {cpus}", rule=rule)
    return sum(each // cpus for each in cores)


class Worker:
    """Answers windows of texts, with a model that it loads once."""

    def __init__(self, opened: Callable[[], Answerer]) -> None:
        self.answerer = opened()

    def __call__(self, cells: Cells) -> Cells:
        """The logits of one window."""
        logits = self.answerer.answer(self.answerer.tokenise(pickle.loads(cells["texts"][0])))
        return {"logits": numpy.array([pickle.dumps(logits)], dtype=object)}


def _source(inputs: InputFiles, first: int) -> Any:
    """The windows of the input as rows of a dataset, read one after the other by a single task."""
    from ray.data.block import BlockMetadata
    from ray.data.datasource import Datasource, ReadTask

    def read() -> Iterator[Any]:
        try:
            for window in inputs.windows(first):
                packed = pyarrow.array([pickle.dumps(texts_to_answer(window))], pyarrow.large_binary())
                yield pyarrow.table({"texts": packed})
        except PowerBertError:
            return  # who writes reads the same rows, and says what is wrong

    class Windows(Datasource):
        def estimate_inmemory_data_size(self) -> int | None:
            return None

        def get_read_tasks(self, *asked: Any, **more: Any) -> list[Any]:
            return [ReadTask(read, BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]

    return Windows()  # type: ignore[no-untyped-call]

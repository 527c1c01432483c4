"""A CrossEncoder in a backend of sentence-transformers, for `reranker.py`, whose child process this is.

    python benchmarks/reranker_theirs.py FOLDER BACKEND PRECISION MAX_LENGTH HOME TEXTS

Optimum, which its backends onnx and openvino need, does not know every transformers: so this may run in another Python
and imports nothing of the project. It quantises by sentence-transformers' own functions into HOME, with scales from the
column `text` of the JSON lines in the folder TEXTS. A line of JSON (query, documents) comes in; the order of the
documents goes out.
"""

import json
import sys
from contextlib import redirect_stdout
from typing import Any

from sentence_transformers import CrossEncoder
from sentence_transformers import __version__ as version
from transformers import __version__ as transformers_version


def opened(folder: str, backend: str, precision: str, max_length: int, home: str, texts: str) -> Any:
    """The model as sentence-transformers documents it."""
    model = CrossEncoder(folder, backend=backend, device="cpu", max_length=max_length)
    if precision == "fp32":
        return model
    from sentence_transformers.backend import (
        export_dynamic_quantized_onnx_model,
        export_static_quantized_openvino_model,
    )

    model.save_pretrained(home)
    if backend == "onnx":
        export_dynamic_quantized_onnx_model(model, "avx512_vnni", home)
        name = "onnx/model_qint8_avx512_vnni.onnx"
    else:
        about = {"dataset_config_name": "default", "dataset_split": "train", "column_name": "text"}
        export_static_quantized_openvino_model(model, None, home, dataset_name=texts, **about)
        name = "openvino/openvino_model_qint8_quantized.xml"
    options = {"file_name": name}
    return CrossEncoder(home, backend=backend, device="cpu", max_length=max_length, model_kwargs=options)


def main() -> None:
    """Answer line by line; whatever the libraries print goes to standard error."""
    folder, backend, precision, max_length, home, texts = sys.argv[1:]
    answers = sys.stdout
    with redirect_stdout(sys.stderr):
        model = opened(folder, backend, precision, int(max_length), home, texts)
        about = {"sentence-transformers": version, "transformers": transformers_version}
        print(json.dumps(about), file=answers, flush=True)
        for line in sys.stdin:
            query, documents = json.loads(line)
            order = [row["corpus_id"] for row in model.rank(query, documents)]
            print(json.dumps([int(place) for place in order]), file=answers, flush=True)


if __name__ == "__main__":
    main()

"""The notebook runs from top to bottom in a kernel of its own, offline, and is kept without outputs.

Oracle: its own cells, which end it where they fail; a picture is drawn and the words printed are those of `trace`.
"""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
MOST_SECONDS = 600  # of one cell on a busy machine; alone all of them take about twenty


def cells(kind: str) -> list[dict]:
    return [cell for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"] if cell["cell_type"] == kind]


def test_the_notebook_is_kept_without_outputs():
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells("code"))


def test_its_links_lead_to_pages():
    targets = [target for cell in cells("markdown") for target in re.findall(r"\]\(([^)]+)\)", "".join(cell["source"]))]
    assert len(targets) > 3
    assert [target for target in targets if not (NOTEBOOK.parent / target).is_file()] == []


@pytest.mark.skipif(find_spec("ipykernel") is None or find_spec("nbclient") is None, reason="no kernel to run it in")
def test_it_runs_from_top_to_bottom(tmp_path, monkeypatch):
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient

    # This very Python, whatever kernels are installed, with the tree beside the tests.
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = KernelSpec(argv=command, display_name="this", language="python")
    monkeypatch.setattr("jupyter_client.kernelspec.KernelSpecManager.get_kernel_spec", lambda *_: spec)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # its weights go with this folder
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=MOST_SECONDS, resources={"metadata": {"path": str(tmp_path)}}).execute()

    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    printed = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "6 [CLS] acting" in printed
    assert "with elimination: accuracy" in printed
    assert [output for output in outputs if "image/png" in output.get("data", {})]

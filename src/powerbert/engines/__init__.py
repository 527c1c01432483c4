"""Torch, ONNX Runtime and OpenVINO behind one small interface, and the export to the latter two."""

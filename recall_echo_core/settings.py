"""Which constants can be changed, and where do their values come from?

Defaults stand in the arithmetic; `.recall-echo.toml` in the memory's folder overrides them, and
arguments of `open_memory` override the file. What changes the meaning of evidence (`Folding`) is
also an event in the log, so that the past is answered with the settings of the past.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from recall_echo_core.confidence import (
    CONCENTRATION,
    CONTEXTS,
    DECAY_FLOOR,
    HALF_LIFE_DAYS,
    PRIOR_MEANS,
    Beta,
    prior,
)
from recall_echo_core.errors import StoreError
from recall_echo_core.names import normalised
from recall_echo_core.scoring import Weights

__all__ = ["FILE_NAME", "Folding", "Settings", "load_settings"]

FILE_NAME: Final = ".recall-echo.toml"


class Folding(msgspec.Struct, frozen=True, omit_defaults=True):
    """What turns evidence into posteriors; a change refolds every relation.

    Attributes:
        priors: Mean before any evidence, by context.
        concentration: How many pieces of evidence a prior weighs; higher moves slower.
        max_concentration: Cap on the evidence a belief rests on; lower forgets old evidence
            faster, `None` never does.
        half_life_days: Days until an unconfirmed confidence has halved.
        half_lives: The same by relation type, in normal form, where it differs.
        decay_floor: Fading stops here.
        single_valued: Relation types, in normal form, of which a subject has one value at a time.
    """

    priors: dict[str, float] = msgspec.field(default_factory=lambda: dict(PRIOR_MEANS))
    concentration: float = CONCENTRATION
    max_concentration: float | None = None
    half_life_days: float = HALF_LIFE_DAYS
    half_lives: dict[str, float] = msgspec.field(default_factory=dict)
    decay_floor: float = DECAY_FLOOR
    single_valued: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = set(self.priors) - set(CONTEXTS)
        if unknown:
            raise ValueError(f"unknown context {sorted(unknown)[0]!r}; known: {list(CONTEXTS)}")
        for mean in (*PRIOR_MEANS.values(), *self.priors.values()):
            prior(mean, self.concentration)
        if self.max_concentration is not None and not self.max_concentration > 0.0:
            raise ValueError(f"max_concentration must be above 0, not {self.max_concentration}")
        for days in (self.half_life_days, *self.half_lives.values()):
            if not 0.0 < days < float("inf"):
                raise ValueError(f"a half-life must be a finite number of days above 0, not {days}")
        if not 0.0 <= self.decay_floor <= 1.0:
            raise ValueError(f"decay_floor must lie in [0, 1], not {self.decay_floor}")

    def prior(self, context: str) -> Beta:
        """Return the belief a relation of this context starts from."""
        return prior(self.priors.get(context, PRIOR_MEANS[context]), self.concentration)

    def half_life(self, relation_type: str) -> float:
        """Return the half-life of a relation type, given in normal form, in days."""
        return self.half_lives.get(relation_type, self.half_life_days)


class Settings(msgspec.Struct, frozen=True):
    """Everything that can be set.

    Attributes:
        declared: The constants of `Folding` that the file or an argument gives; the log keeps the
            others.
        weights: What ranks hits.
        seeds: How many of the best entities are expanded through the graph.
        depth: How many relations away from a seed an entity may be.
        min_confidence: Relations below this are invisible to expansion and traversal.
        unsure_below: Relations believed less than this are told as unsure; raising it tells more
            so, 0 none.
        receipt_days: How long the receipt of a recall accepts feedback.
        index_batch: Vectors go to Chroma in batches of at least this many; until then they are
            searched exactly. Larger batches are cheaper a vector, smaller ones use less memory.
        background: Whether a thread embeds new texts behind the turn; without it the next
            recall does.
    """

    declared: dict[str, Any] = msgspec.field(default_factory=dict)
    weights: Weights = Weights()
    seeds: int = 3
    depth: int = 1
    min_confidence: float = 0.1
    unsure_below: float = 0.5
    receipt_days: float = 90.0
    index_batch: int = 256
    background: bool = True

    def folding(self, known: Folding) -> Folding:
        """Return the constants of the log with those declared here put over them."""
        return msgspec.structs.replace(known, **self.declared)

    def __post_init__(self) -> None:
        if self.seeds < 0 or self.depth < 0 or self.index_batch < 1:
            raise ValueError("seeds and depth must be at least 0, index_batch at least 1")
        if not 0.0 < self.min_confidence <= 1.0:
            raise ValueError(f"min_confidence must lie in (0, 1], not {self.min_confidence}")
        if not 0.0 <= self.unsure_below <= 1.0:
            raise ValueError(f"unsure_below must lie in [0, 1], not {self.unsure_below}")
        if not self.receipt_days > 0.0:
            raise ValueError(f"receipt_days must be above 0, not {self.receipt_days}")


# Key in the file -> (group of Settings, attribute).
KEYS: Final[Mapping[str, tuple[str, str]]] = {
    "graph.single_valued": ("folding", "single_valued"),
    "graph.scoring.weight_semantic": ("weights", "semantic"),
    "graph.scoring.weight_hotness": ("weights", "hotness"),
    "graph.scoring.weight_utility": ("weights", "utility"),
    "graph.confidence.priors": ("folding", "priors"),
    "graph.confidence.concentration": ("folding", "concentration"),
    "graph.confidence.max_concentration": ("folding", "max_concentration"),
    "graph.confidence.half_life_days": ("folding", "half_life_days"),
    "graph.confidence.half_lives": ("folding", "half_lives"),
    "graph.confidence.decay_floor": ("folding", "decay_floor"),
    "graph.expansion.seeds": ("", "seeds"),
    "graph.expansion.depth": ("", "depth"),
    "graph.expansion.min_confidence": ("", "min_confidence"),
    "recall.unsure_below": ("", "unsure_below"),
    "recall.receipt_days": ("", "receipt_days"),
    "vectors.index_batch": ("", "index_batch"),
    "vectors.background": ("", "background"),
}


def load_settings(folder: Path, overrides: Mapping[str, Any] | None = None) -> Settings:
    """Return the settings of a memory: the folder's file, then `overrides`, over the defaults.

    Args:
        folder: Where `.recall-echo.toml` may lie.
        overrides: The same tables as in the file, e.g. `{"graph": {"expansion": {"depth": 2}}}`.

    Raises:
        ValueError: the file is not TOML, a key is unknown (the closest known one is named), or a
            value does not fit.
        StoreError: the file cannot be read.
    """
    found: dict[str, Any] = {}
    path = folder / FILE_NAME
    try:
        if path.is_file():
            found.update(_flat(tomllib.loads(path.read_text(encoding="utf-8-sig")), str(path)))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid TOML: {error}") from error
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    found.update(_flat(overrides or {}, "settings"))
    return _built(found)


def _flat(table: Mapping[str, Any], origin: str, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        if path in KEYS:
            flat[path] = value
        elif isinstance(value, Mapping) and any(known.startswith(path + ".") for known in KEYS):
            flat.update(_flat(value, origin, f"{path}."))
        else:
            close = difflib.get_close_matches(path, KEYS, n=1, cutoff=0.4)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known: {', '.join(KEYS)}"
            raise ValueError(f"{origin} sets {path!r}, which is not a setting{hint}")
    return flat


def _built(values: Mapping[str, Any]) -> Settings:
    groups: dict[str, dict[str, Any]] = {"": {}, "folding": {}, "weights": {}}
    for path, value in values.items():
        group, attribute = KEYS[path]
        groups[group][attribute] = _normal(attribute, value)
    try:
        folding = msgspec.convert(groups["folding"], Folding)
        weights = msgspec.convert(groups["weights"], Weights)
        declared = {name: getattr(folding, name) for name in groups["folding"]}
        rest = {**groups[""], "weights": weights, "declared": declared}
        return msgspec.convert(rest, Settings)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"a setting has a wrong value: {error}") from error


def _normal(attribute: str, value: Any) -> Any:
    if attribute == "single_valued" and isinstance(value, (list, tuple, set, frozenset)):
        return [_type_name(name) for name in value]
    if attribute == "half_lives" and isinstance(value, Mapping):
        return {_type_name(name): days for name, days in value.items()}
    if attribute == "priors" and isinstance(value, Mapping):
        return {**PRIOR_MEANS, **value}
    return value


def _type_name(name: Any) -> Any:
    return normalised(name) if isinstance(name, str) else name  # what is no name is refused later

"""Random evidence and whole logs, the way hypothesis draws them."""

from __future__ import annotations

import msgspec
from hypothesis import strategies as st

from recall_echo_core.events import (
    SHAPES,
    EntityDescribed,
    EpisodeRecorded,
    Erased,
    Event,
    EvidenceObserved,
    EvidenceRetracted,
    FeedbackGiven,
    RecallLinked,
    RecallServed,
    RelationEnded,
    SettingsChanged,
    Stored,
    UsageMarked,
    type_key,
)
from recall_echo_core.names import identity
from recall_echo_core.settings import Folding
from recall_echo_core.times import DAY

SUBJECT = b"s" * 16
VALUES = [bytes([65 + i]) * 16 for i in range(4)]

days = st.integers(min_value=0, max_value=60).map(lambda day: day * DAY)
weights = st.floats(min_value=0.01, max_value=1.0)


@st.composite
def evidence(draw: st.DrawFn, number: int = 0) -> EvidenceObserved | RelationEnded:
    """One observation about one of four values, with or without a period."""
    value = draw(st.sampled_from(VALUES))
    common = {
        "id": number.to_bytes(16, "big"),
        "subject": SUBJECT,
        "subject_name": "S",
        "type": "LIVES_IN",
        "object": value,
        "object_name": value[:1].decode(),
        "observed_at": draw(days),
        "context": draw(st.sampled_from(["authoritative", "explicit", "inferred", "speculative"])),
    }
    if draw(st.integers(0, 9)) == 0:
        return RelationEnded(**common, at=draw(days))
    start = draw(st.none() | days)
    length = draw(st.none() | st.integers(min_value=1, max_value=40))
    end = None if length is None else (start or 0) + length * DAY
    supports = draw(st.booleans())
    return EvidenceObserved(
        **common,
        supports=supports,
        establishes=supports and draw(st.booleans()),
        weight=draw(weights),
        valid_from=start,
        valid_until=end,
    )


@st.composite
def bodies(draw: st.DrawFn, most: int = 12) -> list[EvidenceObserved | RelationEnded]:
    """Several observations with distinct ids, in arrival order."""
    count = draw(st.integers(min_value=0, max_value=most))
    return [draw(evidence(number)) for number in range(count)]


SUBJECTS = [SUBJECT, VALUES[0], VALUES[1]]  # who is also somebody's value
TYPES = ["LIVES_IN", "lives_in", "LIKES"]
SOURCES = ["user", "tool"]
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
moments = st.integers(-(2**50), 2**50)
ids = st.binary(min_size=16, max_size=16)
foldings = st.builds(
    Folding,
    single_valued=st.sampled_from([frozenset(), frozenset({"lives_in"})]),
    max_concentration=st.sampled_from([None, 14.0, 20.0]),
    half_life_days=st.sampled_from([30.0, 90.0]),
    priors=st.sampled_from([{}, {"inferred": 0.5}]),
)
scalars = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8)
plain = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)
described = st.builds(
    EntityDescribed,
    id=st.sampled_from([SUBJECT, *VALUES]),
    name=st.sampled_from(["Ann", "ANN", "Oslo"]),
    key=st.none() | names,
    kind=st.none() | names,
    abstract=st.none() | st.sampled_from(["", "a line", "another"]),
    overview=st.none() | names,
    content=st.none() | names,
    metadata=st.none() | st.dictionaries(names, plain, max_size=2),
)
episodes = st.builds(
    EpisodeRecorded,
    id=ids,
    content=names,
    time=moments,
    role=names,
    name=st.none() | names,
    session=st.none() | names,
    metadata=st.none() | st.dictionaries(names, plain, max_size=2),
)
recalls = st.builds(
    RecallServed,
    id=ids,
    at=moments,
    hits=st.lists(
        st.tuples(st.sampled_from(VALUES), st.just("entity"), st.floats(0, 1)),
        max_size=3,
        unique_by=lambda hit: hit[0],
    ),
    run=st.none() | ids,
)


@st.composite
def logs(draw: st.DrawFn, most: int = 25) -> list[Stored]:
    """Events of every kind, in a log as a memory writes it: what they refer to stands before."""
    log: list[Stored] = []
    for position in range(1, draw(st.integers(0, most)) + 1):
        kind = draw(st.sampled_from(["evidence"] * 4 + ["retraction", "feedback"] * 2 + OTHERS))
        event = draw(OTHER[kind]) if kind in OTHER else _referring(draw, kind, position, log)
        log.append(Stored(position, position * DAY, event))
    return log


OTHER = {
    "entity": described,
    "episode": episodes,
    "recall": recalls,
    "settings": st.builds(SettingsChanged, folding=foldings),
    "erased": st.builds(Erased, kind=st.sampled_from(sorted(SHAPES))),
}
OTHERS = [*OTHER, "usage", "link"]


def _referring(draw: st.DrawFn, kind: str, position: int, log: list[Stored]) -> Event:
    said = [item.event for item in log if isinstance(item.event, EvidenceObserved | RelationEnded)]
    served = [item.event for item in log if isinstance(item.event, RecallServed)]
    if kind == "retraction" and said:
        taken = draw(st.sampled_from(said))
        return EvidenceRetracted(taken.id, taken.subject, taken.type)
    if kind in ("feedback", "usage", "link") and served:
        recall = draw(st.sampled_from(served))
        if kind == "link":
            return RecallLinked(recall.id, draw(ids))
        shown = [item for item, _, _ in recall.hits]
        used = draw(st.lists(st.sampled_from(shown), unique=True)) if shown else []
        if kind == "usage":
            return UsageMarked(recall.id, used, "ids")
        source = draw(st.sampled_from(SOURCES))
        earlier = [
            item.position
            for item in log
            if isinstance(item.event, FeedbackGiven)
            and (item.event.recall, item.event.source) == (recall.id, source)
        ]
        unused = [item for item in shown if item not in used]
        reward = draw(st.floats(0, 1))
        replaced = earlier[-1] if earlier else None
        return FeedbackGiven(recall.id, source, reward, used, unused, replaced)
    return msgspec.structs.replace(
        draw(evidence(position)),
        subject=draw(st.sampled_from(SUBJECTS)),
        type=draw(st.sampled_from(TYPES)),
    )


SESSIONS = ["monday", "tuesday"]
SAID = ["S said so", "about a, b and C", "Oslo is nice", "nothing of note", "D's news"]
KNOWN = [SUBJECT, *VALUES]


@st.composite
def lives(draw: st.DrawFn, salt: bytes, most: int = 30) -> list[Stored]:
    """A log as `logs` gives it, whose evidence has sources and episodes, and whose receipts hit."""
    log = draw(logs(most))
    items = dict.fromkeys(KNOWN)
    items |= {
        identity(salt, "relation", e.subject.hex(), type_key(e.type), e.object.hex()): None
        for e in (stored.event for stored in log)
        if isinstance(e, EvidenceObserved | RelationEnded)
    }
    items |= {s.event.id: None for s in log if isinstance(s.event, EpisodeRecorded)}
    shown = draw(st.lists(st.sampled_from(list(items)), min_size=4, max_size=4, unique=True))
    hit = dict(zip(VALUES, shown, strict=True))
    told: list[bytes] = []
    return [
        msgspec.structs.replace(stored, event=_linked(draw, stored.event, hit, told))
        for stored in log
    ]


def _linked(draw: st.DrawFn, event: Event, hit: dict[bytes, bytes], told: list[bytes]) -> Event:
    replace = msgspec.structs.replace
    if isinstance(event, EvidenceObserved | RelationEnded):
        episode = draw(st.sampled_from([None, *told]))
        return replace(event, source=draw(st.sampled_from(SOURCES)), episode=episode)
    if isinstance(event, EpisodeRecorded):
        told.append(event.id)
        return replace(
            event,
            content=draw(st.sampled_from(SAID)),
            role=draw(st.sampled_from(SOURCES)),
            name=draw(st.sampled_from([None, "tool", "Ann"])),
            session=draw(st.sampled_from([None, *SESSIONS])),
        )
    if isinstance(event, RecallServed):
        return replace(event, hits=[(hit[item], kind, score) for item, kind, score in event.hits])
    if isinstance(event, UsageMarked):
        return replace(event, used=[hit[item] for item in event.used])
    if isinstance(event, FeedbackGiven):
        used, unused = ([hit[item] for item in items] for items in (event.used, event.unused))
        return replace(event, used=used, unused=unused)
    return event

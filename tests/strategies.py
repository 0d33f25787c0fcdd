"""Random evidence, the way hypothesis draws it."""

from __future__ import annotations

from hypothesis import strategies as st

from recall_echo_core.events import EvidenceObserved, RelationEnded
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

"""What can a model do with a memory of its own accord?

Five abilities, each a function of a call and its arguments that returns what the model reads and
a receipt for the program. Both frameworks make tools of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from pydantic import BaseModel, Field

from recall_echo_adapters.turns import Message, Save, asked, record_said
from recall_echo_core import Memory, NotFound, Relation, Statement, neutralised

__all__ = ["ABILITIES", "Ability", "AbilityName", "Call", "Receipt"]

AbilityName: TypeAlias = Literal["remember", "contradict", "recall", "explain", "forget"]
Receipt: TypeAlias = dict[str, Any]

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class Call:
    """One use of an ability: whose memory, and what is known of the turn it belongs to.

    Attributes:
        memory: The namespace.
        heard: What the user said in this turn; `None` outside a turn.
        found: What tools were asked in this turn, and what they answered.
        recalls: Ids of the recalls of this turn.
        said: The user's messages of this turn.
        session_id: The conversation.
        save: Whose messages are kept.
        run_id: The host's run.
        k: Most hits of a recall.
        max_tokens: Most tokens of a recall.
    """

    memory: Memory
    heard: str | None = None
    found: Sequence[tuple[str, str]] = ()
    recalls: Sequence[str] = ()
    said: Sequence[Message] = ()
    session_id: str | None = None
    save: Save = "none"
    run_id: str | None = None
    k: int = 5
    max_tokens: int | None = None


class Fact(BaseModel):
    """A relation between two things."""

    subject: str = Field(
        description="Who or what it is about, by name. The user is 'user' unless named."
    )
    relation: str = Field(description="The kind of relation, such as WORKS_AT, LIKES, LIVES_IN.")
    object: str = Field(description="The other thing or value, short, such as 'Acme' or 'tea'.")


class Told(Fact):
    """A fact, and who says so."""

    said_by_user: bool = Field(
        default=True, description="True if the user said so, false if you concluded it."
    )


class RememberArguments(Told):
    """What `remember` takes."""

    since: str | None = Field(
        default=None, description="Since when it holds, as an ISO date, if that was said."
    )


class ContradictArguments(Told):
    """What `contradict` takes."""


class RecallArguments(BaseModel):
    """What `recall` takes."""

    query: str = Field(description="What to look for, as a question or key words.")


class ForgetArguments(BaseModel):
    """What `forget` takes."""

    subject: str = Field(description="The person or thing, by name.")
    relation: str | None = Field(
        default=None, description="Only this kind of relation; needs object as well."
    )
    object: str | None = Field(default=None, description="Only the relation to this thing.")


@dataclass(frozen=True)
class Ability:
    """One thing a model can do: how it is described to it, what it takes, what it does."""

    name: AbilityName
    description: str
    arguments: type[BaseModel]
    run: Callable[[Call, Mapping[str, Any]], tuple[str, Receipt]]


def _remember(call: Call, given: Mapping[str, Any]) -> tuple[str, Receipt]:
    fact = RememberArguments.model_validate(given)
    relation = _told(call, fact, supports=True, said_by_user=fact.said_by_user, since=fact.since)
    if relation is None:
        return (
            "Not counted: this was recalled from memory, and nobody said it again in this turn.",
            {"namespace": call.memory.name, "counted": False},
        )
    return f"Noted: {_standing(relation)}", _evidence(call, relation)


def _contradict(call: Call, given: Mapping[str, Any]) -> tuple[str, Receipt]:
    fact = ContradictArguments.model_validate(given)
    relation = _told(call, fact, supports=False, said_by_user=fact.said_by_user)
    if relation is None:  # a contradiction repeats nothing, so it is this
        return (
            "Not counted: this very statement was taken back.",
            {"namespace": call.memory.name, "counted": False},
        )
    return f"Noted as doubted: {_standing(relation)}", _evidence(call, relation)


def _told(
    call: Call, fact: Fact, *, supports: bool, said_by_user: bool, since: str | None = None
) -> Relation | None:
    """Record a fact with the turn that says it, so that doing it twice counts once."""
    episodes = record_said(call.memory, call.said, call.session_id, call.save)
    ids = [said["id"] for said in call.said if said.get("id") is not None]
    message = f"{call.session_id or ''} {ids[-1]}" if ids else None  # unique in its session
    if call.heard is None and call.session_id is not None:
        message = f"{call.session_id} tools"  # unheard, a conversation says a thing once
    statement = Statement(
        subject=fact.subject,
        type=relation_type(fact.relation),
        object=fact.object,
        supports=supports,
        context="explicit" if said_by_user else "inferred",
        source="user" if said_by_user else "agent",
        valid_from=(since or "").strip() or None,  # models leave it out by an empty text
        episode_id=episodes[-1] if episodes else None,
        statement_id=None if episodes else message,
    )
    # Outside a turn nobody knows what was heard, so it is taken to be what is told.
    heard = fact.object if call.heard is None else call.heard
    return call.memory.admit(statement, heard=heard, recalls=call.recalls, found=call.found)


def _recall(call: Call, given: Mapping[str, Any]) -> tuple[str, Receipt]:
    query = asked(RecallArguments.model_validate(given).query)
    found = call.memory.recall(query, call.k, run_id=call.run_id, max_tokens=call.max_tokens)
    text = found.as_text(call.max_tokens) or "Nothing is remembered about that."
    ids = [hit.id for hit in found]
    return text, {"namespace": call.memory.name, "recall_id": found.id, "ids": ids}


def _explain(call: Call, given: Mapping[str, Any]) -> tuple[str, Receipt]:
    fact = Fact.model_validate(given)
    receipt = {"namespace": call.memory.name}
    try:
        why = call.memory.explain(fact.subject, relation_type(fact.relation), fact.object)
    except NotFound as error:
        return neutralised(str(error)), receipt
    return str(why), receipt


def _forget(call: Call, given: Mapping[str, Any]) -> tuple[str, Receipt]:
    which = ForgetArguments.model_validate(given)
    if (which.relation is None) != (which.object is None):
        raise ValueError("give relation and object both, or neither to forget all about subject")
    if which.relation is None or which.object is None:
        erased = call.memory.forget(entity=which.subject)
    else:
        erased = call.memory.forget(
            relation=(which.subject, relation_type(which.relation), which.object)
        )
    receipt = {"namespace": call.memory.name, "status": erased.status, "events": erased.events}
    if not erased.events:
        return neutralised(f"Nothing was known about {which.subject}."), receipt
    receipt["forgot"] = True
    gone = f"Forgotten (pieces of evidence: {erased.evidence}, messages: {erased.episodes})."
    if erased.status == "incomplete":
        gone += " Traces of it stay in files until nobody else has the memory open."
    return gone, receipt


def relation_type(said: str) -> str:
    """Return a relation type as it is usually written, however a model spelt it.

    >>> relation_type("works at"), relation_type("lives-in"), relation_type("worksAt")
    ('WORKS_AT', 'LIVES_IN', 'WORKS_AT')
    """
    apart = _CAMEL.sub(" ", said).replace("-", " ").replace("_", " ")
    return "_".join(apart.split()).upper()


def _standing(relation: Relation) -> str:
    sure = f"{neutralised(relation.text)}, {relation.effective():.0%} sure now"
    return f"{sure} ({relation.supports} for, {relation.opposes} against)"


def _evidence(call: Call, relation: Relation) -> Receipt:
    return {
        "namespace": call.memory.name,
        "counted": True,
        "evidence_id": relation.evidence_id,
        "confidence": relation.confidence,
    }


ABILITIES: Final[Mapping[AbilityName, Ability]] = {
    ability.name: ability
    for ability in (
        Ability(
            "remember",
            "Note a lasting fact for later conversations: about the user, people, things, wishes."
            " Use it when you learn something new or hear a known fact again, not for what you"
            " only read in your memory.",
            RememberArguments,
            _remember,
        ),
        Ability(
            "contradict",
            "Note that a fact in your memory is wrong or no longer true. It becomes doubted, and"
            " is not deleted. If something else is true instead, also call remember.",
            ContradictArguments,
            _contradict,
        ),
        Ability(
            "recall",
            "Search your memory of earlier conversations. Cite what you use by its mark, such as"
            " [M1].",
            RecallArguments,
            _recall,
        ),
        Ability(
            "explain",
            "Say why a fact is believed, and how much: each piece of evidence, who gave it, when.",
            Fact,
            _explain,
        ),
        Ability(
            "forget",
            "Erase a person or thing, or one fact, from your memory for good. Only when the user"
            " asks for it.",
            ForgetArguments,
            _forget,
        ),
    )
}

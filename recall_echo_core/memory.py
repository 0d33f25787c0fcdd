"""What is a memory: what can be recalled from it, and what came of that?

A memory is a view of now that can be told things, and that learns from the outcome of a turn
which of its memories helped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, cast
from uuid import UUID

import msgspec

from recall_echo_core.admission import Source, grounded
from recall_echo_core.arguments import checked_count, checked_name, checked_text, id_of
from recall_echo_core.errors import NotAllowed, StoreClosed, UnknownRecall
from recall_echo_core.events import Event, RecallLinked, RecallServed, UsageMarked
from recall_echo_core.keeping import Keeping
from recall_echo_core.names import identity
from recall_echo_core.outcomes import Receipt, receipt_of
from recall_echo_core.past import PastView
from recall_echo_core.recall import When
from recall_echo_core.recalled import Recall, UsageReceipt
from recall_echo_core.render import CountTokens, approximate_tokens
from recall_echo_core.times import Moment, moment
from recall_echo_core.usage import Shown, Usage, UsageMethod, detected, echoed
from recall_echo_core.utility import reward_of
from recall_echo_core.words import content_words

if TYPE_CHECKING:
    from recall_echo_core.engine import Engine, Room
    from recall_echo_core.model import Relation, Statement
    from recall_echo_core.stores.sql import Writer
    from recall_echo_core.texts import Kind

__all__ = ["Lease", "Memory"]


class Lease:
    """Whether the memory that was opened is still open; shared by its namespaces."""

    def __init__(self, release: Callable[[], None]) -> None:
        self._release, self.open = release, True

    def end(self) -> None:
        """Let go of the engine, once."""
        if self.open:
            self.open = False
            self._release()


class Memory(Keeping):
    """One namespace that can be asked and told things. Safe from any thread.

    Made by `open_memory`; use it in a `with` block, or call `close()`.
    """

    def __init__(self, engine: Engine, room: Room, lease: Lease, *, owner: bool = True) -> None:
        super().__init__(engine, room)
        self._lease, self._owner, self._closed = lease, owner, False

    # Recall and outcomes

    def recall(
        self,
        text: str,
        k: int = 5,
        kinds: Collection[Kind] | None = None,
        *,
        now: Moment | None = None,
        record_access: bool = True,
        run_id: str | None = None,
        max_tokens: int | None = None,
        count_tokens: CountTokens = approximate_tokens,
    ) -> Recall:
        """Return the memories that answer a question best, and a receipt.

        Args:
            text: The question.
            k: Most hits; raising it adds less relevant ones at the end.
            kinds: Which of entity, relation and episode to look for; all when `None`.
            now: The moment to answer at, moved for tests and replays.
            record_access: Whether being recalled makes the hits hotter; without it there is no
                receipt and no trace.
            run_id: The host's run this belongs to, for `feedback_for_run`.
            max_tokens: Most tokens that `as_text()` may take; hits that do not fit are left out,
                of the receipt too.
            count_tokens: How many tokens a text has; by default about one for three bytes.
        """
        most = None if max_tokens is None else checked_count(max_tokens, "max_tokens")
        when = self._when() if now is None else _at(moment(now, "now"))
        run = None if run_id is None else self._run(run_id)
        found = self._recall(text, k, kinds, when)
        if most is not None:
            shown = found.within(most, count_tokens=count_tokens)
            found = msgspec.structs.replace(found, hits=shown)
        if not record_access:
            return found
        hits: list[tuple[bytes, str, float]] = [
            (bytes.fromhex(hit.id), hit.kind, hit.score) for hit in found.hits
        ]
        at = min(when.now, self._engine.now())  # a clock moved ahead does not heat for ever
        served = RecallServed(self._engine.new_id(), at, hits, run)
        self._room.receipts.add(served, content_words(text))
        self._engine.written(self._room)
        return msgspec.structs.replace(found, id=served.id.hex())

    def mark_used(
        self,
        recall_id: str | None,
        *,
        response: str | None = None,
        actions: str = "",
        used: Collection[str] | None = None,
        question: str | None = None,
        replace: bool = True,
    ) -> UsageReceipt:
        """Say which hits of a recall were used, or let it be told from the answer.

        Decided by the first that applies: `used`; citations such as `[M1]` in the response;
        content words the response shares with a hit but not with the question; else unknown.

        Args:
            recall_id: `Recall.id`.
            response: The answer given.
            actions: What was done besides, such as arguments of tools: a memory may show there.
            used: Ids or aliases; an empty list says that none was used.
            question: What was asked; needed only where the recall was made by another process.
            replace: Whether an earlier marking gives way; otherwise what is known stays, also
                that nothing was marked before feedback, and is returned.

        Raises:
            UnknownRecall: no such receipt, or it has expired.
            NotAllowed: feedback has been given, and `replace` is true.
        """
        recall = self._recall_id(recall_id)
        asked = self._room.receipts.question(recall)
        if question is not None:
            asked = content_words(checked_text(question, "question"))
        answer = "" if response is None else checked_text(response, "response")
        done = _heard(actions, "actions")
        shown = self._shown_hits(self._receipt(recall))
        echo = response is not None and echoed(shown, answer, asked or ())
        shows = None if response is None else f"{answer}\n{done}"
        usage: Usage | UsageMarked = detected(shown, used=used, response=shows, question=asked)

        def decide(writer: Writer) -> Sequence[Event]:
            nonlocal usage
            receipt = self._receipt_in(writer, recall)
            if not replace and (receipt.usage is not None or receipt.verdicts):
                usage = receipt.usage or Usage((), "unknown")
                return []
            return receipt.marked(usage.used, usage.method)

        self._append(decide)
        return _usage_receipt(recall, usage, echo)

    def feedback(
        self, recall_id: str | None, outcome: str | float, *, source: str = "user"
    ) -> None:
        """Say how the turn ended: success, partial, failed, or a number in [0, 1].

        Moves the utility of the hits, never their confidence: used ones towards the outcome,
        unused ones towards 0.3. Of several verdicts of one source the last counts.

        Raises:
            UnknownRecall: no such receipt, or it has expired.
        """
        recall, reward = self._recall_id(recall_id), reward_of(outcome)
        judge = checked_name(source, "source")
        self._engine.save_receipts(self._room)

        def decide(writer: Writer) -> Sequence[Event]:
            return self._receipt_in(writer, recall).judged(reward, judge)

        self._append(decide)

    def feedback_for_run(self, run_id: str, score: float, *, key: str = "outcome") -> int:
        """Give every recall of a host's run a verdict; return how many took it.

        A recall whose receipt has expired is passed over.

        Args:
            run_id: What was given to `recall(run_id=)`.
            score: In [0, 1]; `True` and `False` count as 1 and 0.
            key: Names the verdict; a later one of the same key replaces it.

        Raises:
            UnknownRecall: no recall belongs to the run, or the receipts of all have expired.
        """
        run = self._run(run_id)
        reward = _reward_of_score(score)
        self._engine.save_receipts(self._room)
        namespace = self._room.namespace
        recalls = {
            (event.id if isinstance(event, RecallServed) else event.recall).hex(): None
            for stored in namespace.log.read(namespace.key, run=run)
            if isinstance(event := stored.event, (RecallServed, RecallLinked))
        }  # in their order, each once: an import may bring the same link again
        taken = 0
        for recall_id in recalls:
            with suppress(UnknownRecall):
                self.feedback(recall_id, reward, source=key)
                taken += 1
        if not taken:
            raise UnknownRecall(run_id, "no recall of this run has a receipt (any more)")
        return taken

    def link(self, recall_id: str | None, run_id: str) -> None:
        """Say that a recall belongs to this run of the host too; doing it twice is fine.

        One turn may span several runs, as when it is paused and resumed.

        Args:
            recall_id: `Recall.id`.
            run_id: What `feedback_for_run` will be asked with.

        Raises:
            UnknownRecall: no such receipt, or it has expired.
        """
        recall, run = self._recall_id(recall_id), self._run(run_id)
        self._engine.save_receipts(self._room)

        def decide(writer: Writer) -> Sequence[Event]:
            served = self._receipt_in(writer, recall).served
            known = [stored.event for stored in writer.about(recall, ("link",))]
            linked = RecallLinked(recall, run)
            return [] if served.run == run or linked in known else [linked]

        self._append(decide)

    # Evidence out of a turn with recalls

    def admit(
        self,
        statement: Statement,
        *,
        heard: str,
        recalls: Collection[str] = (),
        found: Sequence[tuple[str, str]] = (),
    ) -> Relation | None:
        """Record what a model gathered from a turn, unless it only repeats what was recalled.

        A statement whose object nobody but the memory named in this turn is no evidence. If an
        episode that was recalled names it, and not the model spoke it, that episode is what says
        so: then, and once.

        Args:
            statement: What the model states; give it the turn's `episode_id` or a `statement_id`,
                so that a repeated call counts once.
            heard: What the user said in this turn.
            recalls: Ids of the recalls of this turn; unknown ones are passed over.
            found: Of each use of a tool in this turn, what the model asked and what the tool
                answered. An answer that quotes the memory is no evidence.

        Returns:
            The relation as it is believed now; `None` if nothing was recorded, also where this
            very statement has been taken back.
        """
        self._check_episodes([self._telling().evidence(statement)])
        _heard(heard, "heard")
        if isinstance(recalls, str):
            raise TypeError(f"recalls must be a list of ids; write recalls=[{recalls!r:.60}]")
        shown: list[Shown] = []
        for recall_id in recalls:
            with suppress(UnknownRecall):
                shown += self._shown_hits(self._receipt(self._recall_id(recall_id)))
        with self._reading() as graph:
            marks = [(hit.id, graph.episodes.get(hit.id)) for hit in shown]
        episodes = [Source(id, mark.role, mark.time) for id, mark in marks if mark is not None]
        admitted = grounded(statement, heard, shown, episodes, found)
        if admitted is not None:
            with suppress(NotAllowed):  # this very statement was taken back
                return self._state(admitted)
        return None

    # Other moments, other namespaces, the end

    def as_of(self, known_at: Moment | None = None, *, valid_at: Moment | None = None) -> PastView:
        """Return the view of an earlier moment: what was known then, faded to then.

        Args:
            known_at: Only what was recorded by then is known; a bare date means its end. All that
                is known now if not given.
            valid_at: The moment asked about; `known_at` if not given.
        """
        self._check_open()
        known = self._engine.now() if known_at is None else moment(known_at, "known_at")
        asked = known if valid_at is None else moment(valid_at, "valid_at")
        return PastView(self._engine, self._room, known, asked, self._check_open)

    def namespace(self, name: str) -> Memory:
        """Return another namespace of this store; nothing crosses between them."""
        self._check_open()
        return Memory(self._engine, self._engine.room(name), self._lease, owner=False)

    def namespaces(self) -> list[str]:
        """Return the names of all namespaces of this store, sorted."""
        self._check_open()
        return self._engine.log.namespaces()

    def close(self) -> None:
        """Make everything durable and let go of the files; closing twice is fine.

        Closing a memory that `namespace()` returned closes that one only.
        """
        self._closed = True
        if self._owner:
            self._lease.end()

    def __enter__(self) -> Memory:
        self._check_open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Inside

    def _check_open(self) -> None:
        if self._closed or not self._lease.open:
            raise StoreClosed()

    def _recall_id(self, recall_id: str | None) -> bytes:
        self._check_open()
        if recall_id is None:  # what recall(record_access=False) leaves
            raise ValueError("this recall has no receipt, since record_access=False leaves none")
        return id_of(recall_id, "recall_id")

    def _run(self, run_id: object) -> bytes:
        self._check_open()
        if isinstance(run_id, bool) or not isinstance(run_id, (str, int, UUID)):
            raise TypeError(f"run_id must be text, a number or a UUID, not {run_id!r:.60}")
        return identity(self._room.namespace.key.salt, "run", checked_name(str(run_id), "run_id"))

    def _receipt(self, recall: bytes) -> Receipt:
        self._engine.save_receipts(self._room)
        namespace = self._room.namespace
        about = namespace.log.read(namespace.key, ref=recall)
        return receipt_of(recall, about, self._engine.now(), self._engine.settings.receipt_days)

    def _receipt_in(self, writer: Writer, recall: bytes) -> Receipt:
        days = self._engine.settings.receipt_days
        return receipt_of(recall, writer.about(recall), self._engine.now(), days)

    def _shown_hits(self, receipt: Receipt) -> list[Shown]:
        """Return the hits of a receipt as they were shown, with their texts of today."""
        texts = self._room.indexing.texts_of(receipt.served.items())
        return [
            Shown(item, f"M{number}", texts.get(item, ""))
            for number, (item, _, _) in enumerate(receipt.served.hits, 1)
        ]


def _usage_receipt(recall: bytes, usage: Usage | UsageMarked, echo: bool) -> UsageReceipt:
    used = tuple(item.hex() for item in usage.used)
    return UsageReceipt(recall.hex(), used, cast("UsageMethod", usage.method), echo)


def _heard(text: object, what: str) -> str:
    """Return text that is read and never stored, so that any length and any sign will do."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be text, not {type(text).__name__} ({text!r:.60})")
    return text


def _reward_of_score(score: object) -> float:
    """Return a score as a reward; a `bool` is one here, as feedback tools send it."""
    if isinstance(score, bool):
        return float(score)
    if not isinstance(score, (int, float)):
        raise TypeError(f"score must be a number in [0, 1], not {score!r:.60}")
    return reward_of(score)


def _at(now: int) -> When:
    return When(now, now)

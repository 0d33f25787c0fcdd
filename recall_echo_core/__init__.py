"""A memory for agents that says how sure it is, changes its mind, and can look back.

Every relation between two things is a Beta posterior: evidence for and against moves it, it fades
with age when read, and it multiplies along a path. Start with `open_memory`.
"""

from recall_echo_core.bootstrap import open_memory
from recall_echo_core.confidence import Beta
from recall_echo_core.errors import NotAllowed, NotFound, RecallEchoError, UnknownRecall
from recall_echo_core.explain import Explanation
from recall_echo_core.memory import Memory
from recall_echo_core.model import Belief, Entity, Episode, Path, Reach, Relation, Statement
from recall_echo_core.past import PastView
from recall_echo_core.recalled import Hit, Recall, UsageReceipt
from recall_echo_core.render import approximate_tokens, fenced, fitting, neutralised

__all__ = [
    "Belief",
    "Beta",
    "Entity",
    "Episode",
    "Explanation",
    "Hit",
    "Memory",
    "NotAllowed",
    "NotFound",
    "PastView",
    "Path",
    "Reach",
    "Recall",
    "RecallEchoError",
    "Relation",
    "Statement",
    "UnknownRecall",
    "UsageReceipt",
    "approximate_tokens",
    "fenced",
    "fitting",
    "neutralised",
    "open_memory",
]

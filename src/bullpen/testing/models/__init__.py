"""Model servers for tests: the vendors' APIs, answered by a Python function."""

from bullpen.testing.models.playbook import Playbook, Step
from bullpen.testing.models.server import Brain, MockModels
from bullpen.testing.models.shapes import (
    Api,
    Call,
    Fault,
    ModelRequest,
    Reply,
    Result,
    Turn,
    tokens_of,
)

__all__ = [
    "Api",
    "Brain",
    "Call",
    "Fault",
    "MockModels",
    "ModelRequest",
    "Playbook",
    "Reply",
    "Result",
    "Step",
    "Turn",
    "tokens_of",
]

"""The tool that asks a person. The call waits for the answer, and works on without one."""

from __future__ import annotations

from pydantic import Field

from bullpen.agents.contracts.desk import Desk
from bullpen.agents.contracts.tool import Tool, ToolInput
from bullpen.agents.tools.documented_tool import documented
from bullpen.team.requests.question_rules import OPTIONS_MAX, QUESTIONS_MAX


class OptionInput(ToolInput):
    """One possible answer."""

    label: str = Field(min_length=1, max_length=200, description="A few words")
    description: str | None = Field(None, max_length=2_000, description="What it means")


class QuestionInput(ToolInput):
    """One question."""

    question: str = Field(min_length=1, max_length=4_000, description="The question")
    header: str | None = Field(None, max_length=200, description="Its topic in a word")
    options: list[OptionInput] = Field(
        default_factory=list, max_length=OPTIONS_MAX, description="Possible answers"
    )
    multi_select: bool = Field(
        False, alias="multiSelect", description="Several options may be chosen"
    )


class AskUserQuestionInput(ToolInput):
    """Input of AskUserQuestion."""

    questions: list[QuestionInput] = Field(
        min_length=1, max_length=QUESTIONS_MAX, description="Usually one"
    )


async def _ask(given: AskUserQuestionInput, desk: Desk) -> str:
    """Ask a person and wait for the answer. Ask only what you cannot find out or decide."""
    asked = given.model_dump(by_alias=True, exclude_none=True)["questions"]
    return await desk.ask_person(asked)


ASK_USER_QUESTION: Tool[Desk] = documented(
    "AskUserQuestion", AskUserQuestionInput, "team", _ask, deferred=True
)

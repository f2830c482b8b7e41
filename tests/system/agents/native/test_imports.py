"""What the process of a native agent imports: its model's library, and nothing that it may need."""

from __future__ import annotations

import subprocess
import sys

import pytest

UNUSED = ("acp", "boto3", "google.genai", "mcp", "nats", "PIL", "pypdf", "starlette", "textual")


@pytest.mark.parametrize(
    ("rehearsal", "own", "other"),
    [("anthropic", "anthropic", "openai"), ("chat", "openai", "anthropic")],
)
def test_an_agent_imports_the_library_of_its_model_alone(
    rehearsal: str, own: str, other: str
) -> None:
    """Up to its first answer."""
    code = (
        "import sys, bullpen.doors.cli.agents.agent_run\n"
        "from bullpen.agents.drivers.native.provider import rehearsal\n"
        f"rehearsal.{rehearsal}()\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    found = set(done.stdout.split())
    assert own in found
    assert not found & {other, *UNUSED}

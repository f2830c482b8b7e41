"""Pages whose commands another test runs, or none."""

from __future__ import annotations

ELSEWHERE = {
    "docs/protocol.md": "tests/docs/test_protocol_page_runs.py",
    "docs/reference/scripts.md": "tests/docs/test_readme_run.py",
}
"""Pages whose blocks another test runs."""

NOT_TYPED = ["docs/howto/claude-code-teams.md"]
"""Pages whose blocks for a shell are listed with a reason, too."""

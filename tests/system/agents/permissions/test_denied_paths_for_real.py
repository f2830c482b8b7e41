"""The lines against a denied path, run by the real bash: what passes, and what it shows."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from bullpen.agents.contracts.call import Call, Rights
from bullpen.agents.permissions.decide import decide
from support.hostile import generated_lines

LINES = json.loads(Path(generated_lines.__file__).with_name("table_lines.json").read_text("utf-8"))
UNSEEN = {"hard link", "history", "search"}


def test_what_passes_shows_the_secret_only_in_the_ways_that_the_page_names(tmp_path: Path) -> None:
    """R-4.1: with the history and the links that these lines need."""
    project, home = tmp_path / "p", tmp_path / "home"
    (project / "secrets").mkdir(parents=True)
    home.mkdir()
    for name in (".env", "secrets/key"):
        (project / name).write_text("SECRETVALUE\n", "utf-8")
    (project / "a.txt").write_text("x\n", "utf-8")
    (project / "ln").symlink_to("secrets")
    (project / "soft").symlink_to(".env")
    os.link(project / ".env", project / "hard")
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "OLDPWD": str(project)}
    for words in ("init -q", "add -f .env", "-c user.name=a -c user.email=b commit -qm x"):
        subprocess.run(["git", *words.split()], cwd=project, env=env, check=True)
    deny = ("Read(.env)", "Read(secrets/**)")
    rights = Rights("dontAsk", str(project), str(home), tuple(LINES["paths_allow"]), deny)
    shown = set()
    for line, unseen in LINES["paths"]:
        aimed = line.replace("{project}", str(project)).replace("{home}", str(home))
        if decide(Call("Bash", {"command": aimed}, "run"), rights).effect == "allow":
            run = subprocess.run(
                ["/bin/bash", "-c", aimed],
                cwd=project,
                env=env,
                text=True,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )
            if "SECRETVALUE" in run.stdout:
                shown.add(unseen)
    assert shown == UNSEEN

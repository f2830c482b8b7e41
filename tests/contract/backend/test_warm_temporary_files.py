"""A warm parent serves agents that each have another folder for temporary files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bullpen.agents.backends.subprocess import Detached
from bullpen.agents.drivers.registry import modules_of
from bullpen.agents.system.vendors.model_providers import PROVIDERS
from bullpen.protocol.agent import AgentSpec
from bullpen.testing.backend_contract import Launcher, content, until
from support.agents.warm_starts import warm_start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has warm starts")

# Says who asks for TMPDIR, or for the folder that it names, while modules are imported.
_WHO_ASKS = """
import os, tempfile, traceback
from bullpen.agents.backends.warm_start.parent import _get_ready

class Watched(type(os.environ)):
    def __getitem__(self, name):
        if name == "TMPDIR":
            said()
        return super().__getitem__(name)
    def items(self):
        return dict.items({name: super(Watched, self).__getitem__(name) for name in self})

def said(*_):
    traceback.print_stack(limit=5)
    raise OSError("nothing is said about it")

os.environ.__class__ = Watched
tempfile.gettempdir = tempfile.gettempdirb = said
from bullpen.doors.cli.agents import warm_parent
_get_ready(%r)
"""


async def test_agents_with_other_folders_for_temporary_files_share_a_parent(tmp_path: Path) -> None:
    """Each worktree has its own; that of the first agent may be removed before the others start."""
    code = "import tempfile; open('said', 'w').write(tempfile.gettempdir())"
    with warm_start() as warm:
        backend = Detached(warm)
        start = Launcher(backend, tmp_path)
        for name in ("first", "second"):
            launch = start.launch(sys.executable, "-c", code)
            own = os.path.join(launch.cwd, name)
            os.mkdir(own)
            # The parent has asked for one of its own, as an import might.
            modules = ("tempfile:gettempdir",)
            await backend.start(replace(launch, env={**launch.env, "TMPDIR": own}, modules=modules))
            await until(_has_said(launch.cwd), "it has said it")
            assert content(f"{launch.cwd}/said") == own
            (parent,) = warm.parents()
            assert "TMPDIR" not in content(f"/proc/{parent}/environ")
            os.rmdir(own)
        assert len(warm.forked) == 2
        await backend.aclose()
        start.end_all()


def _has_said(folder: str) -> Callable[[], bool]:
    return lambda: os.path.exists(f"{folder}/said") and content(f"{folder}/said") != ""


@pytest.mark.nightly
def test_nothing_that_agents_import_asks_for_the_folder_of_temporary_files() -> None:
    """It would keep that of the parent. A new version of a library may begin to."""
    modules: set[str] = set()
    for name, provider in PROVIDERS.items():
        spec = AgentSpec.new(driver="native", backend="subprocess", cwd="/", model=f"{name}:x")
        asked = (*provider.keys, provider.url_variable, *provider.more)
        modules |= {*modules_of(spec, dict.fromkeys(asked, "http://127.0.0.1"))}
    assert {f"pydantic_ai.models.{name}" for name in ("anthropic", "google", "bedrock")} <= modules
    code = _WHO_ASKS % sorted(modules)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""

"""Starts a command that is closed in, and waits: the process of an agent, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys

from bullpen.agents.sandbox import closed_in, inner_environment
from bullpen.protocol.policy import Sandbox

if __name__ == "__main__":
    cwd, command = sys.argv[1:]
    env = dict(os.environ)
    words = closed_in(
        ["/bin/bash", "-c", command], cwd=cwd, directories=(), sandbox=Sandbox.new(), env=env
    )
    subprocess.run(words, cwd=cwd, env=inner_environment(env), check=False, start_new_session=True)

"""Starts a command that is closed in, and waits: the process of an agent, to be killed."""

from __future__ import annotations

import os
import subprocess
import sys

from bullpen.protocol.policy import Sandbox
from bullpen.sandbox.command import sandboxed_command
from bullpen.sandbox.inner_environment import inner_environment

if __name__ == "__main__":
    cwd, command = sys.argv[1:]
    env = dict(os.environ)
    words = sandboxed_command(
        ["/bin/bash", "-c", command], cwd=cwd, directories=(), sandbox=Sandbox.new(), env=env
    )
    subprocess.run(words, cwd=cwd, env=inner_environment(env), check=False, start_new_session=True)

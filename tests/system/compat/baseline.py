"""Write the answers of a commit down, run with its Python: `python -m compat.baseline [PHASE ...]`.

With `tests/system` on the path. Only the commit that the recording is of may write them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from .phases import PHASES
from .stage import HERE


def main() -> None:
    for name in sys.argv[1:] or PHASES:
        with tempfile.TemporaryDirectory() as folder:
            answers = PHASES[name](Path(folder, "root"))
        text = json.dumps(answers, indent=1, ensure_ascii=False) + "\n"
        (HERE / "cli_json" / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()

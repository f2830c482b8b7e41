"""`python -m bullpen` is `bullpen`."""

from __future__ import annotations

from bullpen.doors.cli.main import main

if __name__ == "__main__":
    main()

"""One limiter for a credential, over all processes: no request goes faster than the API allows."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from bullpen.testing.models import Fault, MockModels, ModelRequest, Reply

AGENT = """
    import sys, anyio
    from contextlib import nullcontext
    from pathlib import Path
    from urllib.request import Request, urlopen
    from urllib.error import HTTPError
    from bullpen.agents.drivers.native.limiter import Limiter, RequestFailed

    def ask(url):
        body = b'{"model": "m", "messages": [], "max_tokens": 1}'
        try:
            urlopen(Request(url + "/v1/messages", body), timeout=30).read()
        except HTTPError as error:
            error.close()
            after = error.headers.get("retry-after")
            raise RequestFailed("rate_limit", "429", retry_after_s=float(after) if after else None)

    async def main(folder, url):
        limiter = Limiter(Path(folder), "key")
        for _ in range(3):
            await limiter.run(
                lambda: anyio.to_thread.run_sync(ask, url), waiting=lambda on: nullcontext()
            )

    anyio.run(main, *sys.argv[1:])
"""


def test_eight_processes_stay_under_the_limit_of_an_api_that_refuses(tmp_path: Path) -> None:
    """R-3.7: real processes, a real clock, a server that refuses for 8 seconds."""
    refused_until = [0.0]
    refusals: list[float] = []

    def brain(request: ModelRequest) -> Reply | Fault:
        if not refused_until[0]:
            refused_until[0] = request.at + 8.0
        if request.at < refused_until[0]:
            refusals.append(request.at)
            return Fault.rate_limited()
        return Reply("answer")

    program = textwrap.dedent(AGENT)
    with MockModels(brain) as mock:
        agents = [
            subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "limits"), mock.url])
            for _ in range(8)
        ]
        try:
            codes = [agent.wait(400) for agent in agents]
        finally:
            for agent in agents:
                agent.kill()
                agent.wait(30)
    assert codes == [0] * 8, "nobody gave up"
    assert len(mock.requests) - len(refusals) == 24, "no work was lost"
    # Those that were under way at the first refusal, then at most one for each delay.
    began = refusals[0]
    assert len([at for at in refusals if at > began + 1.0]) <= 4

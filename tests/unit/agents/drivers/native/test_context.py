"""How full the context window is, as the native driver tells it after each request."""

from __future__ import annotations

from bullpen.testing.models import ModelRequest as Asked
from bullpen.testing.models import Reply
from support.agents.in_process_models import InProcessModels
from support.agents.native_workplace import Workplace


async def test_each_request_tells_how_much_of_the_window_it_took_with_what_a_cache_gave(
    workplace: Workplace,
) -> None:
    """R-6.1: cached tokens cost less, and fill the window all the same."""
    workplace.desk.spec = workplace.desk.spec.evolve(options={"context_window": 10_000})
    sizes = iter([(2_500, 0, 0), (1_000, 3_000, 500)])

    def brain(request: Asked) -> Reply:
        fresh, read, wrote = next(sizes)
        return Reply("Done.", input_tokens=fresh, cache_read_tokens=read, cache_write_tokens=wrote)

    with InProcessModels(brain) as mock:
        async with workplace.driver(mock) as native:
            await workplace.turn(native)
            await workplace.turn(native, "Once more.")
    assert workplace.desk.contexts == [(2_500, 10_000), (4_500, 10_000)]

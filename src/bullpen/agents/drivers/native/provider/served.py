"""Ask a gateway or a local server what its model can take and costs. It may not tell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import anyio
import httpx2

from bullpen.agents.drivers.native.model_choice import ModelChoice
from bullpen.agents.drivers.native.provider.options import ModelOptions
from bullpen.errors import Invalid

DEADLINE_S = 3.0
"""How long all questions together may take."""

_BYTES_MAX = 8_000_000
_MILLION = 1_000_000
_NUM_CTX = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


async def told_by_server(choice: ModelChoice, client: httpx2.AsyncClient) -> ModelOptions:
    """What the server of a model tells about it; nothing if it does not answer in time."""
    asked = _Server(choice, client)
    found: Mapping[str, Any] = {}
    with anyio.move_on_after(DEADLINE_S):
        match choice.provider.prefix:
            case "ollama":
                found = await asked.ollama()
            case "litellm":
                found = await asked.litellm()
            case "llamacpp":
                found = await asked.llamacpp()
            case "openrouter" | "groq" | "vllm":
                found = await asked.listed()
            case "openai-chat" if choice.base_url != choice.provider.url:
                found = await asked.listed()
    try:
        return ModelOptions.of(found)
    except Invalid:
        # It tells nonsense.
        return ModelOptions()


class _Server:
    """One server, as it is asked about one model."""

    def __init__(self, choice: ModelChoice, client: httpx2.AsyncClient) -> None:
        self._model = choice.model
        self._client = client
        self._base = choice.base_url.rstrip("/")
        self._root = self._base.removesuffix("/v1")
        self._headers = {"authorization": f"Bearer {choice.key}"} if choice.key else {}

    async def listed(self) -> dict[str, Any]:
        """What the list of models tells, which most servers have."""
        entry = self._entry(_list(await self._get(f"{self._base}/models"), "data"), "id")
        meta, top, price = _table(entry, "meta"), _table(entry, "top_provider"), "pricing"
        prices = _table(entry, price)
        return _stated(
            context_window=_first(
                _count(entry.get("max_model_len")),
                _count(entry.get("context_length")),
                _count(entry.get("context_window")),
                _count(meta.get("n_ctx")),
            ),
            max_output=_first(
                _count(top.get("max_completion_tokens")),
                _count(entry.get("max_completion_tokens")),
            ),
            input_price=_per_million(prices.get("prompt")),
            output_price=_per_million(prices.get("completion")),
            cache_read_price=_per_million(prices.get("input_cache_read")),
            cache_write_price=_per_million(prices.get("input_cache_write")),
        )

    async def llamacpp(self) -> dict[str, Any]:
        """The window of one slot: what the whole server has is shared by its slots."""
        model = quote(self._model, safe="")
        props = await self._get(f"{self._root}/props?model={model}")
        window = _count(_table(props, "default_generation_settings").get("n_ctx"))
        return {"context_window": window} if window else await self.listed()

    async def ollama(self) -> dict[str, Any]:
        """The window that the model runs with; not the one it was trained with."""
        running = _list(await self._get(f"{self._root}/api/ps"), "models")
        window = _count(self._entry(running, "model", alone=False).get("context_length"))
        if window is None:
            shown = await self._get(f"{self._root}/api/show", {"model": self._model})
            told = _NUM_CTX.search(str(_table({"": shown}, "").get("parameters") or ""))
            window = int(told[1]) if told else None
        return _stated(context_window=window)

    async def litellm(self) -> dict[str, Any]:
        """What the gateway's table of models tells."""
        rows = _list(await self._get(f"{self._root}/model/info"), "data")
        told = _table(self._entry(rows, "model_name", alone=False), "model_info")
        return _stated(
            context_window=_count(told.get("max_input_tokens")),
            max_output=_count(told.get("max_output_tokens")),
            input_price=_per_million(told.get("input_cost_per_token")),
            output_price=_per_million(told.get("output_cost_per_token")),
            cache_read_price=_per_million(told.get("cache_read_input_token_cost")),
            cache_write_price=_per_million(told.get("cache_creation_input_token_cost")),
        )

    def _entry(self, entries: Iterable[Any], name: str, *, alone: bool = True) -> Mapping[str, Any]:
        """The entry of the model; with `alone`, also the only one, which then is what is served."""
        rows = [row for row in entries if isinstance(row, dict)]
        for row in rows:
            if self._model in (row.get(name), *_list(row, "aliases")):
                return row
        return rows[0] if alone and len(rows) == 1 else {}

    async def _get(self, url: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON at an address; None if there is none, or far too much."""
        raw = b""
        with suppress(httpx2.HTTPError, ValueError):
            request = self._client.build_request(
                "GET" if body is None else "POST", url, json=body, headers=self._headers
            )
            answer = await self._client.send(request, stream=True)
            try:
                if answer.status_code != 200:
                    return None
                async for piece in answer.aiter_bytes():
                    raw += piece
                    if len(raw) > _BYTES_MAX:
                        return None
            finally:
                await answer.aclose()
            return json.loads(raw)
        return None


def _table(of: Any, key: str) -> Mapping[str, Any]:
    found = of.get(key) if isinstance(of, dict) else None
    return found if isinstance(found, dict) else {}


def _list(of: Any, key: str) -> list[Any]:
    found = of.get(key) if isinstance(of, dict) else None
    return found if isinstance(found, list) else []


def _count(value: object) -> int | None:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and isinstance(value, int) and value > 0 else None


def _per_million(value: object) -> float | None:
    """A price for one token, which may be a text, as one for a million."""
    if not isinstance(value, int | float | str) or isinstance(value, bool):
        return None
    try:
        price = float(value) * _MILLION
    except ValueError:
        return None
    # A price below zero means that it depends.
    return round(price, 6) if 0 <= price < float("inf") else None


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def _stated(**values: float | None) -> dict[str, Any]:
    """What is known. One price alone says nothing."""
    found = {name: value for name, value in values.items() if value is not None}
    if "input_price" not in found or "output_price" not in found:
        found = {name: value for name, value in found.items() if not name.endswith("_price")}
    return found

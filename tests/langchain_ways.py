"""Every way a runnable of LangChain can be run, under one signature."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest


def letters(texts: list[str]) -> list[list[float]]:
    """Texts of the same letters are near; the meaning of words does not matter here."""
    signs = "abcdefghijklmnopqrstuvwxyz0123456789"
    return [[0.01, *(float(text.casefold().count(sign)) for sign in signs)] for text in texts]


async def invoke(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return runnable.invoke(given, config, **more)


async def ainvoke(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return await runnable.ainvoke(given, config, **more)


async def batch(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return runnable.batch([given], config, **more)[0]


async def abatch(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return (await runnable.abatch([given], config, **more))[0]


async def stream(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return [part for parts in runnable.stream(given, config, **more) for part in parts]


async def astream(runnable: Any, given: Any, config: Any = None, **more: Any) -> Any:
    return [part async for parts in runnable.astream(given, config, **more) for part in parts]


WAYS = {
    "invoke": invoke,
    "ainvoke": ainvoke,
    "batch": batch,
    "abatch": abatch,
    "stream": stream,
    "astream": astream,
}
every_way = pytest.mark.parametrize("run", WAYS.values(), ids=WAYS)
once = pytest.mark.parametrize("run", [invoke, ainvoke])
Way = Callable[..., Awaitable[Any]]

import asyncio
from typing import Any, Awaitable, Callable, Optional, Sequence, Union

import psycopg

from . import calls
from .calls import _Parent
from .options import _Seconds

_Handler = Callable[..., Awaitable[object]]

async def connect(conninfo: str = ..., **connection: Any) -> psycopg.AsyncConnection[Any]: ...

class Job(calls.Job):
    aborted: asyncio.Event  # type: ignore[assignment]
    async def progress(self, value: Any) -> None: ...  # type: ignore[override]
    async def checkpoint(self, step: str, value: Any = ...) -> Any: ...
    async def parents(self) -> list[_Parent]: ...  # type: ignore[override]
    async def assert_lease(self) -> None: ...  # type: ignore[override]

class Worker:
    def __init__(
        self,
        queues: Union[str, Sequence[str]],
        handler: _Handler,
        *,
        concurrency: int = ...,
        tx: bool = ...,
        wait: float = ...,
        heartbeat: float = ...,
        lease_time: Optional[_Seconds] = ...,
        stop_timeout: float = ...,
        signals: Sequence[str] = ...,
        pool: Optional[int] = ...,
        worker: Optional[str] = ...,
        conninfo: str = ...,
        connection: dict[str, Any] = ...,
        before: Optional[Callable[[Job], object]] = ...,
        after: Optional[Callable[[Job, str, Optional[BaseException]], object]] = ...,
        error: Optional[Callable[[BaseException], object]] = ...,
        log: Callable[..., object] = ...,
    ) -> None: ...
    async def run(self) -> None: ...
    def stop(self, timeout: Optional[float] = ...) -> None: ...

async def work(
    queues: Union[str, Sequence[str]],
    handler: _Handler,
    *,
    concurrency: int = ...,
    tx: bool = ...,
    wait: float = ...,
    heartbeat: float = ...,
    lease_time: Optional[_Seconds] = ...,
    stop_timeout: float = ...,
    signals: Sequence[str] = ...,
    pool: Optional[int] = ...,
    worker: Optional[str] = ...,
    conninfo: str = ...,
    connection: dict[str, Any] = ...,
    before: Optional[Callable[[Job], object]] = ...,
    after: Optional[Callable[[Job, str, Optional[BaseException]], object]] = ...,
    error: Optional[Callable[[BaseException], object]] = ...,
    log: Callable[..., object] = ...,
) -> None: ...
async def drain(
    db: psycopg.AsyncConnection[Any],
    queues: Union[str, Sequence[str]],
    handler: _Handler,
    *,
    tx: bool = ...,
    limit: Optional[int] = ...,
    lease_time: Optional[_Seconds] = ...,
    worker: Optional[str] = ...,
) -> list[tuple[Job, str, Optional[BaseException]]]: ...

from typing import Any, Callable, Optional, Sequence, Union

import psycopg

from .calls import Job
from .options import _Seconds

_Handler = Callable[..., object]
_Ended = tuple[Job, str, Optional[BaseException]]

def connect(conninfo: str = ..., **connection: Any) -> psycopg.Connection[Any]: ...

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
    def run(self) -> None: ...
    def stop(self, timeout: Optional[float] = ...) -> None: ...

def work(
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
def drain(
    db: psycopg.Connection[Any],
    queues: Union[str, Sequence[str]],
    handler: _Handler,
    *,
    tx: bool = ...,
    limit: Optional[int] = ...,
    lease_time: Optional[_Seconds] = ...,
    worker: Optional[str] = ...,
) -> list[_Ended]: ...

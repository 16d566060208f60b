from datetime import datetime, timedelta
from threading import Event
from typing import Any, Awaitable, Optional, Sequence, TypedDict, Union, overload

import psycopg

_Interval = Union[float, str, timedelta]
_Time = Union[datetime, str]
_Sync = psycopg.Connection[Any]
_Async = psycopg.AsyncConnection[Any]

class _JobOptions(TypedDict, total=False):
    priority: int
    delay: _Interval
    run_at: _Time
    group_key: str
    unique_key: str
    unique_until: str
    unique_for: _Interval
    on_conflict: str
    headers: dict[str, Any]
    max_attempts: int
    expires_in: _Interval
    batch: int
    after: Sequence[Union[int, str]]
    on_parent_failure: str

class _NewJob(_JobOptions, total=False):
    payload: Any
    ref: str
    topic: str
    must_route: bool

class _Callback(_JobOptions, total=False):
    queue: str
    payload: Any

class _Published(TypedDict):
    queue: str
    job_id: int

class _Result(TypedDict):
    job_id: int
    state: str
    result: Any
    error: Optional[str]

class _Parent(TypedDict):
    job_id: int
    ref: Optional[str]
    state: str
    result: Any
    error: Optional[str]

@overload
def enqueue(
    db: _Sync,
    queue: str,
    payload: Any,
    *,
    priority: Optional[int] = ...,
    delay: Optional[_Interval] = ...,
    run_at: Optional[_Time] = ...,
    group_key: Optional[str] = ...,
    unique_key: Optional[str] = ...,
    unique_until: Optional[str] = ...,
    unique_for: Optional[_Interval] = ...,
    on_conflict: Optional[str] = ...,
    headers: Optional[dict[str, Any]] = ...,
    max_attempts: Optional[int] = ...,
    expires_in: Optional[_Interval] = ...,
    batch: Optional[int] = ...,
    after: Optional[Sequence[int]] = ...,
    on_parent_failure: Optional[str] = ...,
) -> int: ...
@overload
def enqueue(
    db: _Async,
    queue: str,
    payload: Any,
    *,
    priority: Optional[int] = ...,
    delay: Optional[_Interval] = ...,
    run_at: Optional[_Time] = ...,
    group_key: Optional[str] = ...,
    unique_key: Optional[str] = ...,
    unique_until: Optional[str] = ...,
    unique_for: Optional[_Interval] = ...,
    on_conflict: Optional[str] = ...,
    headers: Optional[dict[str, Any]] = ...,
    max_attempts: Optional[int] = ...,
    expires_in: Optional[_Interval] = ...,
    batch: Optional[int] = ...,
    after: Optional[Sequence[int]] = ...,
    on_parent_failure: Optional[str] = ...,
) -> Awaitable[int]: ...
@overload
def enqueue_many(db: _Sync, queue: str, jobs: Sequence[_NewJob]) -> list[int]: ...
@overload
def enqueue_many(db: _Async, queue: str, jobs: Sequence[_NewJob]) -> Awaitable[list[int]]: ...
@overload
def publish(
    db: _Sync,
    topic: str,
    payload: Any,
    *,
    priority: Optional[int] = ...,
    delay: Optional[_Interval] = ...,
    run_at: Optional[_Time] = ...,
    group_key: Optional[str] = ...,
    unique_key: Optional[str] = ...,
    unique_until: Optional[str] = ...,
    unique_for: Optional[_Interval] = ...,
    on_conflict: Optional[str] = ...,
    headers: Optional[dict[str, Any]] = ...,
    max_attempts: Optional[int] = ...,
    expires_in: Optional[_Interval] = ...,
    batch: Optional[int] = ...,
    after: Optional[Sequence[int]] = ...,
    on_parent_failure: Optional[str] = ...,
    must_route: Optional[bool] = ...,
) -> list[_Published]: ...
@overload
def publish(
    db: _Async,
    topic: str,
    payload: Any,
    *,
    priority: Optional[int] = ...,
    delay: Optional[_Interval] = ...,
    run_at: Optional[_Time] = ...,
    group_key: Optional[str] = ...,
    unique_key: Optional[str] = ...,
    unique_until: Optional[str] = ...,
    unique_for: Optional[_Interval] = ...,
    on_conflict: Optional[str] = ...,
    headers: Optional[dict[str, Any]] = ...,
    max_attempts: Optional[int] = ...,
    expires_in: Optional[_Interval] = ...,
    batch: Optional[int] = ...,
    after: Optional[Sequence[int]] = ...,
    on_parent_failure: Optional[str] = ...,
    must_route: Optional[bool] = ...,
) -> Awaitable[list[_Published]]: ...
@overload
def publish_many(db: _Sync, jobs: Sequence[_NewJob]) -> list[_Published]: ...
@overload
def publish_many(db: _Async, jobs: Sequence[_NewJob]) -> Awaitable[list[_Published]]: ...
@overload
def create_batch(
    db: _Sync,
    *,
    on_success: Optional[_Callback] = ...,
    on_failure: Optional[_Callback] = ...,
    on_finish: Optional[_Callback] = ...,
    metadata: Any = ...,
) -> int: ...
@overload
def create_batch(
    db: _Async,
    *,
    on_success: Optional[_Callback] = ...,
    on_failure: Optional[_Callback] = ...,
    on_finish: Optional[_Callback] = ...,
    metadata: Any = ...,
) -> Awaitable[int]: ...
@overload
def close_batch(db: _Sync, batch: int) -> None: ...
@overload
def close_batch(db: _Async, batch: int) -> Awaitable[None]: ...
@overload
def cancel(db: _Sync, job_id: int) -> str: ...
@overload
def cancel(db: _Async, job_id: int) -> Awaitable[str]: ...
@overload
def result(db: _Sync, job_id: int, wait: float = ...) -> Optional[_Result]: ...
@overload
def result(db: _Async, job_id: int, wait: float = ...) -> Awaitable[Optional[_Result]]: ...

class Job:
    def __init__(self, row: dict[str, Any], db: Any, aborted: Any = ...) -> None: ...
    id: int
    lease: int
    queue: str
    payload: Any
    headers: dict[str, Any]
    group_key: Optional[str]
    priority: int
    attempt: int
    max_attempts: int
    enqueued_at: datetime
    run_at: datetime
    last_error: Optional[str]
    last_progress: Any
    abort_reason: Optional[BaseException]
    aborted: Event
    def progress(self, value: Any) -> None: ...
    def checkpoint(self, step: str, value: Any = ...) -> Any: ...
    def parents(self) -> list[_Parent]: ...
    def assert_lease(self) -> None: ...

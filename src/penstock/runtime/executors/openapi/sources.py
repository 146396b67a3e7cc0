"""Where the document of an API comes from: a file, or an address that is asked again from time to time.

Above it: `executor`. Below it: the file system, the guarded transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import httpx2

from penstock.base import limits
from penstock.base.errors import PenstockError, Unavailable
from penstock.base.json import JsonValue
from penstock.runtime.executors.outbound.bounded_body import ResponseLimits
from penstock.runtime.executors.outbound.guarded_transport import GuardedTransport
from penstock.runtime.executors.outbound.httpx2_limits import limit_response
from penstock.runtime.upstreams.openapi.document import read_document
from penstock.runtime.upstreams.openapi.operations import ApiImport, OperationOverride, import_operations

__all__ = ["ApiConfig", "ApiSource", "document_text"]

_OK = 200
_BODY = ResponseLimits(bytes_max=limits.OPENAPI_BYTES_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiConfig:
    """An API as the operator configured it."""

    document: Path | str
    """A file, or an address."""
    base_url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_hosts: tuple[str, ...] | None = None
    """The hosts that the secrets in headers and query may be sent to; None if none of them is bound."""
    overrides: Mapping[str, OperationOverride] = field(default_factory=dict)
    timeout_ms: int | None = None
    output_schemas: bool = False


@dataclass(slots=True)
class ApiSource:
    """The document of one API, as it was last read."""

    name: str
    config: ApiConfig
    transport: GuardedTransport
    _imported: ApiImport | None = None
    _mark: JsonValue = None
    """What a file looked like when it was read: nothing is read again that has not changed."""
    _read_at: float | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def current(self, *, older_than_seconds: float) -> tuple[ApiImport, bool]:
        """Return the operations, and whether they were read just now. Raises `PenstockError`."""
        async with self._lock:
            age = None if self._read_at is None else monotonic() - self._read_at
            if self._imported is not None and age is not None and age < older_than_seconds:
                return self._imported, False
            document = self.config.document
            if isinstance(document, Path):
                mark = await asyncio.to_thread(_mark, document)
                if self._imported is not None and mark is not None and mark == self._mark:
                    self._read_at = monotonic()
                    return self._imported, False
            else:
                mark = None
            text = await document_text(self.name, document, self.transport)
            # A large document takes a second, which the event loop does not have.
            self._imported = await asyncio.to_thread(self._import, text)
            self._mark, self._read_at = mark, monotonic()
            return self._imported, True

    def _import(self, text: bytes) -> ApiImport:
        document = read_document(text, name=f"the document of {self.name}")
        return import_operations(document, self.config.overrides, output_schemas=self.config.output_schemas)


async def document_text(name: str, document: Path | str, transport: GuardedTransport) -> bytes:
    """Return the text of a document from a file or an address. Raises `Unavailable`."""
    if isinstance(document, Path):
        return await asyncio.to_thread(_read, name, document)
    return await _fetched(name, document, transport)


async def _fetched(name: str, url: str, transport: GuardedTransport) -> bytes:
    timeout = httpx2.Timeout(limits.HTTP_TIMEOUT_MS_DEFAULT / 1000).as_dict()
    headers = {"accept": "application/json, application/yaml;q=0.9, */*;q=0.1", "user-agent": "penstock"}
    try:
        async with asyncio.timeout(limits.HTTP_TIMEOUT_MS_DEFAULT / 1000):
            request = httpx2.Request("GET", url, headers=headers, extensions={"timeout": timeout})
            response = await transport.handle_async_request(request)
            try:
                if response.status_code != _OK:
                    raise _unreachable(name, f"{request.url.host} answered {response.status_code}")
                limit_response(response, _BODY)
                return await response.aread()
            finally:
                await response.aclose()
    except PenstockError:
        raise
    except Exception as error:  # any error of the network or the address guard
        raise _unreachable(name, str(error) or type(error).__name__) from error


def _mark(path: Path) -> JsonValue:
    try:
        found = path.stat()
    except OSError:
        return None
    return [found.st_mtime_ns, found.st_size, found.st_ino]


def _read(name: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.OPENAPI_BYTES_MAX + 1)
    except OSError as error:
        raise _unreachable(name, f"{path.name} cannot be read: {error.strerror or type(error).__name__}") from error


def _unreachable(name: str, why: str) -> Unavailable:
    message = f"cannot get the document of {name}: {why}"
    return Unavailable("UPSTREAM_UNAVAILABLE", message, f"check `apis.{name}.document` in the settings")

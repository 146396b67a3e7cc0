"""Checks workflow documents and schemas that others send: small plain ones in a thread, all others in a process.

Checking a document compiles its schemas, patterns and expressions in native code, so a hostile document would block
everybody else. Documents are also compared here, because that takes time in proportion to both of them.

Above it: the operations on workflows and registries. Below it: `definitions`, `pool`, `threads`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from penstock.base import limits
from penstock.base.encoding import encode_bytes
from penstock.base.errors import Rejected
from penstock.base.json import JsonObject, JsonValue
from penstock.base.lazy_import import lazy_import
from penstock.definitions.schemas.compiled import SchemaProblem, compile_schema
from penstock.definitions.schemas.cost import pattern_units
from penstock.definitions.source.findings import Finding
from penstock.runtime.sandbox.pool import WorkerDied, WorkerPool
from penstock.runtime.sandbox.threads import FairThreadPool

if TYPE_CHECKING:
    from penstock.definitions import validate
    from penstock.definitions.diff import compare
    from penstock.definitions.source import document as source
else:
    compare = lazy_import("penstock.definitions.diff.compare")
    source = lazy_import("penstock.definitions.source.document")
    validate = lazy_import("penstock.definitions.validate")

__all__ = ["DocumentChecks"]

# Keywords with which a small text can be compiled into something large.
_EXPANDING = frozenset(
    {"$ref", "$dynamicRef", "$recursiveRef", "unevaluatedItems", "unevaluatedProperties", "patternProperties"}
)


class DocumentChecks:
    """Checks documents. Tenants share the processes fairly."""

    def __init__(self) -> None:
        places = limits.DOCUMENT_WORKERS_MAX
        self._pool = WorkerPool(workers_max=places, time_budget_ms=limits.DOCUMENT_CHECK_MS_MAX)
        self.threads = FairThreadPool(
            "penstock-documents", places=places, per_holder=limits.DOCUMENT_WORKERS_PER_TENANT
        )

    async def findings(self, document: JsonObject, *, tenant: str) -> tuple[Finding, ...]:
        """All findings about a document, as from `validate_document`."""
        return await self.threads.run(tenant, self._findings, document)

    async def check_source(self, text: str, *, tenant: str) -> tuple[JsonValue, tuple[Finding, ...]]:
        """Parse a text as a document and return it with all findings, as `check_source` does."""
        return await self.threads.run(tenant, self._check_source, text)

    async def difference(self, before: JsonObject, after: JsonObject, *, tenant: str) -> JsonObject:
        """The differences between two documents, as from `diff_documents`."""
        return await self.threads.run(tenant, self._difference, before, after)

    async def schema_problem(self, schema: JsonObject, *, tenant: str) -> SchemaProblem | None:
        """Why a value is not a usable JSON Schema; None if it is one."""
        return await self.threads.run(tenant, self._schema_problem, schema)

    def close(self) -> None:
        """End the processes, including busy ones."""
        self._pool.close()
        self.threads.close()

    def _findings(self, document: JsonObject) -> tuple[Finding, ...]:
        text = encode_bytes(document)
        if len(text) > limits.DOCUMENT_BYTES_MAX:
            message = f"the document has {len(text):,} bytes; {limits.DOCUMENT_BYTES_MAX:,} are allowed"
            hint = "move large constants out of the document, or split it into subworkflows"
            return (Finding(code="DOCUMENT_TOO_LARGE", message=message, hint=hint),)
        if len(text) <= limits.DOCUMENT_IN_PROCESS_BYTES_MAX and _is_plain(document):
            return validate.validate_document(document)
        return _findings_of(self._exchange(b'"document"', text))

    def _check_source(self, text: str) -> tuple[JsonValue, tuple[Finding, ...]]:
        if len(text) <= limits.DOCUMENT_IN_PROCESS_BYTES_MAX and not any(mark in text for mark in ("&", *_EXPANDING)):
            read = source.read_source(text)
            if not isinstance(read, source.SourceDocument) or _is_plain(read.value):
                checked = validate.check_source(text)
                return checked.document, checked.findings
        reply = self._exchange(b'"source"', encode_bytes(text))
        return reply.get("document"), _findings_of(reply)

    def _difference(self, before: JsonObject, after: JsonObject) -> JsonObject:
        texts = encode_bytes(before), encode_bytes(after)
        if all(len(text) <= limits.DOCUMENT_IN_PROCESS_BYTES_MAX for text in texts):
            return compare.diff_documents(before, after).to_json()
        compared: JsonObject = self._exchange(b'"difference"', *texts)
        if "error" in compared:
            raise _too_costly(f"the documents cannot be compared: {compared['error']}")
        return compared

    def _schema_problem(self, schema: JsonObject) -> SchemaProblem | None:
        text = encode_bytes(schema)
        if len(text) <= limits.DOCUMENT_IN_PROCESS_BYTES_MAX and _is_plain(schema):
            problem = compile_schema(schema)
            return problem if isinstance(problem, SchemaProblem) else None
        reply = self._exchange(b'"schema_problem"', text)
        if "error" in reply:
            return SchemaProblem(f"it cannot be checked, {reply['error']}", "")
        return msgspec.convert(reply["problem"], SchemaProblem | None)

    def _exchange(self, kind: bytes, *texts: bytes) -> dict[str, Any]:
        try:
            return self._pool.exchange(kind, *texts)
        except (TimeoutError, WorkerDied):
            return {"error": f"it takes more than {limits.DOCUMENT_CHECK_MS_MAX / 1000:g} s, or too much memory"}


def _too_costly(message: str) -> Rejected:
    return Rejected("DOCUMENT_TOO_COSTLY", message, "split it, or simplify its schemas and expressions")


def _findings_of(reply: dict[str, Any]) -> tuple[Finding, ...]:
    if "error" in reply:
        raise _too_costly(f"the document cannot be checked: {reply['error']}")
    return msgspec.convert(reply["findings"], tuple[Finding, ...])


def _is_plain(document: JsonValue) -> bool:
    """True if nothing in a small document is compiled into something large."""
    waiting: list[JsonValue] = [document]
    units = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if not _EXPANDING.isdisjoint(value):
                return False
            pattern = value.get("pattern")
            units += pattern_units(pattern) if isinstance(pattern, str) else 0
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str) and len(value) > limits.JQ_IN_PROCESS_CHARACTERS_MAX:
            return False
    return units <= limits.SCHEMA_IN_PROCESS_PATTERN_UNITS_MAX

"""Operations on schema, typed. Made by `scripts/docs` from the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.client.caller import Caller
from penstock.client.generated.views.schema import SchemaPage, SchemaVersion, SchemaView
from penstock.client.generated.views.shared import Deleted

__all__ = ["Schemas"]


class Schemas:
    """Operations on schema."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def create(
        self,
        *,
        schema: Mapping[str, Any],
        id: str,
        title: str | None = None,
        description: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaView:
        """Register a schema.

        Stores a JSON Schema under an id, after checking it; documents refer to it with `$ref: schema:ID@1`. Refused
        if the id is taken.
        """
        return self._caller.invoke(
            "schema.create",
            {"schema": schema, "title": title, "description": description, "id": id},
            SchemaView,
            idempotency_key=idempotency_key,
        )

    def get(self, schema_id: str) -> SchemaView:
        """Get a schema.

        Returns the newest version with its title and its ETag, and the numbers of all versions.
        """
        return self._caller.invoke("schema.get", {"schema_id": schema_id}, SchemaView)

    def list(self, *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None) -> SchemaPage:
        """List schemas.

        Returns the ids with their schemas, ordered by id.
        """
        return self._caller.invoke("schema.list", {"prefix": prefix, "limit": limit, "cursor": cursor}, SchemaPage)

    def list_all(self, *, prefix: str | None = None, limit: int | None = None) -> Iterator[SchemaView]:
        """List schemas: all of them; `limit` is the size of a page."""
        for page in self._caller.pages("schema.list", {"prefix": prefix, "limit": limit}, SchemaPage):
            yield from page.items

    def update(
        self,
        schema_id: str,
        *,
        schema: Mapping[str, Any],
        title: str | None = None,
        description: str | None = None,
        if_match: str | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaView:
        """Change a schema.

        Replaces the whole schema, and makes a new version if it differs. Send the ETag that you read as If-Match;
        the call is then refused if the entry has changed since.
        """
        return self._caller.invoke(
            "schema.update",
            {
                "schema_id": schema_id,
                "schema": schema,
                "title": title,
                "description": description,
                "if_match": if_match,
            },
            SchemaView,
            idempotency_key=idempotency_key,
        )

    def delete(self, schema_id: str, *, if_match: str | None = None, idempotency_key: str | None = None) -> Deleted:
        """Delete a schema.

        Deletes the entry with its versions. Workflows, tools and other schemas keep their copies.
        """
        return self._caller.invoke(
            "schema.delete", {"schema_id": schema_id, "if_match": if_match}, Deleted, idempotency_key=idempotency_key
        )

    def get_version(self, schema_id: str, version: int) -> SchemaVersion:
        """Get a version of a schema.

        Returns it as it was registered, with the hash that its copies have in `$comment`.
        """
        return self._caller.invoke("schema.get_version", {"schema_id": schema_id, "version": version}, SchemaVersion)

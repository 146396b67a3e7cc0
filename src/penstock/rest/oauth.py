"""The pages that tell clients where to sign in (RFC 9728): at the address of the MCP endpoint, and at the root.

Above it: `app`, only if issuers are configured. Below it: `pages`; the contents come from the gate's settings.
"""

from __future__ import annotations

from starlette.routing import BaseRoute

from penstock.base.encoding import encode_bytes
from penstock.operations.gate.tokens.protected_resource import METADATA_PATH, ProtectedResource
from penstock.rest.pages import document_page

__all__ = ["metadata_pages"]

# Clients read it when they connect; a changed setting is seen soon. Anybody may read it, from any web page.
_HEADERS = ((b"cache-control", b"public, max-age=300"), (b"access-control-allow-origin", b"*"))


def metadata_pages(protected: ProtectedResource) -> list[BaseRoute]:
    """Build the pages with the metadata of this server as a protected resource."""

    def document() -> bytes:
        return encode_bytes(protected.document())

    paths = dict.fromkeys((METADATA_PATH + protected.path, METADATA_PATH))
    return [document_page(path, document, headers=_HEADERS) for path in paths]

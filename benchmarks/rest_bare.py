"""The anchors of `benchmarks.rest`: an endpoint of FastAPI and one of Starlette that return a fixed object.

    python rest_bare.py fastapi|starlette PORT

No authentication, no store, no validation, no audit: what a framework costs by itself. Runs in the environment of the
peers, on the same server (uvicorn, httptools, uvloop) with the same settings as the product.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

BODY: dict[str, Any] = {
    "execution_id": "r_01J00000000000000000000000",
    "workflow_id": "bench",
    "status": "completed",
    "input": {"number": 21},
    "output": {"doubled": 42},
    "nodes": [{"id": "double", "status": "completed", "attempts": 1}],
}


def fastapi_app() -> Any:
    """A bare FastAPI endpoint with a path parameter."""
    app = importlib.import_module("fastapi").FastAPI()

    async def read(execution_id: str) -> dict[str, Any]:
        return BODY

    app.get("/executions/{execution_id}")(read)
    return app


def starlette_app() -> Any:
    """A bare Starlette endpoint with a path parameter."""

    async def read(request: Request) -> JSONResponse:
        return JSONResponse(BODY)

    return Starlette(routes=[Route("/executions/{execution_id}", read)])


if __name__ == "__main__":
    chosen = {"fastapi": fastapi_app, "starlette": starlette_app}[sys.argv[1]]()
    uvicorn.run(
        chosen,
        host="127.0.0.1",
        port=int(sys.argv[2]),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )

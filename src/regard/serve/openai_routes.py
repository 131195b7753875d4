"""The paths of OpenAI's interface: `/v1/models`, `/v1/completions`, `/v1/embeddings`."""

import time
from collections.abc import Hashable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from regard.serve.endpoint import Endpoint, Reader
from regard.serve.http_errors import OPENAI, HTTPError, encode
from regard.serve.openai import Completion, Embeddings
from regard.serve.operation import Operation, ServedRun
from regard.serve.request import RequestBody, parse

BODIES: Mapping[str, type[Completion | Embeddings]] = {
    "completions": Completion,
    "embeddings": Embeddings,
}


class ModelEndpoint:
    """Answers a `POST` by the run that its body names as its `model`."""

    def __init__(self, endpoint: Endpoint, kind: str) -> None:
        self.endpoint, self.kind = endpoint, kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.endpoint.respond(scope, receive, send, self._find)

    def _find(self) -> Reader:
        return self._read

    def _read(self, body: bytes) -> tuple[Hashable, Operation, RequestBody]:
        request = parse(BODIES[self.kind], body, self.endpoint.limits)
        run = find(self.endpoint.runs, request.model)
        if self.kind not in run.openai:
            raise HTTPError(
                400,
                f"the model {run.name!r} has no {self.kind}; it has {', '.join(_kinds(run))}",
            )
        kind = (
            "stream"
            if isinstance(request, Completion) and request.stream
            else self.kind
        )
        operation = run.openai[kind]
        return (run.name, OPENAI, kind, id(operation)), operation, request


def openai_routes(endpoint: Endpoint) -> list[Route]:
    """The routes of the runs that have such operations."""
    started = int(time.time())

    def described(run: ServedRun) -> dict[str, Any]:
        return {
            "id": run.name,
            "object": "model",
            "created": started,
            "owned_by": "regard",
        }

    async def models(request: Request) -> Response:
        data = [described(run) for run in endpoint.runs.values() if run.openai]
        return Response(
            encode({"object": "list", "data": data}), media_type="application/json"
        )

    async def model(request: Request) -> Response:
        try:
            run = find(endpoint.runs, request.path_params["model"])
        except HTTPError as error:
            return error.response(request.url.path)
        return Response(encode(described(run)), media_type="application/json")

    return [
        Route("/v1/models", models, methods=["GET"]),
        Route("/v1/models/{model}", model, methods=["GET"]),
        *(
            Route(f"/v1/{kind}", ModelEndpoint(endpoint, kind), methods=["POST"])
            for kind in BODIES
        ),
    ]


def find(runs: Mapping[str, ServedRun], model: str) -> ServedRun:
    """The run of a name. Raises HTTPError where there is none with operations of this interface."""
    known = {name: run for name, run in runs.items() if run.openai}
    if model not in known:
        there = (
            f"there are {', '.join(known)}"
            if known
            else "no run of this server completes or embeds texts"
        )
        raise HTTPError(
            404,
            f"the model {model[:80]!r} does not exist; {there}",
            code="model_not_found",
        )
    return known[model]


def _kinds(run: ServedRun) -> list[str]:
    return [kind for kind in run.openai if kind in BODIES]

"""The page as a service of this machine: `GET /` is the page, `GET /api/launches` what can be run, `POST
/api/run` runs it and streams how far it is and the record, `POST /api/path` follows an element of an output.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar, get_args

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from drywell.base.errors import DrywellError, LaunchError
from drywell.observe.hazards.rules import LEVELS
from drywell.report.html_page import page_html
from drywell.web.launches import Launches
from drywell.web.local import OnlyLocal
from drywell.web.runs import Asked, AskedPath, Runs, Schedule

T = TypeVar("T")
LARGEST_REQUEST = 1 << 16
SECONDS_TO_END = 1


class Service:
    """Answers the page for the launch files of one folder; `opened` is the one it begins with."""

    def __init__(self, folder: Path, opened: Path | None = None) -> None:
        self.launches, self.runs = Launches(folder), Runs()
        self._opened = None if opened is None else self.launches.name_of(opened)

    def app(self) -> Starlette:
        """Return it as an ASGI application."""
        routes = [
            Route("/", self.page),
            Route("/api/launches", self.offers),
            Route("/api/run", self.run, methods=["POST"]),
            Route("/api/path", self.path, methods=["POST"]),
        ]

        @contextlib.asynccontextmanager
        async def lifespan(_: Starlette) -> AsyncIterator[None]:
            yield
            self.runs.close()

        handlers: Any = {DrywellError: _refused}
        return Starlette(
            routes=routes,
            middleware=[Middleware(OnlyLocal)],
            lifespan=lifespan,
            exception_handlers=handlers,
        )

    def _told(self) -> dict[str, Any]:
        return {
            "launches": [dataclasses.asdict(offer) for offer in self.launches.offers()],
            "opened": self._opened,
            "schedules": get_args(Schedule),
            "checks": LEVELS,
        }

    async def page(self, _: Request) -> Response:
        """Return the page, which shows no run yet."""
        return HTMLResponse(page_html(None, self._told()))

    async def offers(self, _: Request) -> Response:
        """Return what can be run."""
        return JSONResponse(self._told())

    async def run(self, request: Request) -> Response:
        """Run what is asked for, and stream what it says."""
        asked = _read(await _body(request), Asked)
        path = self.launches.path(asked.launch)
        said = (one.encode() async for one in self.runs.run(path, asked))
        return StreamingResponse(said, media_type="text/event-stream")

    async def path(self, request: Request) -> Response:
        """Return where an element of an output came from."""
        asked = _read(await _body(request), AskedPath)
        path = self.launches.path(asked.launch)
        return Response(await self.runs.follow(path, asked.element), media_type="application/json")


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_REQUEST:
            raise LaunchError(f"the request is larger than {LARGEST_REQUEST} bytes")
    return body


def _read(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        raise LaunchError(f"the request cannot be used: {error}") from None


async def _refused(_: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{error}\n", 400)


def listen(port: int) -> socket.socket:
    """Return a socket of this machine alone; port 0 takes any that is free. OSError when it is taken."""
    return socket.create_server(("127.0.0.1", port))


def serve(folder: Path, opened: Path | None, listening: socket.socket) -> None:
    """Serve the page on a socket until the process is told to end."""
    service = Service(folder, opened)
    config = uvicorn.Config(
        service.app(),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=SECONDS_TO_END,
    )
    with contextlib.suppress(KeyboardInterrupt):
        _Server(config, service.runs).run(sockets=[listening])


class _Server(uvicorn.Server):
    """Ends the run under way when it is told to end, so that nobody waits for it."""

    def __init__(self, config: uvicorn.Config, runs: Runs) -> None:
        super().__init__(config)
        self._runs = runs

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Take a signal to end."""
        self._runs.stop()
        super().handle_exit(sig, frame)

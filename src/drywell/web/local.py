"""Requests of this machine's own page only: foreign hosts and foreign pages are refused.

A page of another site can make a browser send requests to 127.0.0.1, and a name of that site can be made to
point there. Neither gets an answer: the Host has to be this machine's, an Origin the page's own, a body JSON
(which no form sends), and no answer lets another origin read it (no CORS).
"""

from __future__ import annotations

import re

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_LOCAL = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""What every answer carries: the page may use itself and this server, and nobody may frame or keep it."""


class OnlyLocal:
    """Lets requests of this machine's own page through to `app`, and answers others with 403."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = why_refused(scope["method"], Headers(scope=scope))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                more = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        app = PlainTextResponse(f"{refusal}\n", 403) if refusal else self._app
        await app(scope, receive, send_with_headers)


def why_refused(method: str, headers: Headers) -> str:
    """Return why a request is refused, '' when it is not."""
    host = headers.get("host", "")
    if not _LOCAL.fullmatch(host):
        return f"Host '{host}' is not this machine: open http://127.0.0.1"
    origin = headers.get("origin")
    if origin is not None and origin != f"http://{host}":
        return f"Origin '{origin}' is not this page"
    kind = headers.get("content-type", "").partition(";")[0].strip()
    if method not in ("GET", "HEAD") and kind != "application/json":
        return "a request with a body is application/json here"
    return ""

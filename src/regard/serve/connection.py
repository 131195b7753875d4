"""Connections on which each request's head has to come in time."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


def punctual(seconds: float) -> type[H11Protocol]:
    """uvicorn's protocol, which closes a connection that is for so long without a whole head of a request: from its
    first moment on and after each answer, whatever else is sent meanwhile. uvicorn itself waits for ever for the first
    head, and for the others while anything comes."""

    class Punctual(H11Protocol):
        late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.expect()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self.expect()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.expect()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.be_patient()

        def expect(self) -> None:
            """A head, unless there is a request that has no answer yet."""
            if self.cycle is not None and not self.cycle.response_complete:
                self.be_patient()
            elif self.late is None and not self.transport.is_closing():
                self.late = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

        def be_patient(self) -> None:
            """Expect nothing."""
            if self.late is not None:
                self.late.cancel()
            self.late = None

    return Punctual

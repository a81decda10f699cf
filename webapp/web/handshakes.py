"""uvicorn's WebSockets without lines of their own for each handshake: the request log has one.

uvicorn's have the query string in them, and it calls a refusal that was answered an error
(https://github.com/Kludex/uvicorn/pull/3138).
"""

from __future__ import annotations

import logging
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from webapp.logs import HANDSHAKES


class Handshakes(WebSocketsSansIOProtocol):
    """What is a warning or worse is logged as ever."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = self.conn.logger = logging.getLogger(HANDSHAKES)

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True

"""Server-sent events of a run: bytes to events, and where to go on when the connection is lost."""
from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from .errors import BadAnswer
from .records import Event

# A server gives a sign of life every 15 s; one that has been silent for so long is gone.
SILENT_FOR = 60.0


class Reader:
    """Takes a stream apart. Half an event, which a lost connection leaves, is none."""

    def __init__(self) -> None:
        self._rest, self._looked = bytearray(), 0

    def feed(self, chunk: bytes) -> Iterator[dict[str, str]]:
        """The events that are complete now: their fields."""
        self._rest += chunk
        while (end := self._rest.find(b"\n\n", self._looked)) >= 0:
            block = bytes(self._rest[:end])
            del self._rest[:end + 2]
            self._looked = 0
            fields: dict[str, str] = {}
            for line in block.decode("utf-8", "replace").split("\n"):
                name, _, value = line.partition(":")
                if name:
                    fields[name] = value.removeprefix(" ")
            if fields:
                yield fields
        self._looked = max(0, len(self._rest) - 1)


class Following:
    """Follows the stream of one run over as many connections as it takes."""

    def __init__(self, after: str | None) -> None:
        self.last, self.ended = after, False
        self._reader = Reader()

    def connect(self) -> dict[str, str]:
        """The headers of the next connection."""
        self._reader = Reader()
        return {"Accept": "text/event-stream", **({} if self.last is None else {"Last-Event-ID": self.last})}

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete now. Each counts as seen once it is taken."""
        for fields in self._reader.feed(chunk):
            if fields.get("event") == "end":
                self.ended = True
                return
            event = _event(fields)
            self.last = event.id
            yield event


def _event(fields: dict[str, str]) -> Event:
    try:
        data = json.loads(fields["data"])
        return Event(id=fields["id"], type=str(data["type"]), at=datetime.fromisoformat(data["at"].replace("Z", "+00:00")), data=data)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise BadAnswer(f"this is no event of a run: {str(fields)[:200]}") from error

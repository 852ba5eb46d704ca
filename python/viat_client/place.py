"""Where the server is: an address with a token, or the socket in a home on this machine."""
from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import httpx

# What a path of a socket may have, with its end, is 108 bytes.
_LONGEST = 100


@dataclass(frozen=True)
class Place:
    """A server's place."""

    base_url: str
    headers: dict[str, str]
    socket: str | None = None
    folder: int | None = None
    """A descriptor that is open as long as the client: the way to a socket whose path is too long."""

    def __str__(self) -> str:
        return self.base_url if self.socket is None else f"the socket {self.socket}"

    def close(self) -> None:
        """Lets go of the folder."""
        if self.folder is not None:
            os.close(self.folder)


def find(url: str | None, token: str | None, home: str | os.PathLike[str] | None) -> Place:
    """What the caller says, or else what the environment says, as for commands."""
    if url is not None and home is not None:
        raise TypeError("say either url or home")
    if url is None and home is None:
        url = os.environ.get("VIAT_URL") or None
    if url is None:
        if token is not None:
            raise TypeError("a token is for a server that has a url; nobody needs one on the socket of a home")
        return _in(Path(home if home is not None else os.environ.get("VIAT_HOME") or ".viat"))
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{url!r} is no address of a server: {error}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise ValueError(f"{url!r} is no address of a server: write it as in https://viat.example.org")
    token = (token if token is not None else os.environ.get("VIAT_TOKEN") or "").strip()
    return Place(url.rstrip("/"), {"Authorization": f"Bearer {token}"} if token else {})


def _in(home: Path) -> Place:
    if not home.is_dir():
        raise ValueError(f"{home} is no home of viat: name a server (url, VIAT_URL) or a folder (home, VIAT_HOME)")
    socket, folder = home.absolute() / "server.sock", None
    if len(os.fsencode(socket)) > _LONGEST:
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        socket = Path(f"/proc/self/fd/{folder}/server.sock")
    return Place("http://localhost", {}, str(socket), folder)

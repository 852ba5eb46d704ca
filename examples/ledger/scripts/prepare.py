"""Reserves something. Its first attempt meets a network that is down."""

import viat


def main() -> dict:
    if viat.context.attempt == 1:
        raise viat.TransportError("the network is down for a moment")
    return {"reservation": "r-1"}

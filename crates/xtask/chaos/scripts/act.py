"""Has an effect, once an attempt: or refuses, or breaks off before it or after it. A kill finds it more often where it naps longer."""

import viat


def main(nap_ms: int, longer: str = "", refuse: bool = False, breaks: str = "") -> dict:
    nap(nap_ms * 4 if longer == "before" else nap_ms)
    if refuse:
        raise viat.ViatError(status=409, code="refused", message="this run is to fail here")
    first = viat.context.attempt == 1
    if breaks == "before" and first:
        raise viat.TransportError("broken off before the effect")
    if viat.cancelled():
        raise viat.ViatError(status=409, code="told_to_stop", message="told to stop, and nothing has happened yet")
    note("effect")
    if breaks == "after" and first:
        raise viat.TransportError("broken off after the effect")
    nap(nap_ms * 4 if longer == "after" else nap_ms)
    return {"key": viat.context.idempotency_key}

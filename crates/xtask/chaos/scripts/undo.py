"""Undoes an effect, or never can."""

import viat


def main(nap_ms: int, key: str, stubborn: bool = False) -> dict:
    nap(nap_ms)
    if stubborn:
        raise viat.ViatError(status=409, code="stubborn", message="this effect stays")
    note("effect")
    nap(nap_ms)
    return {"undid": key}

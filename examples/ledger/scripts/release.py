"""Gives a reservation back."""


def main(reservation: str) -> dict:
    return {"released": reservation}

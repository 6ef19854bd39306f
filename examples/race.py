"""Two firebase-admin clients race for a node with a transaction, on an emulator in this process.

Each round has a new node, which no client has claimed. Both clients read the node, see that it is free, and write their
name. The database accepts one write and refuses the other one (412). The loser then reads the winner's name and leaves
the node unchanged.
"""

from __future__ import annotations

import threading

import firebase_admin
from firebase_admin import db

from rtdb_emulator import Emulator

CLIENTS = ("api-00042-abc", "api-00042-xyz")
ROUNDS = 10


def main() -> int:
    with Emulator() as emulator:
        apps = [
            firebase_admin.initialize_app(options={"databaseURL": emulator.database_url("demo")}, name=name)
            for name in CLIENTS
        ]
        print(f"A Realtime Database on {emulator.url}, and two clients of the official SDK:\n")
        for number in range(1, ROUNDS + 1):
            race(number, apps)
            print(describe(number, emulator))
        claims = emulator.get("demo", "/rounds")
        for app in apps:
            firebase_admin.delete_app(app)
    return 0 if isinstance(claims, dict) and summarise(claims) else 1


def race(number: int, apps: list[firebase_admin.App]) -> None:
    barrier = threading.Barrier(len(apps))

    def claim(app: firebase_admin.App) -> None:
        waited = False

        def take_if_free(current: object) -> object:
            nonlocal waited
            if not waited:  # both have read before either writes
                waited = True
                barrier.wait(timeout=10)
            return current or app.name

        db.reference(f"rounds/round-{number:02}", app).transaction(take_if_free)

    threads = [threading.Thread(target=claim, args=(app,)) for app in apps]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def describe(number: int, emulator: Emulator) -> str:
    path = f"/rounds/round-{number:02}"
    winner = emulator.get("demo", path)
    refused = sum(request.status == 412 for request in emulator.requests.matching(method="PUT", path=path))
    return f"  round {number:2}: both saw it free, {winner} claimed it, {refused} write refused"


def summarise(claims: dict[str, object]) -> bool:
    wins = {name: sum(claim == name for claim in claims.values()) for name in CLIENTS}
    print(f"\n{ROUNDS} rounds, {len(claims)} claims: " + ", ".join(f"{name} {won}" for name, won in wins.items()))
    return sum(wins.values()) == ROUNDS


if __name__ == "__main__":
    raise SystemExit(main())

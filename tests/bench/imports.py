"""What a program's first lines cost: `make bench`, or `python tests/bench/imports.py`.

The processor time of whole processes, the least of some, above that of an interpreter that does nothing: other work of
the machine is not in it. What was compiled before is read, as in a container that has started once. An emulator stands
in for the database: with a real one, or with a setting of its own, a program loads the SDK and what checks settings.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import goals
from serving import resident_mib

from rtdb_emulator import Emulator

FIRST_LINE = "from firecron import CronExpression, FireCron, Run, distributed_cron"
JOB = f"{FIRST_LINE}\njob = distributed_cron('job', CronExpression.EVERY_HOUR)(lambda: None)"
CRONS = f"{FIRST_LINE}\ncrons = FireCron()"
STARTED = f"{JOB}\ncrons = FireCron(job, enabled=True).start()\nimport sys; sys.stdin.read()"
SDK = "import firebase_admin, google.auth.transport.requests"
TIMES = 7
WANTED = 30
WANTED_OF_PACKAGE = 15
WANTED_OF_CRONS = 180
WANTED_RESIDENT = 60
PATIENCE = 30


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled, Emulator() as emulator:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FIRECRON_")},
            "PYTHONPYCACHEPREFIX": compiled,
            "PYTHONDONTWRITEBYTECODE": "",
            "FIREBASE_DATABASE_EMULATOR_HOST": emulator.host,
        }
        bare = cost("", environment)
        package = cost("import firecron", environment) - bare
        line = cost(FIRST_LINE, environment) - bare
        job = cost(JOB, environment) - bare
        crons = cost(CRONS, environment)
        with_setting = cost(CRONS, {**environment, "FIRECRON_MARGIN": "0.9"})
        idle = resident(emulator, STARTED, environment)
        with_sdk = resident(emulator, f"{SDK}\n{STARTED}", {**environment, "FIRECRON_MARGIN": "0.9"})
    print(f"\nthe README's first line: {line:.0f} ms above the interpreter's {bare:.0f} ms (wanted: at most {WANTED})")
    print(f"  with the first job declared: {job:.0f} ms")
    print(f"  import firecron: {package:.1f} ms (wanted: at most {WANTED_OF_PACKAGE})")
    print(f"first line and FireCron(): {crons:.0f} ms with the interpreter's (wanted: at most {WANTED_OF_CRONS})")
    print(f"  with a setting, which has to be checked: {with_setting:.0f} ms")
    print(f"an idle instance: {idle:.0f} MiB resident (wanted: at most {WANTED_RESIDENT})")
    print(f"  with a setting, and the SDK as with a real database: {with_sdk:.0f} MiB")
    goals.at_most("import firecron, above the interpreter", package, WANTED_OF_PACKAGE, "ms")
    goals.at_most("the README's first line, above the interpreter", line, WANTED, "ms")
    goals.at_most("the README's first line and FireCron()", crons, WANTED_OF_CRONS, "ms")
    goals.at_most("an idle instance", idle, WANTED_RESIDENT, "MiB resident")


def cost(program: str, environment: dict[str, str], times: int = TIMES) -> float:
    """The processor time of a process that runs this, in milliseconds."""
    _run(program, environment)  # which compiles
    return min(_run(program, environment) for _ in range(times))


def _run(program: str, environment: dict[str, str]) -> float:
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], environment, file_actions=silent)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, program
    return (usage.ru_utime + usage.ru_stime) * 1000


def resident(emulator: Emulator, program: str, environment: dict[str, str]) -> float:
    """The memory of a process that runs this, in MiB, once its instance has told the database of its job."""
    emulator.set("demo-firecron", "/", None)
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet
    )
    try:
        ends = time.monotonic() + PATIENCE
        while emulator.get("demo-firecron", "/cron-jobs") is None:
            assert time.monotonic() < ends, "the instance has not started"
            time.sleep(0.05)
        time.sleep(1)
        return resident_mib(process.pid)
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    main()

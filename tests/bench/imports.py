"""What the README's first line costs: `make bench`, or `python tests/bench/imports.py`.

The processor time of whole processes, the least of some, above that of an interpreter that does nothing: other work of
the machine is not in it. What was compiled before is read, as in a container that has started once.
"""

from __future__ import annotations

import os
import sys
import tempfile

import goals

FIRST_LINE = "from firecron import CronExpression, FireCron, Run, distributed_cron"
JOB = "distributed_cron('job', CronExpression.EVERY_HOUR)(lambda: None)"
TIMES = 10
WANTED = 30
WANTED_OF_PACKAGE = 15


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        bare = cost("", environment)
        package = cost("import firecron", environment) - bare
        line = cost(FIRST_LINE, environment) - bare
        job = cost(f"{FIRST_LINE}\n{JOB}", environment) - bare
    print(f"\nthe README's first line: {line:.0f} ms above the interpreter's {bare:.0f} ms (wanted: at most {WANTED})")
    print(f"  with the first job declared: {job:.0f} ms")
    print(f"  import firecron: {package:.1f} ms (wanted: at most {WANTED_OF_PACKAGE})")
    goals.at_most("import firecron, above the interpreter", package, WANTED_OF_PACKAGE, "ms")
    goals.at_most("the README's first line, above the interpreter", line, WANTED, "ms")


def cost(program: str, environment: dict[str, str]) -> float:
    """The processor time of a process that runs this, in milliseconds."""
    _run(program, environment)  # which compiles
    return min(_run(program, environment) for _ in range(TIMES))


def _run(program: str, environment: dict[str, str]) -> float:
    child = os.posix_spawn(sys.executable, [sys.executable, "-c", program], environment)
    _, status, usage = os.wait4(child, 0)
    assert status == 0, program
    return (usage.ru_utime + usage.ru_stime) * 1000


if __name__ == "__main__":
    main()

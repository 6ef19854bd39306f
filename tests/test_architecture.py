"""Who may import whom, and what stands in one place only: the sources keep seven rules.

The sources are read, never imported. An exception to a rule is a constant with its reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

TESTS = Path(__file__).parent
SRC = TESTS.parent / "src" / "firecron"
EMULATOR = TESTS.parent / "emulator" / "rtdb_emulator"

# A room imports itself and what is above it. Rooms of one line don't import each other.
LAYERS = (
    ("errors",),
    ("base",),
    ("settings", "store"),
    ("cron",),
    ("rtdb",),
    ("lock",),
    ("jobs",),
    ("steps",),
    ("runs",),
    ("leaders",),
    ("scheduler",),
    ("ops",),
    ("cloud_logging", "web"),
    ("triggers",),
    ("page",),
    ("locks", "logging"),
    ("app",),
    ("outbox",),
    ("otel", "sentry", "pings", "notify"),
    ("testing",),
    ("demo",),
    ("cli",),
    ("management",),
    ("__main__",),
)
RANK = {room: number for number, rooms in enumerate(LAYERS) for room in rooms}
# `FireCron.testing()` is a door of the library; what is behind it is loaded when it is used.
ALLOWED_UPWARDS = {("app", "testing.rehearsal")}

# Where a package may be imported at module level: rooms, or modules of them.
HOMES = {
    **dict.fromkeys(
        ("requests", "urllib3", "google", "firebase_admin"), ("rtdb", "triggers.access", "cloud_logging", "demo")
    ),
    "croniter": (),
    **dict.fromkeys(("pydantic", "pydantic_core", "pydantic_settings"), ()),
    **dict.fromkeys(("typer", "rich"), ("cli", "demo")),
    "django": ("management",),
}
WITHOUT_THREADS = ("cron", "lock.record", "lock.protocol", "runs.policy", "runs.lane", "ops.views", "ops.health")

KNOWS_RTDB = ("rtdb", "lock.database", "ops", "cli")
# A server of certificates, pings or messages that drips must not hold a thread, and only the transport has a wall
# deadline (decision 0019).
ALLOWED_PAST_THE_PORT = {
    (module, target) for module in ("triggers.access", "outbox") for target in ("rtdb.transport", "rtdb.failures")
}

CONVERSIONS = ("to_text", "to_milliseconds", "to_datetime")
NODES = ("cron-locks", "cron-runs", "cron-errors", "cron-instances", "cron-groups", "cron-steps", "cron-jobs")
# What is called in these modules, whoever needs it: the function, by its name alone.
CALLED_IN = {
    **dict.fromkeys(("wrap_future", "run_in_executor", "to_thread"), ("base.threads",)),
    # The prefix is put before the paths of the nodes once. The demonstration has none.
    "Paths": ("lock.database", "demo.show"),
    "ask_metadata": ("base.identity", "cloud_logging", "page.fleet"),
    # Each waits for something else: a lock, a renewal, an ask, a tick's grace, RTDB's time. Where a write
    # is tried again until a deadline, `wait_or_raise` waits.
    "backoff": ("base.clocks", "lock.keeper", "lock.waiting", "runs.claimer", "scheduler.asks", "scheduler.ticker"),
}
# The form of an instant as a text, and who may write it: a line of the log has milliseconds as well.
FORMS = ("%Y-%m-%dT", "%FT")
FORMS_IN = ("base.instants", "logging")
# What is emitted in one module, by its slug.
EMITTED_IN = {
    **dict.fromkeys(("run.skipped", "run.missed"), "runs.lanes"),
    **dict.fromkeys(("job.failing", "job.late", "job.stuck", "job.unattended", "job.recovered"), "jobs.turns"),
}
# The conformance kit spells node names and fields itself. If it took them from the code that it tests, a wrong name
# would be wrong in both, and the kit would pass.
INDEPENDENT = ("testing.conformance",)
# On the way of a tick its slot is a text: the ticker makes it one, the engine does for a run by hand, and the others
# know instants that are no slots.
ON_A_TICKS_WAY = ("runs", "scheduler")
MAKES_TEXTS = ("scheduler.ticker", "scheduler.engine", "scheduler.entry_writer", "runs.entry", "runs.policy")
# What only an entry of the history has: its schema is in one place.
ENTRY = "runs.entry"
OF_ENTRIES = ("endedAt", "atLeast", "recordedBy")
# Why a run is made is decided by its claim (`is_rerun`) and by what was wanted (`insists`). Its trigger is only a name.
SHOWS_TRIGGERS = ("cli.lines",)
MOST_LINES = 650
# A module with fewer lines has users in two rooms, or a reason.
LEAST_LINES = 60
SMALL = {
    "__main__": "`python -m firecron`",
    "demo.__main__": "`python -m firecron.demo`",
    "demo.instance": "a process of its own runs it",
    "management.commands.firecron": "Django looks for commands there",
    "triggers.verifier": "public: `firecron.triggers.verifier`",
}
MOST_CALLABLES = 2


class Import(NamedTuple):
    """`package` is empty for a module of firecron; `is_early` where it runs when the module is imported."""

    module: str
    package: str
    is_early: bool


class Scoped(NamedTuple):
    """A node, and the names of the classes and functions that it is in."""

    scope: str
    node: ast.AST


@cache
def modules() -> dict[str, ast.Module]:
    """Every module, by its name below firecron; a package by its own, and firecron itself is not among them."""
    found = {}
    for path in sorted(SRC.rglob("*.py")):
        name = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix("__init__").removesuffix(".")
        found[name] = ast.parse(path.read_text("utf-8"))
    return {name: tree for name, tree in found.items() if name}


@cache
def public_homes() -> dict[str, str]:
    """The modules of the names that firecron exports."""
    tree = ast.parse((SRC / "__init__.py").read_text("utf-8"))
    (homes,) = (
        node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES"
    )
    found: dict[str, str] = ast.literal_eval(homes)
    return found


def is_in(module: str, places: tuple[str, ...]) -> bool:
    return any(module == place or module.startswith(f"{place}.") for place in places)


def walk(tree: ast.AST, scope: str = "") -> Iterator[Scoped]:
    """All nodes below, each with its scope."""
    left = [Scoped(scope, node) for node in ast.iter_child_nodes(tree)]
    while left:
        yield (found := left.pop())
        scope, node = found
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            scope = f"{scope}.{node.name}".lstrip(".")
        left += [Scoped(scope, inner) for inner in ast.iter_child_nodes(node)]


@cache
def imports(module: str) -> tuple[Import, ...]:
    """What a module imports, anywhere in it and for types as well."""
    tree = modules()[module]
    late = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_for_types(node)
        for inner in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: write {ast.unparse(node)} as an absolute import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        found += [Import(*target, id(node) not in late) for target in map(_target, names) if target != ("", "")]
    return tuple(found)


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def _target(name: str) -> tuple[str, str]:
    """The module of firecron and the foreign package that an imported name belongs to: one of them is empty."""
    first, _, rest = name.partition(".")
    if first != "firecron":
        return "", first
    while rest and rest not in modules():
        if rest in public_homes():
            return public_homes()[rest], ""
        rest = rest.rpartition(".")[0]
    return rest, ""


def breaks_the_layers() -> Iterator[str]:
    """An import of what is not above, and a cycle inside a room."""
    for module in modules():
        room = module.partition(".")[0]
        if room not in RANK:
            yield f"{module}: is in no layer"
            continue
        for target in sorted({found.module for found in imports(module)} - {""}):
            other = target.partition(".")[0]
            is_up = other != room and RANK.get(other, len(RANK)) >= RANK[room]
            if is_up and (module, target) not in ALLOWED_UPWARDS:
                yield f"{module}: imports {target}"
    for cycle in cycles():
        yield f"{cycle[0]}: is in a cycle with {', '.join(cycle[1:])}"


def cycles() -> Iterator[tuple[str, ...]]:
    """The groups of modules of one room that import each other, however far around."""
    edges = {
        module: {
            found.module
            for found in imports(module)
            if found.module != module and found.module.partition(".")[0] == module.partition(".")[0]
        }
        for module in modules()
    }
    reached: dict[str, set[str]] = {}
    for module in edges:
        seen: set[str] = set()
        ahead = [module]
        while ahead:
            for following in edges[ahead.pop()] - seen:
                seen.add(following)
                ahead.append(following)
        reached[module] = seen
    groups = {
        tuple(sorted({module, *(other for other in found if module in reached[other])}))
        for module, found in reached.items()
        if module in found
    }
    yield from sorted(groups)


def loads_too_much() -> Iterator[str]:
    """A package that is imported at module level outside its homes, and threads in what decides without any."""
    for module in modules():
        for package in sorted({found.package for found in imports(module) if found.is_early}):
            if package in HOMES and not is_in(module, HOMES[package]):
                yield f"{module}: imports {package} at module level"
            if package == "threading" and is_in(module, WITHOUT_THREADS):
                yield f"{module}: imports threading"


def goes_around_the_port() -> Iterator[str]:
    """The store over REST, used where any store would do."""
    for module, tree in modules().items():
        if not is_in(module, KNOWS_RTDB):
            for target in sorted({found.module for found in imports(module)}):
                if is_in(target, ("rtdb",)) and (module, target) not in ALLOWED_PAST_THE_PORT:
                    yield f"{module}: imports {target}"
        for scope, node in walk(tree):
            asked = node.args[1] if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance" else None
            if asked is not None and "RtdbStore" in ast.unparse(asked):
                yield f"{module}: asks in {scope} whether it is an RtdbStore"


def repeats() -> Iterator[str]:
    """What is written in one place only, written elsewhere as well: the name of a node, a conversion of an instant, the
    text of a slot, the margin in milliseconds, the least ttl, when a lock may be taken, what `overlap` means, why a run
    is made, and the calls and events that have a module of their own.
    """
    for module, tree in modules().items():
        if is_in(module, INDEPENDENT):
            continue
        documents = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        found = set()
        for scope, node in walk(tree):
            where = scope or "the module"
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documents:
                # A sentence for people may name a node, but none that is below it: there may be a prefix.
                spelled = [f"{name}/" for name in NODES] if " " in node.value else NODES
                named = () if module == "store" else spelled
                found |= {f"{module}: spells {name} in {where}" for name in named if name in node.value}
                if module not in FORMS_IN and any(form in node.value for form in FORMS):
                    found.add(f"{module}: writes the form of an instant in {where}")
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func).rpartition(".")[2]
                if module not in CALLED_IN.get(called, (module,)):
                    found.add(f"{module}: calls {called} in {where}")
                if called == "to_text" and is_in(module, ON_A_TICKS_WAY) and module not in MAKES_TEXTS:
                    found.add(f"{module}: makes a slot a text again in {where}")
                slug = ast.unparse(node.args[0]).strip("'") if called == "emit" else ""
                if EMITTED_IN.get(slug, module) != module:
                    found.add(f"{module}: emits {slug} in {where}")
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and ast.unparse(node.right) == "1000":
                what = ast.unparse(node.left)
                if what.endswith(".timestamp()") and module != "base.instants":
                    found.add(f"{module}: makes milliseconds of a datetime in {where}")
                if what.split(".")[-1].lstrip("_") == "margin" and module != "settings":
                    found.add(f"{module}: makes milliseconds of the margin in {where}")
            if _is_a_margin_later(node) and module != "lock.record":
                found.add(f"{module}: adds the margin to an expiry in {where}")
            if _is_six_margins(node) and module != "settings":
                found.add(f"{module}: makes the least ttl of the margin in {where}")
            if isinstance(node, ast.Compare | ast.Match) and module != "jobs.options":
                compared = [name for name in ("overlap", "on_abandoned", "catch_up") if _is_about(node, name)]
                found |= {f"{module}: compares {name} in {where}" for name in compared}
            if (
                isinstance(node, ast.Compare | ast.Match)
                and module not in SHOWS_TRIGGERS
                and _is_about(node, "trigger")
            ):
                found.add(f"{module}: decides by the name of a run's trigger in {where}")
            if _converts_twice(node):
                found.add(f"{module}: converts an instant twice in {where}")
        yield from sorted(found)


def _is_six_margins(node: ast.AST) -> bool:
    """The least ttl, made of the margin by hand."""
    return isinstance(node, ast.BinOp) and ast.unparse(node).startswith("6 * ") and "margin" in ast.unparse(node)


def _is_a_margin_later(node: ast.AST) -> bool:
    """When a lock may be taken, made of its expiry and the margin by hand."""
    text = ast.unparse(node) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else ""
    return "margin" in text and any(word in text for word in ("expires", "until"))


def _is_about(node: ast.Compare | ast.Match, name: str) -> bool:
    """Whether a comparison, or what is matched, reads this name or attribute."""
    read = [node.subject] if isinstance(node, ast.Match) else [node.left, *node.comparators]
    return any(ast.unparse(one).split(".")[-1] == name for one in read)


def _converts_twice(node: ast.AST) -> bool:
    """A conversion of an instant that was just converted: there is a function that does it at once."""
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func) in CONVERSIONS
        and any(isinstance(given, ast.Call) and ast.unparse(given.func) in CONVERSIONS for given in node.args)
    )


def knows_entries() -> Iterator[str]:
    """A field of the history's entries, spelled elsewhere than in their schema; and an outcome, taken out of a node."""
    for module, tree in modules().items():
        if module == ENTRY or is_in(module, INDEPENDENT):
            continue
        for scope, node in walk(tree):
            where = scope or "the module"
            if isinstance(node, ast.Constant) and node.value in OF_ENTRIES:
                yield f"{module}: spells {node.value} in {where}"
            if "outcome" in _taken(node):
                yield f"{module}: takes an outcome out of a node in {where}"


def _taken(node: ast.AST) -> list[object]:
    """What is asked of a mapping here: `node[key]`, `node.get(key)`, and a pattern with that key."""
    if isinstance(node, ast.Subscript):
        keys: list[ast.expr] = [node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        keys = node.args[:1]
    else:
        keys = node.keys if isinstance(node, ast.MatchMapping) else []
    return [key.value for key in keys if isinstance(key, ast.Constant)]


def is_too_large() -> Iterator[str]:
    """A file too long, also of the emulator, and a constructor or a dataclass that is given too many callables."""
    for path in sorted(EMULATOR.rglob("*.py")):
        if len(path.read_text("utf-8").splitlines()) > MOST_LINES:
            yield f"{path.relative_to(EMULATOR.parent)}: has more than {MOST_LINES} lines"
    for module, tree in modules().items():
        path = SRC / f"{module.replace('.', '/')}.py"
        if path.exists() and len(path.read_text("utf-8").splitlines()) > MOST_LINES:
            yield f"{module}: has more than {MOST_LINES} lines"
        for scope, node in walk(tree):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                callables = [one for one in given if one.annotation and "Callable" in ast.unparse(one.annotation)]
                if len(callables) > MOST_CALLABLES:
                    yield f"{module}: {scope} is given {len(callables)} callables"
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
                fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
                number = sum("Callable" in ast.unparse(one.annotation) for one in fields)
                if number > MOST_CALLABLES:
                    yield f"{module}: {f'{scope}.{node.name}'.lstrip('.')} has {number} callables"


def is_too_small() -> Iterator[str]:
    """A file that holds no whole concept, and that one room alone uses."""
    for module in modules():
        path = SRC / f"{module.replace('.', '/')}.py"
        if path.exists() and len(path.read_text("utf-8").splitlines()) < LEAST_LINES and module not in SMALL:
            users = {other.partition(".")[0] for other in modules() if _imports(other, module)}
            if len(users) < 2:
                yield f"{module}: has fewer than {LEAST_LINES} lines, and {users or 'no room'} alone imports it"


def _imports(module: str, other: str) -> bool:
    return any(is_in(one.module, (other,)) for one in imports(module) if not one.package)


RULES: dict[str, tuple[Callable[[], Iterator[str]], str]] = {
    "layers": (
        breaks_the_layers,
        "a room imports only itself and the rooms above it in LAYERS, for types and inside functions too: move the "
        "name down to the lowest room that needs it, or hand the value in from above",
    ),
    "packages": (
        loads_too_much,
        "import it inside the function that uses it, or move that function to one of the places in HOMES; what "
        "decides needs no threads: hand in what they bring",
    ),
    "port": (
        goes_around_the_port,
        "import Store, Snapshot and NULL_ETAG from firecron.store; what only one store can do is a method that every "
        "store has",
    ),
    "one place": (
        repeats,
        "node names are in firecron.store, firecron.base.instants converts datetimes and texts, the margin does "
        "in firecron.settings, LockRecord.free_at says when a lock may be taken, JobOptions says what overlap, "
        "on_abandoned and catch_up mean, a claim says whether it is a rerun, what CALLED_IN and EMITTED_IN list is "
        "called and emitted there: call what is there",
    ),
    "entry": (
        knows_entries,
        "write a history entry with Entry.to_node, and read one with read_entry, both in firecron.runs.entry",
    ),
    "size": (
        is_too_large,
        f"look for the second idea in a file of more than {MOST_LINES} lines, and for the object that stands behind "
        f"more than {MOST_CALLABLES} callables",
    ),
    "floor": (
        is_too_small,
        f"put a module of fewer than {LEAST_LINES} lines where its one user is, or give the reason in SMALL",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_no_rule_is_broken(rule: str) -> None:
    """The sources keep each rule, but for its exceptions."""
    is_broken_by, remedy = RULES[rule]
    breaches = sorted(set(is_broken_by()))
    assert not breaches, f"{remedy}\n" + "\n".join(breaches)


@pytest.mark.parametrize("module", SMALL)
def test_a_small_module_is_small(module: str) -> None:
    """A module that has a reason to be small is there, and needs it."""
    lines = (SRC / f"{module.replace('.', '/')}.py").read_text("utf-8").splitlines()
    assert len(lines) < LEAST_LINES


@pytest.mark.parametrize(("module", "target"), sorted(ALLOWED_UPWARDS | ALLOWED_PAST_THE_PORT))
def test_an_exception_is_needed(module: str, target: str) -> None:
    """An import that is allowed as an exception exists."""
    assert target in {found.module for found in imports(module)}


def test_no_two_modules_define_a_class_of_the_same_name() -> None:
    """Who searches for a class finds one."""
    homes: dict[str, list[str]] = {}
    for module, tree in modules().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(module)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_module_imports_what_is_private() -> None:
    """A name that another module uses has no leading underscore."""
    found = [
        f"{module}: {alias.name} of {node.module}"
        for module, tree in modules().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("firecron")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert found == [], "give it an honest name"


# How many attributes with one leading underscore the tests take of others, and how many they replace by name, each with
# its reason beside it.
MOST_PRIVATES = 15
MOST_REPLACED = 13


PATCHES = ("setattr", "delattr", "getattr")
# Without any of these in its text a file has nothing private of others: to parse all of them takes seconds.
MAY_BE_PRIVATE = re.compile(r"(?<!\bself)(?<!\bcls)\._(?!_)|attr\(")


class Used(NamedTuple):
    """Something private that a test uses: where, and the source of the line and of the line before it."""

    place: str
    source: str


def privates() -> Iterator[tuple[bool, Used]]:
    """What tests use of others that has one leading underscore, and whether it is replaced or asked for by its name."""
    for path in sorted(TESTS.rglob("*.py")):
        text = path.read_text("utf-8")
        lines = text.splitlines()
        if not MAY_BE_PRIVATE.search(text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute):
                if not node.attr.startswith("_") or ast.unparse(node.value) in ("self", "cls"):
                    continue
                name, is_by_name = node.attr, False
            elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in PATCHES:
                texts = [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
                name, is_by_name = texts[0].rpartition(".")[2] if texts else "", True
            else:
                continue
            if name.startswith("_") and not name.startswith("__"):
                source = "\n".join(lines[node.lineno - 2 : node.lineno])
                yield is_by_name, Used(f"{path.relative_to(TESTS)}:{node.lineno}", source)


def test_tests_take_little_of_what_is_private() -> None:
    """A test goes through a name that the code gives it on purpose, or looks at behaviour; an exception says why."""
    found = list(privates())
    replaced = [used.place for is_by_name, used in found if is_by_name]
    taken = [used.place for is_by_name, used in found if not is_by_name]
    assert len(taken) <= MOST_PRIVATES, f"give it an honest name, or test by behaviour: {taken}"
    assert len(replaced) <= MOST_REPLACED, f"give it an honest name, or test by behaviour: {replaced}"
    assert [used.place for _, used in found if "#" not in used.source] == [], "say in a comment why it is needed"

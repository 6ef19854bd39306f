"""The rules of the version before these: the shipped ones, with each block that has changed since as it was."""

from __future__ import annotations

import re

from tests.stores.least_privilege import RULES

_BOUNDED = re.compile(
    r'("(?:error|holder|instance|instanceId|outcome|recordedBy|trigger)": \{ ".validate": )'
    r'"(?:newData\.val\(\) === data\.val\(\) \|\| )?newData\.val\(\)\.length <= 1000"'
)
_LATER = re.compile(
    r'\n +"(?:catchUpWindow|description|holdAtLeast|maxRuntime|onAbandoned|owner|renew|retries|runbook|ttl)"'
    r": \{[^\n]*\},"
)
_JSON = r"newData.val().matches(/^([\\[{\"0-9-][^\\n]*|true|false|null|NaN|Infinity)$/)"
_READ = _JSON.replace("newData", "data.child('result')")

# What there was not.
_NEW = re.compile(
    r"    // What operators hold.*?(?=    // The heartbeat of each process)"
    r'|        // What the pause of a hold covers.*?(?=        "pausedUntil")'
    r'|        // A hold that stands.*?(?=        "releasedAt")',
    re.DOTALL,
)

# What the text is now, and what it was.
_CHANGES = (
    (" || auth.uid === 'firecron-reader'", ""),
    ("(data.child('kind').exists() && newData.child('kind').exists())\n              || ", ""),
    (
        "\n              || (!newData.child('kind').exists() && (data.child('slot').exists()"
        "\n                || (data.child('kind').val() !== 'leader' && data.child('kind').val() !== 'once')))",
        "",
    ),
    ("(data.child('kind').exists() || !newData.child('kind').exists())\n                && ", ""),
    (
        "(newData.val().matches(/^(leader|once)$/)\n            && !newData.parent().child('slot').exists()"
        " && !data.parent().child('outcome').exists())",
        "(newData.isString() && !newData.parent().child('slot').exists())",
    ),
    ("!newData.parent().child('kind').exists()\n            && newData.val().matches(", "newData.val().matches("),
    (f"\n                && {_JSON}", ""),
    (f"$tick === 'once' && !(data.child('result').isString()\n                && {_READ})", "false"),
    (
        '"name": { ".validate": "newData.val().length <= 161" }',
        '"name": { ".validate": "newData.val().matches(/^[A-Za-z][A-Za-z0-9_-]*$/) && newData.val().length <= 100" }',
    ),
)


def before() -> str:
    """Return the rules as they were."""
    text, new = _NEW.subn("", RULES.read_text("utf-8"))
    assert new == 3
    for now, then in _CHANGES:
        assert now in text, now
        text = text.replace(now, then)
    text = _BOUNDED.sub(r'\1"newData.isString()"', text)
    text = _LATER.sub("", text)
    # An unfinished tick had the bound of a slot, and did not look at it.
    slot = re.search(r'"slot": \{\n( +"\.validate": "newData\.val\(\) === [^"]+")', text)
    assert slot is not None
    return re.sub(r'("unfinished": \{\n) +"\.validate": "[^"]+"', lambda match: match[1] + slot[1], text)

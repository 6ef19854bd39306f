r"""Texts as they may be shown: without secrets for the log (`redacted`), on one line for a terminal or page (`plain`).

Redaction removes tokens, keys and passwords. Texts of firecron itself contain no secrets. But the log also has the
exceptions of jobs, and exceptions quote values that may be secret. A secret is recognised in one of three ways:

    by its name    DB_PASSWORD=…, "accessToken": "…", X-Api-Key: …, --token …, <password>…</password>
    by its place   the user and password of a URL, ?key= and ?sig=, the key in the URL of a ping, the headers
                   Authorization, Cookie and …-Signature, a word with a digit after "password" or "token"
    by its form    -----BEGIN PRIVATE KEY-----, JWTs, and what begins with ghp_, sk_live_, xoxb-, AIza …

A value in quotes is redacted to the closing quote, any other value to the next blank. A secret without such a name,
place or form stays. In doubt the text loses a word. One exception: words after a phrase and a colon stay ("no token:
connection refused"), because error texts have this form.

A text is read up to LONGEST characters, and what follows is left out: an exception may quote a whole reply, and a lock
is not to wait for megabytes.
"""

from __future__ import annotations

import re
from functools import cache

REDACTED = "[redacted]"

# Read in a fifth of a second at most. More than an entry of Cloud Logging's 256 KB can hold, where each takes three
# bytes.
LONGEST = 100_000

# Tokens that are not secret: positions in a listing (page, next, sync …), and OAuth's error `invalid_token`.
_PLAIN_TOKEN = "".join(
    f"(?<!{word})(?<!{word}[-_])" for word in ("page", "next", "sync", "resume", "continuation", "invalid")
)

# The name of a secret ends in one of these. Each such name contains one of the words of _NAMES.
_NAME = rf"""(?:
    pass(?:word|wd|phrase|code) | pwd | secret | jwt | sessionid
    | (?-i:(?<![A-Za-z])(?:pass|PASS)|(?<=[a-z])Pass)
    | (?:access|account|api|app|auth|client|encryption|functions?|hmac|instrumentation|integration|license|master|ping
        |private|role|routing|secret|sentry|service|session|shared|sign|signing|ssh|subscription|webhook)[-_\ ]?key
        (?:[-_]?(?:id|base))?
    | {_PLAIN_TOKEN}(?<!unexpected[-_\ ])token
)\d{{0,2}}"""
# These are the names of ordinary things as well, so more than the name is needed: a header, a quoted key, or a =.
_AMBIGUOUS = r"(?:credentials?|signature|hmac|assertion)(?:[-_]?(?:sha[-_]?)?\d{1,3})?"
_AMBIGUOUS_NAMES = ("credential", "signature", "hmac", "assertion")
# After a colon alone such a value is long and has a digit.
_RANDOM = r"(?=[\w+/=.-]{16})[^\s\d]{0,100}\d"
_SECRET_NAME = rf"(?:{_NAME}|authorization|cookie|(?<![a-z])(?!assertion){_AMBIGUOUS}|[-_]assertion)\Z"
_NAMES = ("pass", "pwd", "secret", "jwt", "sessionid", "key", "token")


def _where_it_is(pattern: str) -> str:
    """Return a pattern for a part that may be absent, and that is not given back where it is there."""
    return f"(?:{pattern}|(?!{pattern}))"


# What stands between a name and its value. Blanks and backslashes have a maximum number, so that a long run of them
# is not tried again from each of its positions.
_CLOSE = r"""\\{0,4}["'`\]]{0,2}[\ \t]{0,40}"""
_TYPE = _where_it_is(r"\ ?(?:optional\[)?(?:str|string|bytes|secretstr)\]?(?:\ ?\|\ ?none)?\ ?=")
_SEPARATOR = rf"(?:=>|[!:]?(?:===|={{1,2}}(?!=))|:(?!=){_TYPE}|%3[AD])[\ \t]{{0,40}}"
_QUOTE = r"""(?:[bfru]?(?P<quote>\\{0,4}(?:"{3}|'{3}|"(?!"")|'(?!'')|`))|(?![bfru]?\\{0,4}["'`]))"""

# A value in quotes. A quote inside it may be escaped. Without a closing quote the value ends with its line.
_UNQUOTED = r"(?<!\\)(?P=quote)"
_QUOTED = rf"(?!{_UNQUOTED})[^\r\n]+?(?={_UNQUOTED}|[\r\n]|\Z)"
# A value without quotes. Punctuation belongs to it if the value goes on right after it, and the next name= doesn't.
_CHARACTERS = r"""(?:
    [^\s"'`<>\\,;&)\]}.]+ | [,;&)\]}.]+(?=[^\s"'`<>\\,;&)\]}.])(?![\w.\[\]-]{1,64}=) | ["'`](?=\w) | \\(?![\\nrt"'`])
)"""
_BARE = rf"""(?!\[redacted\]|(?:none|null|nil|true|false|undefined)(?![\w-]|\.\w))
    (?:[(\[{{](?:"[^"\r\n]*"|'[^'\r\n]*'|["']|[^"')\]}}\r\n]+)+{_CHARACTERS}*|{_CHARACTERS}+)"""
_VALUE = f"(?(quote){_QUOTED}|{_BARE})"

_SCHEME = _where_it_is(
    r"(?:basic|bearer|token|api-?key|key|negotiate|digest|dpop|oauth|hawk|signature|aws4-[\w-]{1,20})[\ \t]{1,4}"
)
_PROSE = r"of|or|and|is|was|in|with|for|by|from|to|the|an?|not|must|only|tokens?|auth\w*|scheme|header|type|format"

# What follows the name in a sentence without a colon, and is no secret: a number, a time or a duration; the name of an
# algorithm, of a file or of a resource; a call, a name=, a URL.
_FACT = r"""(?:
    (?:0x[\da-f]{1,16}|\d[\d.,:tz+/%-]{0,40}[a-z]{0,3})(?![\w-])
    | (?:sha|md|v|[rhep]s|oauth|pbkdf|argon|base|utf|http|tls|aes|rsa|x)-?\d{1,4}(?:\.\d{1,4}){0,2}[a-z]{0,2}(?![\w-])
    | [^\s]{1,200}\.(?:json|pem|key|crt|txt|ya?ml|toml|ini|cfg|env|py)\b | [a-z]{3,40}/ | [\w-]{1,100}:\d{4}-\d\d
    | [\w.]{1,100}\( | [\w.-]{1,100}=[\w"'] | [a-z]{1,10}://
)"""
_STATED = r"(?:password|passwd|passphrase|passcode|api[-_\ ]?key|" + _PLAIN_TOKEN + r"(?<!unexpected[-_\ ])token)"
# A word after the name that a service has rejected, unless it is a part of what is said about the secret.
_PART = r"""(?:of|or|and|is|was|has|had|be|been|not|no|in|on|at|with|without|for|by|from|to|the|an?|that|this|which
    |it|its|must|may|can|will|would|should|could|does|did|do|if|as|but|than|then|also|already|still|again|only|just
    |never|now|access|account|age|alg\w*|argument|audience|auth\w*|bearer|being|bucket|cach\w*|chain|chang\w*
    |check\w*|claims?|client|code|config\w*|confirmation|content|count|creat\w*|data|decod\w*|decrypt\w*|encod\w*
    |encrypt\w*|endpoint|entry|exchange|exp\w*|fetch\w*|field|file|form|format|found|generat\w*|given|grant|handl\w*
    |hash\w*|header|history|holder|id|identifier|input|introspection|issued|issuer?|key|kind|length|level|lifetime
    |limit|list|login|logon|lookup|manager|name|object|obtained|owner|pair|parameter|pars\w*|part|passed|path|payload
    |policy|prefix|presented|prompt|provided|provider|query|quota|read\w*|received|refresh\w*|renewal|request\w*
    |reset\w*|response|returned|revocation|rotation|scopes?|secret|sent|server|service|session|set|settings?|sign\w*
    |size|source|state|status|stor\w*|stream|string|subject|suffix|supplied|type|update\w*|upload|uri|url|usage
    |use\w*|users?|valid\w*|value|variable|verif\w*|version|writ\w*)"""
_REJECTED = r"""(?:rejected|refused|revoked|denied|(?:is|was|has\ been)\ (?:not\ )?(?:accepted|denied|expired|incorrect
    |invalid|recogni[sz]ed|refused|rejected|revoked|unknown|valid|wrong))\b"""
# The value of an ambiguous name that is no secret: a file, a name like it, an algorithm, a judgement.
_JUDGED = r"""(?:[~.]{0,2}/|[\w.]{0,80}(?:credentials?|signature|assertion)(?![\w-])|%[rs]
    |[a-z]:\\|[^\s]{1,200}\.json\b|(?:(?:in)?valid|mismatch\w*|missing|fail\w*|wrong|bad|ok|\w{0,4}verified|expired
    |required|auto|default|include|omit|same-origin|(?:[a-z]{1,5}-?)?\d{1,3}(?:-\d{1,3})?)(?![\w.=-]))"""

# In a sentence, the name and a colon are followed by words, or by an error that is quoted.
_WORDS = r"""(?:\(["'])?[a-z_]{1,60}(?:\ [a-z(]|:\ |\((?:[a-z_]{1,20}=)?["')])"""

# The patterns of secrets, each with words in lower case. A text without any of these words can't match the pattern,
# so most texts are checked against few patterns. `intro` stays in the text. No part of a pattern may be tried from
# every position of a long text: each part begins with a fixed text or at a boundary. A repetition has a maximum, or
# nothing after it can fail, or what follows fails at once wherever the repetition gives back. No repetition is
# possessive and no group is atomic: early versions of Python 3.11, such as 3.11.2, match these wrongly.
_SECRETS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("-----begin ",),
        r"""(?P<intro>)-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
                (?s:.*?)(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)""",
    ),
    (
        # The name of a known scheme, such as Bearer, stays in the text.
        ("authorization",),
        rf"""(?P<intro>authorization(?:{_CLOSE}{_SEPARATOR}|["'],\ ?){_QUOTE}{_SCHEME})(?!\[redacted\])
                (?(quote){_QUOTED}|(?:\w{{1,40}}=[^\r\n]+|{_BARE}(?:\ (?=[^\s"']{{0,200}}[\d=]){_BARE})?))""",
    ),
    (
        ("cookie",),
        rf"""(?P<intro>cookie(?:{_CLOSE}(?::\ ?|=)|["'],\ ?){_QUOTE})
                (?(quote){_QUOTED}|(?=[^\s=;"',<>]{{1,100}}=)[^\r\n"']+)""",
    ),
    (
        _NAMES,
        rf"""(?:(?P<phrase>(?<=[a-z,]\ ))|(?<![a-z,]\ ))(?P<intro>{_NAME}{_CLOSE}{_SEPARATOR}{_QUOTE})
                (?(phrase)(?!(?<=:\ ){_WORDS})){_VALUE}""",
    ),
    # --token abc and ['--token', 'abc']; ('password', 'abc'); password 'abc'; {'name': 'TOKEN', 'value': 'abc'}
    (_NAMES, rf"""(?P<intro>--[\w-]{{0,40}}?{_NAME}(?:[\ \t]{{1,4}}|["'],\ ?){_QUOTE})(?!-){_VALUE}"""),
    (_NAMES, rf"""(?P<intro>\(b?["'][\w-]{{0,40}}?{_NAME}["'],\ ?{_QUOTE}){_VALUE}"""),
    (
        ("password ", "passphrase ", "token ", "identified by "),
        rf"""(?P<intro>(?:password|passphrase|(?<!unexpected\ )token|identified\ by)
                \ (?=["'`]){_QUOTE}){_QUOTED}""",
    ),
    # password hunter2; token abc rejected
    (
        tuple(f"{end}{blank}" for end in ("word", "passwd", "phrase", "passcode", "token", "key") for blank in " \t"),
        rf"""(?P<intro>{_STATED}[\ \t]{{1,4}})(?=[a-z\d])(?!{_FACT})(?:(?=[^\s\d]{{0,100}}\d){_CHARACTERS}+
                |(?!{_PART}(?![\w-]))[\w.+/~@!$%^&*\#-]{{2,200}}(?=\ {_REJECTED}))""",
    ),
    # credentials=abc, {'signature': 'abc'}
    (
        _AMBIGUOUS_NAMES,
        rf"""(?P<intro>{_AMBIGUOUS}(?:\ ?=(?!=)\ ?|\\{{0,4}}["']\]?[\ \t]{{0,40}}{_SEPARATOR}|:\ ?(?={_RANDOM}))
                {_QUOTE})(?!{_JUDGED})(?(quote){_QUOTED}|(?![\w.]{{0,100}}[(\[{{]){_BARE})""",
    ),
    # X-Signature: abc; X-Goog-IAP-JWT-Assertion: abc
    (
        _AMBIGUOUS_NAMES,
        rf"""(?P<intro>(?<=[a-z\d]-){_AMBIGUOUS}(?:{_CLOSE}{_SEPARATOR}|["'],\ ?){_QUOTE})
                (?(quote){_QUOTED}|(?!\[redacted\]|:|{_WORDS})[^\s"']+)""",
    ),
    (
        ("auth(",),
        rf"""(?P<intro>(?:basic|digest|proxy)auth\([bru]?["'][^"'\r\n]{{0,200}}["'],\ ?(?=[bfru]?["']){_QUOTE})
                {_QUOTED}""",
    ),
    (("value",), rf"""(?P<intro>{_NAME}["']?,?\s{{1,40}}["']?value{_CLOSE}{_SEPARATOR}{_QUOTE}){_VALUE}"""),
    (("</",), rf"""(?P<intro><[\w.:-]{{0,40}}?{_NAME}(?:\ [^<>]{{0,200}})?>)[^<>\r\n]+"""),
    (
        ("auth", "basic"),
        rf"""(?P<intro>(?:(?<![a-z])(?:auth|basic(?=\ ?=\ ?\(["']))\ ?=|["']_?auth["']\ ?:)\ ?{_QUOTE}){_VALUE}""",
    ),
    (
        ("-u", "--user"),
        r"""(?P<intro>(?<![\w-])(?:-u|--user)(?:[\ =]|["'],\ ?["'])(?!\d+:\d+\b)[^\s:"'/]{1,100}:)[^\s"']+""",
    ),
    (("?", "&", ";"), r"""(?P<intro>[?&;](?:key|(?:[\w-]{1,24}-)?sig(?:nature)?)=)[^&\s'"<>\#]+"""),
    # A password may contain an @. It may also contain a slash, unless the text before the slash is a port.
    (
        ("://",),
        r"""(?P<intro>://)(?:[^\s/@:?#"'<>]*:(?:[^\s/?#"'<>]*|(?!\d{1,5}[/?#])[^\s"'<>]{1,256})|[^\s/@:?#"'<>]{16,})
                (?=@)""",
    ),
    (
        ("bearer",),
        rf"""(?P<intro>\b(?-i:Bearer|BEARER)[\ \t]{{1,4}})(?!(?:{_PROSE})\b|(?:realm|error|scope)=)(?=\w)
                {_CHARACTERS}+""",
    ),
    (("bearer",), rf"""(?P<intro>\bbearer[\ \t]{{1,4}})(?=[\w.~+/=-]{{16}}|[a-z.~+/=-]{{0,15}}\d){_CHARACTERS}+"""),
    (("basic",), r"(?P<intro>\bbasic[\ \t]{1,4})(?=[a-z+/]{0,200}[\d=])[\w+/-]{6,}(?![\w+/-])={0,2}(?![\w.])"),
    (
        ("hooks.slack.com/", "/webhooks/"),
        r"(?P<intro>hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{1,30}/)[\w/-]+",
    ),
    # The same of Slack in an error text that has the host elsewhere.
    (
        ("/services/t", "/workflows/t", "/triggers/t"),
        r"""(?P<intro>/(?:services|workflows|triggers)/)
                (?-i:T(?=[A-Z]{0,20}\d)[A-Z\d]{2,20}/(?:[AB][A-Z\d]{2,20}|\d{4,20})/)[\w/-]+""",
    ),
    # The key in the URL of a ping, of Healthchecks and of similar services.
    (
        ("hc-ping.com/", "/ping/", "cronitor.link/p/", "nosnch.in/", "/api/push/", "/heartbeat/", "/integration/"),
        r"""(?P<intro>hc-ping\.com/|cronitor\.link/p/|nosnch\.in/|pagerduty\.com/integration/|//[\w.:-]{1,100}/
                (?:ping/(?=[\w-]{16})|api/push/|api/v\d/heartbeat/))[\w-]+""",
    ),
)

# Secrets that are recognised by their first characters. They are apart from the others, because upper and lower case
# differ here, and because one pattern for all of them is quick.
_FORMS = r"""(?<![A-Za-z0-9])(?:
    (?:gh[oprsu]_|github_pat_|glpat-|glsa_|[rs]k_(?:live|test)_|whsec_|xox[a-z]-|xapp-|hv[bs]\.|dop_v1_|shp[a-z]{2}_
        |dckr_pat_|sk-(?:ant|proj)-|sntry[su]_|hc[rw]_|GOCSPX-|ya29\.|1//0)[\w.-]{4,}
    | (?:sk-|npm_|hf_|gsk_|lin_api_|secret_|ntn_|figd_|xai-|nvapi-|rubygems_|tskey-[a-z]{1,10}-|key-)[A-Za-z0-9]{20,}
    | SG\.[\w-]{16,}\.[\w-]{16,} | pypi-AgE[\w-]{20,} | PMAK-[\w-]{20,} | ATATT3[\w=-]{20,} | AGE-SECRET-KEY-1\w{20,}
    | A[KS]IA[A-Z0-9]{16} | AIza[\w-]{30,}
    | (?:bot)?[0-9]{8,10}:[\w-]{35}
    | eyJ[\w-]{8,}\.[\w.-]*[\w-]
    )"""


def names_secret(name: str) -> bool:
    """Return whether a field of this name holds a secret, whatever its value looks like."""
    return _compiled(_SECRET_NAME).search(name) is not None


def redacted(text: str) -> str:
    """Return the text without what looks like a secret. The words that introduce a secret stay."""
    if len(text) > LONGEST:
        # Short enough to be read again: what an event says is read once more by the log.
        return f"{_without_secrets(_beginning(text))[: LONGEST - 100]} … (cut: it has {len(text):,} characters)"
    return _without_secrets(text)


def _beginning(text: str) -> str:
    """Return a long text up to its last whole word: the user and password of a URL are known by what follows them."""
    beginning = text[:LONGEST]
    return beginning[: max(map(beginning.rfind, " \n\t\"'"))]


def _without_secrets(text: str) -> str:
    lower = text.lower()
    for words, secret in _SECRETS:
        for word in words:
            if word in lower:
                text = _compiled(secret).sub(rf"\g<intro>{REDACTED}", text)
                break
    return _compiled(_FORMS, re.VERBOSE).sub(REDACTED, text)


# Compiled when a text first needs it: all of them together take longer than the rest of a program's first line.
@cache
def _compiled(pattern: str, flags: re.RegexFlag = re.VERBOSE | re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(pattern, flags)


def described(error: BaseException | None) -> str:
    """Return an exception as one line without secrets, even if its `__str__` raises."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text can't be read: {type(broken).__name__})"
    text = storable(redacted(text))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def storable(text: str) -> str:
    """Return the text as RTDB takes it: without lone surrogates, which come from file names that are not UTF-8."""
    return text.encode("utf-8", "replace").decode()


def cut(text: str, longest: int) -> str:
    """Return the beginning of a text, of so many characters at most, as the security rules count them.

    A character beyond the first 65,536 of Unicode counts as two.
    """
    # RTDB takes no lone surrogates, which come from file names that are not UTF-8.
    whole = text.encode("utf-8", "replace").decode().encode("utf-16-le")
    return whole[: 2 * longest].decode("utf-16-le", "ignore")


# --- texts from the database

_LONGEST_LINE = 500


def plain(text: str) -> str:
    """Return the text as one line of printable characters, cut if long: the database may hold any text."""
    joined = text.replace("\r\n", "\n").replace("\n", " ⏎ ")
    shown = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in joined)
    return shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"

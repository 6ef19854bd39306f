r"""Redaction: removes tokens, keys and passwords from texts for the log.

Texts of firecron itself contain no secrets. But the log also has the exceptions of jobs, and exceptions quote values
that may be secret. Redaction recognises a secret in one of three ways:

    by its name    DB_PASSWORD=…, "accessToken": "…", X-Api-Key: …, --token …, <password>…</password>
    by its place   the user and password of a URL, ?key= and ?sig=, the headers Authorization and Cookie
    by its form    -----BEGIN PRIVATE KEY-----, JWTs, and what begins with ghp_, sk_live_, xoxb-, AIza …

A value in quotes is redacted to the closing quote, any other value to the next blank. A secret without such a name,
place or form stays. In doubt the text loses a word. One exception: words after a phrase and a colon stay ("no token:
connection refused"), because error texts have this form.

A text is read up to LONGEST characters, and what follows is left out: an exception may quote a whole reply, and a lock
is not to wait for megabytes.
"""

from __future__ import annotations

import re

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
    | (?:access|account|api|app|auth|client|encryption|functions?|hmac|license|master|private|role|secret|service
        |session|shared|sign|signing|ssh|subscription)[-_\ ]?key(?:[-_]?(?:id|base))?
    | {_PLAIN_TOKEN}(?<!unexpected[-_\ ])token
)\d{{0,2}}"""
_SECRET_NAME = re.compile(rf"(?:{_NAME}|authorization|cookie)\Z", re.VERBOSE | re.IGNORECASE)
_NAMES = ("pass", "pwd", "secret", "jwt", "sessionid", "key", "token")

# What stands between a name and its value. Blanks and backslashes have a maximum number, so that a long run of them
# is not tried again from each of its positions.
_CLOSE = r"""\\{0,4}["'`\]]{0,2}+[\ \t]{0,40}+"""
_TYPE = r"(?:optional\[)?(?:str|string|bytes|secretstr)\]?(?:\ ?\|\ ?none)?\ ?="
_SEPARATOR = rf"(?>=>|[!:]?={{1,3}}|:(?:\ ?{_TYPE})?|%3[AD])[\ \t]{{0,40}}+"
_QUOTE = r"""(?:[bfru]?(?P<quote>\\{0,4}(?:"{3}|'{3}|["'`])))?+"""

# A value in quotes. A quote inside it may be escaped. Without a closing quote the value ends with its line.
_QUOTED = r"(?:(?!(?<!\\)(?P=quote))[^\r\n])++"
# A value without quotes. Punctuation belongs to it if the value goes on right after it, and the next name= doesn't.
_CHARACTERS = r"""(?:
    [^\s"'`<>\\,;&)\]}.] | [,;&)\]}.]++(?=[^\s"'`<>\\])(?![\w.\[\]-]{1,64}=) | ["'`](?=\w) | \\(?![\\nrt"'`])
)"""
_BARE = rf"""(?!\[redacted\]|(?:none|null|nil|true|false|undefined)(?![\w.-]))
    (?:[(\[{{](?:"[^"\r\n]*"|'[^'\r\n]*'|[^)\]}}\r\n])++{_CHARACTERS}*+|{_CHARACTERS}++)"""
_VALUE = f"(?(quote){_QUOTED}|{_BARE})"

_SCHEME = r"(?:basic|bearer|token|api-?key|key|negotiate|digest|dpop|oauth|hawk|signature|aws4-[\w-]{1,20})\ "
_PROSE = r"of|or|and|is|was|in|with|for|by|from|to|the|an?|not|must|only|tokens?|auth\w*|scheme|header|type|format"

# In a sentence, the name and a colon are followed by words, or by an error that is quoted.
_WORDS = r"""(?:\(["'])?[a-z_]{1,60}(?:\ [a-z(]|:\ |\((?:[a-z_]{1,20}=)?["')])"""

# The patterns of secrets, each with words in lower case. A text without any of these words can't match the pattern,
# so most texts are checked against few patterns. `intro` stays in the text. No part of a pattern may be tried from
# every position of a long text: each part begins with a fixed text or at a boundary, and a repetition has a maximum
# or is possessive.
_SECRETS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (words, re.compile(pattern, re.VERBOSE | re.IGNORECASE))
    for words, pattern in (
        (
            ("-----begin ",),
            r"""(?P<intro>)-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
                (?s:.*?)(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)""",
        ),
        (
            # The name of a known scheme, such as Bearer, stays in the text.
            ("authorization",),
            rf"""(?P<intro>authorization(?:{_CLOSE}{_SEPARATOR}|["'],\ ?){_QUOTE}(?:{_SCHEME})?+)(?!\[redacted\])
                (?(quote){_QUOTED}|(?:\w{{1,40}}=[^\r\n]++|{_BARE}(?:\ (?=[^\s"']{{0,200}}[\d=]){_BARE})?))""",
        ),
        (
            ("cookie",),
            rf"""(?P<intro>cookie(?:{_CLOSE}(?::\ ?|=)|["'],\ ?){_QUOTE})
                (?(quote){_QUOTED}|(?=[^\s=;"',<>]{{1,100}}=)[^\r\n"']++)""",
        ),
        (
            _NAMES,
            rf"""(?P<phrase>(?<=[a-z,]\ ))?+(?P<intro>{_NAME}{_CLOSE}{_SEPARATOR}{_QUOTE})
                (?(phrase)(?!(?<=:\ ){_WORDS})){_VALUE}""",
        ),
        # --token abc and ['--token', 'abc']; ('password', 'abc'); password 'abc'; {'name': 'TOKEN', 'value': 'abc'}
        (_NAMES, rf"""(?P<intro>--[\w-]{{0,40}}?{_NAME}(?:\ {{1,4}}|["'],\ ?){_QUOTE})(?!-){_VALUE}"""),
        (_NAMES, rf"""(?P<intro>\(b?["'][\w-]{{0,40}}?{_NAME}["'],\ ?{_QUOTE}){_VALUE}"""),
        (
            ("password ", "passphrase ", "token ", "identified by "),
            rf"""(?P<intro>(?:password|passphrase|(?<!unexpected\ )token|identified\ by)
                \ (?=["'`]){_QUOTE}){_QUOTED}""",
        ),
        (("value",), rf"""(?P<intro>{_NAME}["']?,?\s{{1,40}}["']?value{_CLOSE}{_SEPARATOR}{_QUOTE}){_VALUE}"""),
        (("</",), rf"""(?P<intro><[\w.:-]{{0,40}}?{_NAME}(?:\ [^<>]{{0,200}})?>)[^<>\r\n]++"""),
        (("auth",), rf"""(?P<intro>(?:(?<![a-z])auth\ ?=|["']_?auth["']\ ?:)\ ?{_QUOTE}){_VALUE}"""),
        (
            ("-u", "--user"),
            r"""(?P<intro>(?<![\w-])(?:-u|--user)(?:[\ =]|["'],\ ?["'])(?!\d+:\d+\b)[^\s:"'/]{1,100}:)[^\s"']++""",
        ),
        (("?", "&", ";"), r"""(?P<intro>[?&;](?:key|(?:[\w-]{1,24}-)?sig(?:nature)?)=)[^&\s'"<>\#]++"""),
        # A password may contain an @. It may also contain a slash, unless the text before the slash is a port.
        (
            ("://",),
            r"""(?P<intro>://)(?:[^\s/@:?#"'<>]*+:(?:[^\s/?#"'<>]*|(?!\d{1,5}[/?#])[^\s"'<>]{1,256})|[^\s/@:?#"'<>]{16,}+)
                (?=@)""",
        ),
        (
            ("bearer ",),
            rf"""(?P<intro>\b(?-i:Bearer|BEARER)\ )(?!(?:{_PROSE})\b|(?:realm|error|scope)=)(?=\w){_CHARACTERS}++""",
        ),
        (("bearer ",), rf"""(?P<intro>\bbearer\ )(?=[\w.~+/=-]{{16}}|[a-z.~+/=-]{{0,15}}\d){_CHARACTERS}++"""),
        (("basic ",), r"(?P<intro>\bbasic\ )(?=[a-z+/]{0,200}[\d=])[\w+/-]{6,}+={0,2}(?![\w.])"),
        (
            ("hooks.slack.com/", "/webhooks/"),
            r"(?P<intro>hooks\.slack\.com/(?:services|workflows|triggers)/|/api/webhooks/\d{1,30}/)[\w/-]++",
        ),
    )
)

# Secrets that are recognised by their first characters. They are apart from the others, because upper and lower case
# differ here, and because one pattern for all of them is quick.
_FORMS = re.compile(
    r"""(?<![A-Za-z0-9])(?:
    (?:gh[oprsu]_|github_pat_|glpat-|glsa_|[rs]k_(?:live|test)_|whsec_|xox[a-z]-|xapp-|hv[bs]\.|dop_v1_|shp[a-z]{2}_
        |dckr_pat_|sk-(?:ant|proj)-|GOCSPX-|ya29\.|1//0)[\w.-]{4,}
    | (?:sk-|npm_|hf_|gsk_|lin_api_|secret_|ntn_|figd_|xai-|nvapi-|rubygems_|tskey-[a-z]{1,10}-|key-)[A-Za-z0-9]{20,}
    | SG\.[\w-]{16,}\.[\w-]{16,} | pypi-AgE[\w-]{20,} | PMAK-[\w-]{20,} | ATATT3[\w=-]{20,} | AGE-SECRET-KEY-1\w{20,}
    | A[KS]IA[A-Z0-9]{16} | AIza[\w-]{30,}
    | (?:bot)?[0-9]{8,10}:[\w-]{35}
    | eyJ[\w-]{8,}\.[\w.-]*[\w-]
    )""",
    re.VERBOSE,
)


def names_secret(name: str) -> bool:
    """Return whether a field of this name holds a secret, whatever its value looks like."""
    return _SECRET_NAME.search(name) is not None


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
                text = secret.sub(rf"\g<intro>{REDACTED}", text)
                break
    return _FORMS.sub(REDACTED, text)


def described(error: BaseException | None) -> str:
    """Return an exception as one line without secrets, even if its `__str__` raises."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its text can't be read: {type(broken).__name__})"
    # RTDB takes no lone surrogates, which come from file names that are not UTF-8.
    text = redacted(text).encode("utf-8", "replace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

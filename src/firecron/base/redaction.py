r"""Redaction: no token, key or password in a line of the log, whoever put it into the text.

What firecron itself says has none. But a job's exception goes into the log as well, and exceptions quote what they
stumbled over. A secret is known in one of three ways:

    by its name    DB_PASSWORD=…, "accessToken": "…", X-Api-Key: …, --token …, <password>…</password>
    by its place   the user and password of a URL, ?key= and ?sig=, the headers Authorization and Cookie
    by its form    -----BEGIN PRIVATE KEY-----, JWTs, and what begins with ghp_, sk_live_, xoxb-, AIza …

A value in quotes is redacted to the closing quote, any other to the next blank. A secret that has no such name, place
or form stays. In doubt the text loses a word, with one exception, because errors speak so: words after a phrase and a
colon ("no token: connection refused").
"""

from __future__ import annotations

import re

REDACTED = "[redacted]"

# Tokens that are no secrets: pages of a listing, and the name of an error in OAuth.
_PLAIN_TOKEN = "".join(
    f"(?<!{word})(?<!{word}[-_])" for word in ("page", "next", "sync", "resume", "continuation", "invalid")
)

# What the name of a secret ends in, and one of these words is in each.
_NAME = rf"""(?:
    pass(?:word|wd|phrase|code) | pwd | secret | jwt | sessionid
    | (?-i:(?<![A-Za-z])(?:pass|PASS)|(?<=[a-z])Pass)
    | (?:access|account|api|app|auth|client|encryption|functions?|hmac|license|master|private|role|secret|service
        |session|shared|sign|signing|ssh|subscription)[-_\ ]?key(?:[-_]?(?:id|base))?
    | {_PLAIN_TOKEN}(?<!unexpected[-_\ ])token
)\d{{0,2}}"""
_SECRET_NAME = re.compile(rf"(?:{_NAME}|authorization|cookie)\Z", re.VERBOSE | re.IGNORECASE)
_NAMES = ("pass", "pwd", "secret", "jwt", "sessionid", "key", "token")

# Between a name and its value. Blanks and backslashes are counted, so that a long run of them is not tried from each.
_CLOSE = r"""\\{0,4}["'`\]]{0,2}+[\ \t]{0,40}+"""
_TYPE = r"(?:optional\[)?(?:str|string|bytes|secretstr)\]?(?:\ ?\|\ ?none)?\ ?="
_SEPARATOR = rf"(?>=>|[!:]?={{1,3}}|:(?:\ ?{_TYPE})?|%3[AD])[\ \t]{{0,40}}+"
_QUOTE = r"""(?:[bfru]?(?P<quote>\\{0,4}(?:"{3}|'{3}|["'`])))?+"""

# A value in quotes, one of which may be escaped; where none closes it, it ends with its line.
_QUOTED = r"(?:(?!(?<!\\)(?P=quote))[^\r\n])++"
# A value without. Punctuation is part of it if it goes on right behind, and not with the next name=.
_CHARACTERS = r"""(?:
    [^\s"'`<>\\,;&)\]}.] | [,;&)\]}.]++(?=[^\s"'`<>\\])(?![\w.\[\]-]{1,64}=) | ["'`](?=\w) | \\(?![\\nrt"'`])
)"""
_BARE = rf"""(?!\[redacted\]|(?:none|null|nil|true|false|undefined)(?![\w.-]))
    (?:[(\[{{](?:"[^"\r\n]*"|'[^'\r\n]*'|[^)\]}}\r\n])++{_CHARACTERS}*+|{_CHARACTERS}++)"""
_VALUE = f"(?(quote){_QUOTED}|{_BARE})"

_SCHEME = r"(?:basic|bearer|token|api-?key|key|negotiate|digest|dpop|oauth|hawk|signature|aws4-[\w-]{1,20})\ "
_PROSE = r"of|or|and|is|was|in|with|for|by|from|to|the|an?|not|must|only|tokens?|auth\w*|scheme|header|type|format"

# What follows the name and a colon in a sentence: words, or an error that is quoted.
_WORDS = r"""(?:\(["'])?[a-z_]{1,60}(?:\ [a-z(]|:\ |\((?:[a-z_]{1,20}=)?["')])"""

# What is redacted, and the words of which at least one is in a text that has it (in lower case), so that most texts are
# tried for little. `intro` is what stays. No part may be tried from every position of a long text: each begins with a
# fixed text or at a boundary, and what may repeat is counted, or never given back.
_SECRETS: tuple[tuple[tuple[str, ...], re.Pattern[str]], ...] = tuple(
    (words, re.compile(pattern, re.VERBOSE | re.IGNORECASE))
    for words, pattern in (
        (
            ("-----begin ",),
            r"""(?P<intro>)-----BEGIN\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----
                (?s:.*?)(?:-----END\ [A-Z ]{0,40}PRIVATE\ KEY(?:\ BLOCK)?-----|\Z)""",
        ),
        (
            # A scheme that is known stays.
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
        # A password may have an @, and also a slash, unless what is before that is a port.
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

# Known by how they begin. Apart from the others, because letters count in both cases, and because that is quick.
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
    """Whether a field of this name is a secret, whatever its value looks like."""
    return _SECRET_NAME.search(name) is not None


def redacted(text: str) -> str:
    """The text without what looks like a secret; what introduces one is left."""
    lower = text.lower()
    for words, secret in _SECRETS:
        for word in words:
            if word in lower:
                text = secret.sub(rf"\g<intro>{REDACTED}", text)
                break
    return _FORMS.sub(REDACTED, text)


def described(error: BaseException | None) -> str:
    """An exception, in a line without secrets; whatever its `__str__` does."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(and its text can't be had: {type(broken).__name__})"
    # Half a character, as in the name of a file that is no UTF-8, is nothing that RTDB would take.
    text = redacted(text).encode("utf-8", "replace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__

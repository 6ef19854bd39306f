"""Redaction: what is taken for a secret, and what isn't."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.listeners import recorded

import firecron
import rtdb_emulator
from firecron.base.events import Events
from firecron.base.texts import LONGEST, described, names_secret, redacted

SOURCE = Path(firecron.__file__).parent
EMULATOR = Path(rtdb_emulator.__file__).parent
KEY = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhk\niG9w0BAQEFAASC\n-----END PRIVATE KEY-----"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJtZSJ9.c2lnbmF0dXJl"

# Texts as programs write them: {} is the secret, and all of it and nothing else is left out.
NAMED = [
    "DB_PASSWORD={}",
    "PGPASSWORD={} psql -h db",
    "export MYSQL_PWD={}",
    "MY_API_KEY={}",
    "AWS_SECRET_ACCESS_KEY={}",
    "aws_session_token = {}",
    "SECRET_KEY_BASE={}",
    "SMTP_PASS={}",
    "passwd={}",
    "pwd={}",
    "pass={}",
    "passphrase: {}",
    "jwt={}",
    "JSESSIONID={}",
    "X-Api-Key: {}",
    "x-goog-api-key: {}",
    "X-Vault-Token: {}",
    "PRIVATE-TOKEN: {}",
    "Ocp-Apim-Subscription-Key: {}",
    "apiKey={}",
    "API key: {}",
    "user: me, secret: {}",
    '{{"accessToken": "{}"}}',
    "{{'access_token': '{}', 'expires_in': 3599}}",
    '{{"refreshToken":"{}","x":1}}',
    r"{{\"clientSecret\": \"{}\"}}",
    "'password': b'{}'",
    '"password": "{}"',
    "connect(user='me', password='{}', host='db')",
    "user[password]={}&user[name]=me",
    "form['password'] = '{}'",
    "password1={}&password2=",
    "password        : {}",
    "PASSWORD => '{}'",
    'password: str = "{}"',
    "assert password == '{}'",
    "password: '''{}'''",
    "dbPass: '{}'",
    "Server=db;Uid=sa;Pwd={};Database=x",
    "AccountName=x;AccountKey={};EndpointSuffix=y",
    "ALTER ROLE me WITH PASSWORD '{}'",
    "CREATE USER x IDENTIFIED BY '{}'",
    "machine x login me password '{}'",
    "curl --token {} https://x",
    "mysql --password={} -h db",
    "['mysqldump', '--password', '{}']",
    "('password', '{}')",
    "<password>{}</password>",
    '<wsse:Password Type="x">{}</wsse:Password>',
    "{{'name': 'DB_PASSWORD', 'value': '{}'}}",
    "name: API_TOKEN\n  value: {}",
    "invalid token '{}'",
    "token={}.",
    "auth={}",
    "//registry.example.org/:_authToken={}",
    "PING_KEY={}",
    "ping_key={}",
    "ping key: {}",
    "pings(crons, healthchecks=None, ping_key='{}')",
    "routing_key={}",
    "integration_key: {}",
    '"routing_key": "{}"',
    "--token\t{}",
    "credential={}",
    "db_credentials={}",
    "'credentials': '{}'",
    "signature={}",
    "webhook_signature = {}",
    '"signature": "{}"',
    "hmac={}",
    "hmac_sha256={}",
    "client_assertion={}&grant_type=x",
    "'HTTP_X_GOOG_IAP_JWT_ASSERTION': '{}'",
    "password {}",
    "wrong password {}, two tries are left",
    "password\t{}",
    "token {} rejected",
    "the api key {} has no quota",
]
PLACED = [
    "https://x.com/a?b=1&access_token={}&c=2",
    "https://x/a?key={}",
    "https://x/cb#access_token={}",
    "https://x/?next=%2Fa%3Ftoken%3D{}",
    "GET /cron-locks/job.json?auth={} HTTP/1.1",
    "https://storage.googleapis.com/b/o?Expires=1&Signature={}",
    "https://storage.googleapis.com/b/o?X-Goog-Signature={}",
    "https://s3.amazonaws.com/b/k?X-Amz-Signature={}&X-Amz-Expires=60",
    "https://x.blob.core.windows.net/c?sv=2024&sig={}",
    "Authorization: Bearer {}",
    "Authorization: Token {}",
    "Authorization: {}",
    "{{'Authorization': 'Basic {}'}}",
    '"authorization":"{}"',
    "(b'authorization', b'Bearer {}')",
    "-H 'Authorization: ApiKey {}'",
    "Proxy-Authorization: Basic {}",
    "sent Bearer {} twice",
    "sent Bearer\t{} twice",
    "Authorization:\tBearer\t{}",
    "X-Signature: {}",
    "X-Hub-Signature-256: {}",
    "{{'X-Slack-Signature': '{}'}}",
    "X-Content-HMAC: {}",
    "x-goog-iap-jwt-assertion: {}",
    "(b'x-goog-iap-jwt-assertion', b'{}')",
    "requests.auth.HTTPBasicAuth('me', '{}')",
    'HTTPDigestAuth("me", "{}")',
    "curl -u me:{} https://x",
    "['curl', '-u', 'me:{}']",
]
URLS = ["postgres://me:{}@db:5432/x", "redis://:{}@cache:6379/0", "http://user:{}@proxy:3128"]
WHOLE = [
    ("postgres://me:pa55@db:5432/x", "postgres://[r]@db:5432/x"),
    ("redis://:pa55@cache:6379/0", "redis://[r]@cache:6379/0"),
    ("postgres://u:p@ss@h/db", "postgres://[r]@h/db"),
    ("mongodb+srv://u:pa/55@cluster0.mongodb.net", "mongodb+srv://[r]@cluster0.mongodb.net"),
    ("https://0123456789abcdef0123@o1.ingest.sentry.io/2", "https://[r]@o1.ingest.sentry.io/2"),
    ("password: 'two words'", "password: '[r]'"),
    (r'password="it\"s 2"', 'password="[r]"'),
    ('"password": ["a", "b"]', '"password": [r]]'),
    ("auth=('me', 'pa55')", "auth=[r])"),
    ("DB_PASSWORD=a&b;c,d!", "DB_PASSWORD=[r]"),
    ('PASSWORD=a"b', "PASSWORD=[r]"),
    ("Authorization: Custom pa55", "Authorization: [r]"),
    ('Authorization: Digest username="me", response="0a1b"', "Authorization: Digest [r]"),
    ("Cookie: sid=0a1b; theme=dark", "Cookie: [r]"),
    ("Set-Cookie: a=0a1b; Path=/; HttpOnly", "Set-Cookie: [r]"),
    ("{'cookie': 'a=1; b=2'}", "{'cookie': '[r]'}"),
    ("Basic bWU6cGE1NQ==", "Basic [r]"),
    ("bearer abcdefghijklmnop", "bearer [r]"),
    (f"before {KEY} after", "before [r] after"),
    (repr({"private_key": KEY, "x": 1}), "{'private_key': '[r]', 'x': 1}"),
    ("cut short: -----BEGIN RSA PRIVATE KEY-----\\nMIIEvQIB", "cut short: [r]"),
    ('{"private_key_id": "0a1b", "type": "service_account"}', '{"private_key_id": "[r]", "type": "service_account"}'),
    (r"{\"refresh_token\": \"1//0abc\"}", r"{\"refresh_token\": \"[r]\"}"),
    ("https://hooks.slack.com/services/T00/B00/XXXX", "https://hooks.slack.com/services/[r]"),
    (
        "HTTPSConnectionPool(host='hooks.slack.com', port=443): with url: /services/T012AB/B034CD/abcDEF (Caused by x)",
        "HTTPSConnectionPool(host='hooks.slack.com', port=443): with url: /services/[r] (Caused by x)",
    ),
    ("url: /workflows/T012AB/A034CD/123456/abcDEF", "url: /workflows/[r]"),
    ("url: /triggers/T012AB/123456/0a1b2c", "url: /triggers/[r]"),
    ("https://hc-ping.com/0a1b/send-digest/start?rid=1", "https://hc-ping.com/[r]/send-digest/start?rid=1"),
    ("https://hc-ping.com/eb095278-f28d-448d-87fb-7b75c171a6aa", "https://hc-ping.com/[r]"),
    ("https://healthchecks.io/ping/eb095278-f28d-448d-87fb-7b75c171a6aa", "https://healthchecks.io/ping/[r]"),
    ("https://health.example.com:8000/ping/0123456789abcdefghijkl/x", "https://health.example.com:8000/ping/[r]/x"),
    ("https://uptime.example.com/api/push/0a1b?status=up", "https://uptime.example.com/api/push/[r]?status=up"),
    ("https://events.pagerduty.com/integration/0a1b/enqueue", "https://events.pagerduty.com/integration/[r]/enqueue"),
    ("token abc rejected", "token [r] rejected"),
    ("password P@ss! was rejected", "password [r] was rejected"),
    ("the token abc was revoked, and token def is not valid", "the token [r] was revoked, and token [r] is not valid"),
    ("Stripe-Signature: t=17,v1=0a1b,v0=2c", "Stripe-Signature: [r]"),
    ("Signature: 8a477f597d28d172789f06886806bc55", "Signature: [r]"),
    ("x-goog-iap-jwt-assertion: garbage", "x-goog-iap-jwt-assertion: [r]"),
    ("basic=('ops', 'pa55')", "basic=[r])"),
    ("https://discord.com/api/webhooks/123456/abc", "https://discord.com/api/webhooks/123456/[r]"),
]
FORMS = [
    "ya29.a0AfB_by-C",
    "1//0gabcDEF123",
    "AIzaSyA-1234567890_abcdefghijklmnopqrstu",
    "GOCSPX-abcdEFGH1234",
    JWT,
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0abcdefghijkl_mnop",
    "glpat-Zq9sXyzAbcDefGhi1234",
    "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
    "rk_test_4eC39HqLyjWDarjtT1zdp7dc",
    "whsec_abc123def456",
    "xoxb-17653672481-19874698323-pdFZKVeTuE8sk7oOcHrzqygy",
    "xapp-1-A0B1C2-123-abcdef",
    "sk-proj-Abc123Def456Ghi789",
    "sk-ant-api03-Abc123Def456",
    "sk-abcdefghijklmnopqrstuvwxyz012345",
    "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",
    "AKIAIOSFODNN7EXAMPLE",
    "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "hf_abcdefghijklmnopqrstuvwxyzABCDEF12",
    "dop_v1_0123456789abcdef",
    "shpat_0123456789abcdef",
    "glsa_abc123DEF456",
    "hvs.CAESIJabc123",
    "110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw1",
    "sntrys_eyJpYXQiOjE3MD.abc",
    "hcw_0123456789abcdef",
]

HARMLESS = [
    '"send-digest" succeeded after 0.2 s',
    "https://x.com/?auth_variable_override=%7B%22uid%22%3A1%7D&ns=demo",
    "a bearer of bad news, basic as it is: the monkey=1 password",
    "send-digest:2026-11-18T09:00:00Z",
    "holder fd8vTbinVRUGgjv7 fence 1794992400123",
    "http://127.0.0.1:9000/?ns=demo",
    "-----BEGIN PUBLIC KEY-----",
    "no token: connection refused",
    "could not fetch access token: HTTPSConnectionPool(host='oauth2.googleapis.com', port=443): Max retries exceeded",
    "error reading secret: permission denied",
    "the credentials don't give an access token: ('invalid_grant: Bad Request', {'error': 'invalid_grant'})",
    "wrong password: three tries are left",
    "unexpected token: '}'",
    "Unexpected token < in JSON at position 0",
    'error="invalid_token", next_page_token=abc',
    "{'nextPageToken': 'CAE', 'max_tokens': 500, 'tokens': 12}",
    'password authentication failed for user "me"',
    "fields ['username', 'password', 'email'] are missing",
    "password=None",
    '{"token": null, "token_type": "Bearer"}',
    "compass: 3, bypass=1, passed=3, failed=2",
    "primary_key=5 cache_key='x' keyboard: us secretary=bob author=me",
    "password_reset_url=https://x",
    'WWW-Authenticate: Bearer realm="x"',
    "Bearer token required",
    "the cookie: expired yesterday",
    "the header Authorization, as a Bearer",
    "https://host:8080/a@b?x=1",
    "ssh://git@github.com/a, see https://example.com/a:b@c",
    "docker run -u 1000:1000 x",
    "tokenize(text='a')",
    # What is said about a secret, without it.
    "the password is wrong",
    "token expired",
    "token expired 30 s ago, at 2026-11-18T09:00:00Z",
    "the token was rejected, and the password refused",
    "token verification rejected: the token audience is wrong",
    "the refresh token provided is invalid",
    "invalid_grant: Token has been expired or revoked.",
    "password must have 8 characters, password hash sha256 is unknown",
    "password for user2 is wrong",
    "API key not valid. Please pass a valid API key.",
    "Token 12 was rejected",
    "fencing token 1794992400123 is older than token 1794992400124",
    "the token send-digest:2026-11-18T09:00:00Z is taken",
    "token v2, token oauth2, token 0x7f3a, token get_token2(x), token count=5, token key2.pem, token http://x/1",
    "access token projects/p1/secrets/s2 not found",
    "unexpected token x1",
    "Secret [projects/1/secrets/db] not found, secret key-2 not found",
    "the API key is denied",
    # Names that ordinary things have as well.
    "signature mismatch in module x",
    "the signature is invalid: no hmac, no credentials",
    "function signature: f(a, b), signature=(a: int) -> str, signature=<Signature (a, b)>",
    "signature=valid hmac=sha256 credentials=include credential=None.",
    "credentials: file not found",
    "client = Client(credentials=source_credentials, signature=inspect.signature(f))",
    "GOOGLE_APPLICATION_CREDENTIALS=/etc/key.json",
    "x-signature: the header is missing",
    "assertion failed: x == 1",
    "AssertionError: assert 1 == 2",
    "time-signature::print",
    "routing key orders",
    "http://127.0.0.1:9000/ping/send-digest",
    "the integration/ folder, /heartbeat/ of 5",
    "basic=True, a basic\tidea, a bearer\tof news",
    "Bearer token rejected",
]


def said_by_firecron() -> Iterator[str]:
    """The texts in its own code, with words for what is filled in; without its documentation, which has examples."""
    for path in SOURCE.rglob("*.py"):
        if path.name == "texts.py":
            continue
        tree = ast.parse(path.read_text("utf-8"))
        documented = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "it failed" for part in node.values]
                yield "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
                yield node.value


@pytest.mark.parametrize("template", NAMED + PLACED)
def test_a_secret_is_redacted(template: str) -> None:
    """A secret is left out by its name or place, and what is around it stays; doing it twice changes nothing more."""
    left = redacted(template.format("s3cr3t-Zq9/x"))
    assert left == template.format("[redacted]")
    assert redacted(left) == left


@pytest.mark.parametrize(("text", "left"), WHOLE)
def test_a_secret_is_redacted_as_a_whole(text: str, left: str) -> None:
    """Blanks, quotes and punctuation in a secret don't end it before its end."""
    assert redacted(text) == left.replace("[r]", "[redacted]")
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_known_by_its_form(form: str) -> None:
    """What begins as services begin their tokens is left out wherever it stands."""
    assert redacted(f"it said {form}, twice ({form})") == "it said [redacted], twice ([redacted])"


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str) -> None:
    """Names, slots, holders, fences and ordinary words stay as they are."""
    assert redacted(text) == text


def test_what_firecron_says_itself_stays() -> None:
    """No sentence in firecron's own code loses a word."""
    header = "Bearer it failed"  # with its token
    texts = [text for text in said_by_firecron() if text.count(" ") > 1 and text != header]
    assert len(texts) > 500
    assert [text for text in texts if redacted(text) != text] == []


LETTERS = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ"
# Four signs that no other text here has, so that each piece of a secret that got out is noticed.
PIECES = st.lists(
    st.tuples(st.sampled_from(LETTERS), st.sampled_from(LETTERS)).map(lambda two: f"{two[0]}7{two[1]}8"),
    min_size=2,
    max_size=6,
)
AROUND = st.text(st.characters(exclude_characters="78"), max_size=30)


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text with a secret in it, and the secret's pieces."""
    pieces = draw(PIECES)
    template = draw(st.sampled_from(NAMED + PLACED + URLS))
    at = template.index("{}")
    if "?" in template or "cb#" in template:
        signs = "._-~+"
    elif template in URLS:
        signs = ".,:@!$/"
    elif at > 0 and template[at - 1] in "'\"" and not template.startswith("-H"):
        signs = " ,;:&()[]{}/@#!?%"
    else:
        signs = ",;:&)]}/@#!?%-_+|$"
    between = draw(st.sampled_from(signs))
    secret = between.join(pieces)
    text = template.format(secret)
    before, after = draw(st.sampled_from([" ", "\n"])), draw(st.sampled_from([" ", "\n"]))
    return f"{draw(AROUND)}{before}{text}{after}{draw(AROUND)}", pieces


@given(planted())
def test_no_planted_secret_gets_out(case: tuple[str, list[str]]) -> None:
    """Whatever is around it and whatever signs it consists of, no piece of a secret is left."""
    text, pieces = case
    left = redacted(text)
    assert [piece for piece in pieces if piece in left] == []


SHREDS = ["password", "token", "authorization", "Bearer ", "cookie", "auth", "--", "://", "a", "7", " ", "\n"]
SHREDS += list("=:'\"\\,;.()[]{}<>@?&/|")


@given(st.lists(st.sampled_from(SHREDS), max_size=12).map("".join))
def test_any_text_can_be_redacted_again(text: str) -> None:
    """Doing it twice changes nothing more, whatever the text."""
    assert redacted(redacted(text)) == redacted(text)


@pytest.mark.parametrize("piece", ["word ", "password=abc ", "a"])
def test_the_rest_of_a_very_long_text_is_left_out(piece: str) -> None:
    """An exception with the whole of a reply holds nothing up: its beginning is read, and its length is said once."""
    text = piece * (3 * LONGEST // len(piece))
    short = redacted(text)
    assert short.startswith(redacted(piece * 9).strip())
    assert short.endswith(f" … (cut: it has {len(text):,} characters)")
    assert (len(short) <= LONGEST, redacted(short)) == (True, short)


def test_a_long_text_is_cut_before_a_word() -> None:
    """Half of a URL, up to the password that an @ would show, is not left at the end."""
    url = "https://me:hunter2@example.com/"
    for before in range(len(url)):
        beginning = "a" * (LONGEST - before - 1) + " "
        assert "hunter" not in redacted(beginning + url * 9)


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("password", True),
        ("Authorization", True),
        ("accessToken", True),
        ("X-Api-Key", True),
        ("DB_PASSWORD", True),
        ("PGPASSWORD", True),
        ("GITHUB_TOKEN", True),
        ("dbPass", True),
        ("Set-Cookie", True),
        ("private_key_id", True),
        ("token", True),
        ("secret", True),
        ("ping_key", True),
        ("routingKey", True),
        ("credentials", True),
        ("x-hub-signature-256", True),
        ("hmac", True),
        ("client_assertion", True),
        ("assertion", False),
        ("signatures", False),
        ("line one\npassword", True),
        ("key", False),
        ("lock", False),
        ("next_page_token", False),
        ("invalid_token", False),
        ("passwords_checked", False),
        ("compass", False),
        ("max_tokens", False),
        ("", False),
    ],
)
def test_a_name_tells_a_secret(name: str, is_secret: bool) -> None:
    """A field is secret by its name, in whatever spelling, and with whatever before it."""
    assert names_secret(name) is is_secret


@pytest.mark.parametrize(
    "part",
    [
        "a", "eyJ", "://a", "://a:", "-----BEGIN PRIVATE KEY-----", "password ", "password='", 'password=["',
        "password=,.", "password:\\", "a, password: a ", "?token=", "--token ", "Bearer ", "authorization: a=",
        "<password ", "('password', '", 'secret""value', "token a", "token 1a", "token a.", "password a1 ", "token a/",
        "signature=", "signature=a", "x-hmac: ", "basicauth('a', '", "//a/ping/", "a-credentials: a",
    ],
)  # fmt: skip
def test_no_text_keeps_it_busy(part: str) -> None:
    """The time for a long text grows with its length, whatever it consists of."""
    # What is quadratic needs minutes for it, and is ended by the time that a test has.
    redacted(part * (100_000 // len(part)))
    names_secret(part * (100_000 // len(part)))


def test_no_pattern_is_possessive() -> None:
    """No pattern has a possessive repetition or an atomic group: early versions of Python 3.11 match these wrongly."""
    wrong = re.compile(r"""(?<![\["])[*?+]\+|\{\d*,?\d*\}+\+|\(\?>""")
    sources = [path for package in (SOURCE, EMULATOR) for path in package.rglob("*.py")]
    assert [(path.name, found[0]) for path in sources for found in wrong.finditer(path.read_text("utf-8"))] == []


def test_listeners_are_told_no_secret_either() -> None:
    """An event has its message and fields redacted before anybody hears of it."""
    events = Events()
    heard = recorded(events)
    events.emit("run.failed", "job", logging.ERROR, "https://x/?token=s3cret", why="Bearer abcdefghijklmnopq", took=7)
    [event] = heard
    assert (event.message, dict(event.fields)) == (
        "https://x/?token=[redacted]",
        {"why": "Bearer [redacted]", "took": 7},
    )


def test_an_error_without_a_text_is_told_by_its_name() -> None:
    """What an error says comes after its name, and where it says nothing, so does nothing."""
    assert described(ValueError()) == "ValueError"
    assert described(ValueError("no")) == "ValueError: no"

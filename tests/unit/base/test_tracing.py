"""The trace of a request, by its headers."""

from __future__ import annotations

import asyncio

import pytest

from firecron.base.tracing import Trace, current_trace, trace_of, traced

ID = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
CLOUD = "X-Cloud-Trace-Context"

HEADERS: list[tuple[dict[str, str], Trace | None]] = [
    ({"traceparent": f"00-{ID}-{SPAN}-01"}, Trace(ID, SPAN, is_sampled=True)),
    ({"traceparent": f" 00-{ID}-{SPAN}-00 "}, Trace(ID, SPAN)),
    ({"traceparent": f"cc-{ID}-{SPAN}-03-and-more"}, Trace(ID, SPAN, is_sampled=True)),
    ({"traceparent": f"ff-{ID}-{SPAN}-01"}, None),
    ({"traceparent": f"00-{'0' * 32}-{SPAN}-01"}, None),
    ({"traceparent": f"00-{ID}-{'0' * 16}-01"}, None),
    ({"traceparent": f'00-{ID}-{SPAN}-01", "x": "'}, None),
    ({CLOUD: f"{ID}/1;o=1"}, Trace(ID, "0000000000000001", is_sampled=True)),
    ({CLOUD.lower(): f"{ID.upper()}/18446744073709551615"}, Trace(ID, "f" * 16)),
    ({CLOUD: f"{ID}/18446744073709551616;o=0"}, Trace(ID)),
    ({CLOUD: f"{ID}/0"}, Trace(ID)),
    ({CLOUD: ID}, Trace(ID)),
    ({CLOUD: "0" * 32}, None),
    ({CLOUD: "nonsense"}, None),
    ({"traceparent": "nonsense", CLOUD: ID}, Trace(ID)),
    ({"traceparent": f"00-{ID}-{SPAN}-01", CLOUD: "1" * 32}, Trace(ID, SPAN, is_sampled=True)),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "trace"), HEADERS)
def test_a_trace_is_what_the_headers_say(headers: dict[str, str], trace: Trace | None) -> None:
    """The W3C's header goes before Google's, and what is malformed, or all zeros, is no trace."""
    assert trace_of(headers) == trace


def test_a_trace_lasts_for_its_block_and_reaches_threads_that_work_for_it() -> None:
    """In the block, and in what `asyncio.to_thread` does for it, the trace is known; afterwards it is as it was."""

    async def request() -> Trace | None:
        with traced(Trace(ID)):
            return await asyncio.to_thread(current_trace.get)

    assert asyncio.run(request()) == Trace(ID)
    assert current_trace.get() is None
    with pytest.raises(ZeroDivisionError), traced(Trace(ID)):
        1 / 0  # noqa: B018  # what goes wrong in the block ends the trace as well
    assert current_trace.get() is None

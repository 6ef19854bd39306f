"""Signals as they are noted and sent on; the process groups that they go to."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from firecron.base.flag import Flag
from firecron.cli.process import FORWARDED, STOPS, CommandLine, ProcessGroup, Signals
from firecron.errors import Stopping

ALL = (*FORWARDED, *STOPS)


@pytest.fixture(autouse=True)
def as_a_shell_leaves_them() -> Iterator[None]:
    """Whatever this run was started with, signals are as a program finds them that a person has started."""
    before = {number: signal.getsignal(number) for number in ALL}
    for number in ALL:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_each_signal_is_sent_on_once() -> None:
    """What came before there was anybody to send it to, and what comes then, arrives once, in its order."""
    sent: list[int] = []
    with Signals() as signals:
        signal.raise_signal(signal.SIGINT)
        assert sent == []
        with signals.going_to(sent.append):
            assert sent == [signal.SIGINT]
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
    assert sent == [signal.SIGINT, signal.SIGTERM, signal.SIGTERM]
    assert signals.received == signal.SIGINT


def test_a_signal_ends_a_pause() -> None:
    """A pause is over as soon as a signal has come, and no other one begins after it."""
    with Signals() as signals:
        assert signals.wait(0)
        threading.Thread(target=signal.pthread_kill, args=(threading.get_ident(), signal.SIGTERM)).start()
        assert not signals.wait(30)
        assert not signals.wait(30)


def test_another_thread_ends_a_pause() -> None:
    """A wake ends a pause as well, and doesn't pass for a signal; before and after the block it does nothing."""
    signals = Signals()
    signals.wake()
    with signals:
        threading.Thread(target=signals.wake).start()
        assert signals.wait(30)
    signals.wake()


def test_handlers_are_as_before() -> None:
    """In the block stops are ignored, and after it every signal does what it did before, and wakes what it woke."""
    signal.signal(signal.SIGHUP, signal.default_int_handler)
    before = [signal.getsignal(number) for number in ALL]
    reads, writes = socket.socketpair()
    writes.setblocking(False)
    with reads, writes:
        woken = signal.set_wakeup_fd(writes.fileno())
        with Signals():
            assert [signal.getsignal(number) for number in STOPS] == [signal.SIG_IGN] * len(STOPS)
        assert signal.set_wakeup_fd(woken) == writes.fileno()
    assert [signal.getsignal(number) for number in ALL] == before


def test_what_was_ignored_stays_ignored() -> None:
    """As nohup wants it, an ignored SIGHUP is neither noted nor sent on."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with Signals() as signals:
        signal.raise_signal(signal.SIGHUP)
    assert signals.received is None
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_a_group_that_is_closed_gets_no_signal(tmp_path: Path) -> None:
    """What a command has left behind lives on when its group is closed, whose number may be another's by then."""
    question, answer = tmp_path / "question", tmp_path / "answer"
    os.mkfifo(question)
    os.mkfifo(answer)
    group = ProcessGroup(["sh", "-c", f"(read line < {question}; echo $line > {answer}) &"], os.environ)
    assert group.wait() == 0
    group.close()
    group.send(signal.SIGKILL)
    question.write_text("still there?\n")
    assert answer.read_text() == "still there?\n"


def test_a_command_is_not_started_after_a_signal() -> None:
    """Once a signal has come, nothing is started that it would only have to be sent on to."""
    with Signals() as signals:
        command = CommandLine(["true"], signals, kill_after=1)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Stopping):
            command.run(Flag, {})
    assert command.code is None

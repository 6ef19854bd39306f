"""A module to be explored: two jobs, and things that must be left alone."""

import functools

from firecron import distributed_cron


@distributed_cron("of-module", "* * * * *")
def of_module() -> None: ...


def undecorated() -> None: ...


of_partial = distributed_cron("of-partial", "* * * * *")(functools.partial(undecorated))


class Class:
    @distributed_cron("of-class", "* * * * *")
    def method(self) -> None: ...


class Proxy:
    """Stands for something that isn't there yet, as web frameworks have them: to ask it anything is an error."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError(f"{name} was asked for")

    def __call__(self) -> None: ...


instance = Class()
proxy = Proxy()

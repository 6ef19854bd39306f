"""The parameters of a declared function, which gets no argument, or the one that an annotation asks for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Union, get_args, get_origin

from firecron.errors import ConfigurationError


def parameter_of(kind: type, what: str, function: Callable[..., object], where: str) -> str | None:
    """Return the name of the parameter that is annotated with `kind`; None if there is none.

    Raise ConfigurationError if the function needs any other argument. `what` is what it is declared as, for errors.
    """
    parameters, word = _parameters(function, where, what), kind.__name__
    found = next((name for name, parameter in parameters.items() if _takes(kind, parameter)), None)
    for name, needed in parameters.items():
        is_optional = needed.default is not needed.empty or needed.kind in (needed.VAR_POSITIONAL, needed.VAR_KEYWORD)
        if name != found and not is_optional:
            if name == word.lower() and needed.annotation is needed.empty:
                raise ConfigurationError(
                    f"{where} needs the argument {name!r}: annotate it, `{name}: {word}`, to get the {what}'s {word}"
                )
            raise ConfigurationError(
                f"{where} needs the argument {name!r}, but a {what} gets no arguments except its {word}, "
                f"as the keyword argument that is annotated `{word}`"
            )
    return found


def is_async(function: Callable[..., object]) -> bool:
    """Return whether a call of the function returns an awaitable."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _parameters(function: Callable[..., object], where: str, what: str) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except Exception:
        # An annotation can't be evaluated, such as a name that is imported for type checking only. It is read as text.
        try:
            return inspect.signature(function).parameters
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"{where} can't be a {what}, {error}: decorate a function that calls it") from None


def _takes(kind: type, parameter: inspect.Parameter) -> bool:
    """Return whether the parameter is annotated with the kind (or with it | None), and can be given by name."""
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        return False
    annotation = parameter.annotation
    if isinstance(annotation, str):
        words = {name.rpartition(".")[2] for name in re.findall(r"[\w.]+", annotation)}
        return words - {"None", "Optional", "Union"} == {kind.__name__}
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in (Union, UnionType):
        return kind in get_args(annotation)
    return annotation is kind

"""The types of a lock record's fields: what a value has to be, so that firecron acts upon the record."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from firecron.base.instants import check_instant, check_spans

Instant = Annotated[str, AfterValidator(check_instant)]
Spans = Annotated[str, AfterValidator(check_spans)]
# Doubles are exact up to 2^53 - 1. The limit is exclusive, because the next fence has to be exact too.
_TOO_HIGH = 2**53 - 1
Exact: TypeAlias = (
    Annotated[int, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)] | Annotated[float, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)]
)
Count: TypeAlias = Annotated[int, Field(ge=0, lt=_TOO_HIGH)] | Annotated[float, Field(ge=0, lt=_TOO_HIGH)]

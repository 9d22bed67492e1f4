"""`dataclass(frozen=True, slots=True)`, cheap to declare and to make.

A run of lint-jobs declares a hundred such classes before it judges anything, and makes tens of thousands of their
values. The standard decorator takes four times as long for the first, most of it to write methods that forbid
assignment, and three times as long for the second. Type checkers see the standard one, and forbid assignment.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, slots: bool, frozen: bool = False, eq: bool = True) -> Callable[[type[T]], type[T]]:
        """What `dataclasses.dataclass` makes of a class, but that fields of a frozen one can be assigned to."""
        if not frozen:
            return dataclasses.dataclass(slots=slots, eq=eq)
        plain = dataclasses.dataclass(slots=slots, eq=False, repr=False)
        return lambda cls: _compared(plain(cls))


def _compared(cls: type[T]) -> type[T]:
    """Give a class `==`, `hash` and `repr` over its fields, where it has none of its own."""
    fields: tuple[dataclasses.Field[Any], ...] = dataclasses.fields(cls)  # type: ignore[arg-type]
    compared = tuple(field.name for field in fields if field.compare)
    shown = tuple(field.name for field in fields if field.repr)
    values: Callable[[Any], Any] = attrgetter(*compared) if compared else type

    def equal(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: Any) -> int:
        return hash(values(self))

    def represented(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    for name, method in (("__eq__", equal), ("__hash__", hashed), ("__repr__", represented)):
        if name not in cls.__dict__ or (name == "__hash__" and cls.__dict__[name] is None):
            setattr(cls, name, method)
    return cls

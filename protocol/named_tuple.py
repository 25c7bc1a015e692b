"""`NamedTuple` as `typing` has it, defined in a third of the time.

A start defines some eighty of them. `collections.namedtuple` compiles source code for each, which would be a tenth of
the whole start. Here it makes one template for each number of fields, and classes with as many fields borrow its
constructor, under other names, and its fields. Instances are as small and as quick as the original's, because they
consist of the same parts. Type checkers see the original.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from collections import namedtuple
    from types import FunctionType

    _templates = {}

    def _template(size):
        """Returns a named tuple with that many fields."""
        if size not in _templates:
            _templates[size] = namedtuple("Template", [f"field_{number}" for number in range(size)])
        return _templates[size]

    class _NamedTupleType(type):
        def __new__(metaclass, name, bases, namespace):
            if tuple in bases or any(hasattr(base, "_fields") for base in bases):
                return super().__new__(metaclass, name, bases, namespace)  # a class that extends one adds no fields
            annotate = namespace.get("__annotate_func__")  # since Python 3.14
            fields = tuple(annotate(1) if annotate else namespace.get("__annotations__", ()))
            template = _template(len(fields))
            defaults = {field: namespace[field] for field in fields if field in namespace}
            new = template.__new__
            names = (new.__code__.co_varnames[0], *fields)
            code = new.__code__.replace(co_varnames=names, co_qualname=f"{name}.__new__")
            namespace.update(zip(fields, (vars(template)[field] for field in template._fields)))
            namespace["__new__"] = FunctionType(code, new.__globals__, "__new__", tuple(defaults.values()))
            namespace["__slots__"] = ()
            namespace["__match_args__"] = namespace["_fields"] = fields
            namespace["_field_defaults"] = defaults
            return super().__new__(metaclass, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        __slots__ = ()

        @classmethod
        def _make(cls, values):
            made = tuple.__new__(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, got {len(made)} values")
            return made

        def _replace(self, /, **changes):
            replaced = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no field {', '.join(changes)}")
            return replaced

        def _asdict(self):
            return dict(zip(self._fields, self))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            values = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self))
            return f"{type(self).__name__}({values})"

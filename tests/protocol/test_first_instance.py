"""The first instance of a message is made without a compiled constructor: it must not differ."""

import pytest

from barnabas.protocol.schema import int8
from tests.protocol.test_schema import one_field


def test_the_first_instance_is_like_all_others() -> None:
    for wrong in ({}, {"value": 1, "nonsense": 2}):
        with pytest.raises(TypeError):
            one_field(int8())(**wrong)
    cls = one_field(int8())
    assert [cls(value=value) for value in (1, 1, 2)] == [cls(value=1), cls(value=1), cls(value=2)]
    assert one_field(int8(default=5))().value == 5

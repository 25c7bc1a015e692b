"""Requests that mean something, for every API."""

from compat_tests.differential.shapes import absent, groups, records, topics

SHAPES = {**records.SHAPES, **topics.SHAPES, **groups.SHAPES, **absent.SHAPES}

"""Requests that mean something, for every API."""

from compat_tests.differential.shapes import absent, groups, records, topics, transactions

SHAPES = {**records.SHAPES, **topics.SHAPES, **groups.SHAPES, **transactions.SHAPES, **absent.SHAPES}

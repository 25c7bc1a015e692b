"""Sequences of requests, each a function of its seed."""

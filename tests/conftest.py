"""For every test of these folders."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)  # a machine that is busy is no failure
settings.load_profile("unhurried")

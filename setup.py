"""Maps the top-level folders onto the `barnabas` namespace; everything else is in pyproject.toml."""

from setuptools import setup

FOLDERS = ("protocol", "protocol.messages", "storage", "replication", "broker", "broker.handlers")

setup(
    packages=["barnabas", *(f"barnabas.{folder}" for folder in FOLDERS)],
    package_dir={"barnabas": "barnabas", **{f"barnabas.{folder}": folder.replace(".", "/") for folder in FOLDERS}},
)

"""Prints docs/apis.md out of the table of handlers: `python -m barnabas.broker.api_reference`."""

from inspect import getdoc, getmodule

from barnabas.broker.handlers import HANDLERS, Handler
from barnabas.protocol.api_keys import ApiKey

_INTRODUCTION = """\
# Kafka's APIs that are served

What `ApiVersions` tells a client, and where it is handled. This page is generated from the code by
`python -m barnabas.broker.api_reference`; a test keeps it current.
"""


def reference() -> str:
    rows = [_row(api_key, handler) for api_key, handler in sorted(HANDLERS.items())]
    details = [_details(api_key, handler) for api_key, handler in sorted(HANDLERS.items())]
    table = "\n".join(["| key | API | versions | handled in |", "|--:|---|---|---|", *rows])
    return f"{_INTRODUCTION}\n{table}\n\n## What each version added, and where we differ\n\n" + "\n".join(details)


def _row(api_key: ApiKey, handler: Handler) -> str:
    return f"| {api_key.value} | {_name(handler)} | {_versions(handler)} | `{_file(handler)}` |"


def _details(api_key: ApiKey, handler: Handler) -> str:
    """The opening words of the handler's module."""
    return f"### {_name(handler)}\n\n{getdoc(getmodule(handler.handle))}\n"


def _name(handler: Handler) -> str:
    name: str = handler.request.__name__
    return name.removesuffix("Request")


def _versions(handler: Handler) -> str:
    first, last = handler.versions.start, handler.versions.stop - 1
    return f"{first}" if first == last else f"{first} to {last}"


def _file(handler: Handler) -> str:
    return handler.handle.__module__.removeprefix("barnabas.").replace(".", "/") + ".py"


if __name__ == "__main__":
    print(reference(), end="")

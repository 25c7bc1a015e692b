"""Prints docs/apis.md out of the table of handlers: `python -m tools.api_reference`."""

from inspect import getdoc, getmodule

from barnabas.broker.authorization import AclOperation, AclResource
from barnabas.broker.handlers import HANDLERS, Handler
from barnabas.protocol.api_keys import ApiKey

_INTRODUCTION = """\
# Kafka's APIs that are served

What `ApiVersions` tells a client, on which listeners each API answers, what an ACL would have to allow (there are none
so far: everybody may do everything), and where it is handled. This page is generated from the code by
`python -m tools.api_reference`; a test keeps it current.
"""


def reference() -> str:
    rows = [_row(api_key, handler) for api_key, handler in sorted(HANDLERS.items())]
    details = [_details(api_key, handler) for api_key, handler in sorted(HANDLERS.items())]
    head = ["| key | API | versions | listeners | operations | handled in |", "|--:|---|---|---|---|---|"]
    table = "\n".join([*head, *rows])
    return f"{_INTRODUCTION}\n{table}\n\n## What each version added, and where we differ\n\n" + "\n".join(details)


def _row(api_key: ApiKey, handler: Handler) -> str:
    cells = (api_key.value, _name(handler), _versions(handler), _listeners(handler), _operations(handler))
    return "| " + " | ".join(map(str, cells)) + f" | `{_file(handler)}` |"


def _listeners(handler: Handler) -> str:
    return ", ".join(listener.name.lower() for listener in handler.listeners)


def _operations(handler: Handler) -> str:
    return ", ".join(
        f"{_words(AclOperation, operation)} on {_words(AclResource, resource)}"
        for operation, resource in handler.authorize
    )


def _words(numbers: type, number: int) -> str:
    """Returns the name of a number of an ACL."""
    (name,) = (name for name, value in vars(numbers).items() if value == number)
    return name.lower().replace("_", " ")


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

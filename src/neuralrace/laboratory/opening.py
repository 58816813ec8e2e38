"""How the page is opened: in a browser, without showing the token to others; with the state of a link."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import tempfile
import webbrowser
import zlib
from collections.abc import Iterator
from html import escape
from pathlib import Path

from pydantic import ValidationError

from neuralrace.errors import InputError, short
from neuralrace.laboratory.protocol import MAX_MESSAGE, Scene

LINK = re.compile(r"(?:lab:|#s=|^)([A-Za-z0-9_-]+)$")


def state_of(link: str) -> str:
    """The state that a link of the page holds, as it stands in an address."""
    return _read(link)[0]


def scene_in(link: str) -> Scene:
    """The scene that a link of the page holds."""
    return _read(link)[1]


def _read(link: str) -> tuple[str, Scene]:
    found = LINK.search(link.strip())
    try:
        if found is None:
            raise ValueError
        packed = found[1] + "=" * (-len(found[1]) % 4)
        text = zlib.decompressobj(-15).decompress(base64.urlsafe_b64decode(packed), MAX_MESSAGE)
        return found[1], Scene.model_validate(json.loads(text)["scene"])
    except (ValueError, KeyError, TypeError, RecursionError, zlib.error, ValidationError):
        raise InputError(
            f"link must be what 'Copy link' of the page copied, as in lab:..., got {short(link)}"
        ) from None


@contextlib.contextmanager
def browser(address: str) -> Iterator[None]:
    """Open an address in the browser, by a file that only this user can read.

    The command line of a browser is seen by all users of a computer, and the address holds the token.
    """
    with tempfile.TemporaryDirectory(prefix="neuralrace-", ignore_cleanup_errors=True) as folder:
        file = Path(folder) / "lab.html"
        page = f'<meta charset="utf-8"><meta http-equiv="refresh" content="0;url={escape(address)}">'
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(page + f'<a href="{escape(address)}">neuralrace lab</a>')
        webbrowser.open(file.as_uri())
        yield

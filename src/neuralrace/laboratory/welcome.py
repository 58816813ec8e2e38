"""The first message to every page: the gallery."""

from __future__ import annotations

from functools import cache

from neuralrace import __version__
from neuralrace.laboratory.gallery import GALLERY
from neuralrace.laboratory.own import OWN
from neuralrace.laboratory.protocol import Welcome


@cache
def welcome_text() -> str:
    """The message as JSON."""
    entries = [*(s.entry for s in GALLERY.values()), OWN]
    return Welcome(version=__version__, entries=entries).model_dump_json()

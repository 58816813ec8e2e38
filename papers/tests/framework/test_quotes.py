"""Sentences of papers, read from their items."""

import pytest

from neuralrace.errors import InputError
from neuralrace_papers.framework.quotes import quoted


def test_a_sentence_is_that_of_the_item():
    stated = quoted("representations_align C.2", "two-lines")
    assert (stated.kind, stated.source) == ("paper", "representations_align C.2")
    assert stated.quote == "Yet, we still find two separate lines in the representation."


def test_an_unknown_item_is_refused():
    with pytest.raises(InputError, match="item names 'no-such-item', which is no item of this paper"):
        quoted("multipathway Fig. 3", "no-such-item")

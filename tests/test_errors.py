"""Messages that are English and can be translated."""

from __future__ import annotations

import copy
import json

from nanopace.errors import InputError, Message
from nanopace.wording.catalog import words


def test_a_message_is_its_english_text_and_remembers_how_it_was_made() -> None:
    inner = Message("found {card}", card="{odd}")
    joined = Message.joined(": ", ("cuda:0", inner))
    assert (joined, json.dumps(joined)) == ("cuda:0: found {odd}", '"cuda:0: found {odd}"')
    again = copy.copy(joined)  # through what pickle asks it for: ranks send it to each other
    assert (again, again.template, again.values) == (joined, joined.template, joined.values)


def test_a_message_is_said_in_the_language_with_what_is_in_it() -> None:
    error = InputError("{path}: permission denied", path="a\nb")
    assert words("de").message(Message("{error}!", error=error)) == "a b: Zugriff verweigert!"
    assert words("de").message("a text\nas it is {x}") == "a text as it is {x}"

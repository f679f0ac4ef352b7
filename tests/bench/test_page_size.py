"""A page is small compared with its data."""

from __future__ import annotations

import page_size


def test_a_page_without_its_data_stays_below_its_bar() -> None:
    for name, page in page_size.pages().items():
        bare = page_size.without_data(page)
        assert len(bare) < 0.95 * len(page)
        assert page_size.kilobytes(bare) < 60, name

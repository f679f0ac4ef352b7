"""Every colour can be told from the ground and from its neighbours, by colour-blind eyes, too."""

from __future__ import annotations

import itertools
import math
import re

import pytest

from nanopace.views.page.render import ROOM

GROUNDS = {"surface", "raised", "text", "muted", "accent", "line", "edge"}
TONES = ("good", "warn", "bad", "quiet")
# What a colour-blind eye makes of linear red, green and blue (Machado, Oliveira and Fernandes 2009, complete).
BLINDNESS = {
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}


def palettes() -> list[dict[str, str]]:
    """Light and dark."""
    colour = "(#[0-9a-f]{6})"
    text = (ROOM / "assets" / "palette.css").read_text("utf-8")
    found = re.findall(rf"--([\w-]+): light-dark\({colour}, {colour}\);", text)
    assert len(found) == text.count("--")
    return [{name: tones[which] for name, *tones in found} for which in (0, 1)]


def linear(colour: str) -> list[float]:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb: list[float]) -> list[float]:
    """In a space where distances are as large as they look (CIELAB, D65)."""
    rows = ((0.4124, 0.3576, 0.1805, 0.9505), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.089))
    scaled = [max(0.0, r * rgb[0] + g * rgb[1] + b * rgb[2]) / white for r, g, b, white in rows]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in scaled)
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)]


@pytest.mark.parametrize("colours", palettes(), ids=["light", "dark"])
def test_every_colour_can_be_told_from_the_ground(colours: dict[str, str]) -> None:
    for name in ("text", "muted", "accent", *TONES):
        for ground in ("surface", "raised"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    assert contrast(colours["edge"], colours["surface"]) >= 3
    marks = set(colours) - GROUNDS
    assert len(marks) > 12
    for name in marks:
        assert contrast(colours[name], colours["surface"]) >= 3, name


@pytest.mark.parametrize("blindness", BLINDNESS)
@pytest.mark.parametrize("colours", palettes(), ids=["light", "dark"])
def test_colours_that_stand_together_differ_for_colour_blind_eyes(colours: dict[str, str], blindness: str) -> None:
    def seen(name: str) -> list[float]:
        rgb = linear(colours[name])
        return lab([sum(a * b for a, b in zip(row, rgb, strict=True)) for row in BLINDNESS[blindness]])

    causes = ("training", "evaluation", "checkpoint", "compile", "stall", "restart")
    runs = tuple(f"run-{number}" for number in range(1, 7))
    for group in (causes, runs, ("good", "warn"), ("good", "bad")):
        for one, other in itertools.combinations(group, 2):
            assert math.dist(seen(one), seen(other)) >= 20, (one, other)

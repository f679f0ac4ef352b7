"""AdamW's update of some rows of a weight, wherever the weight, its gradient and its averages are.

On the card, whatever is at home in the host's memory comes there and goes back. By the host's cores, only what is on
the card has to come: its gradient, unless that is at home, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from nanopace.train.host.pipeline import Home, Piece
from nanopace.train.private_torch import fused_adamw

if TYPE_CHECKING:
    from nanopace.train.fused.matrix import Matrix


@dataclass(frozen=True, slots=True)
class AdamWPart:
    weight: Tensor
    gradient: Tensor
    averages: tuple[Tensor, Tensor]
    count: Tensor  # of steps, on the card; this one is included
    group: Mapping[str, Any]
    matrix: Matrix | None  # None: the weight is on the card
    first: int = 0  # row
    copy: Tensor | None = None  # of these rows, if it is at home; else it is the matrix's
    gradient_at_home: bool = False

    def on_card(self, factor: Tensor, found_inf: Tensor) -> Piece:
        """`factor`: what clipping multiplies a gradient by that is not on the card."""
        homes = [Home(each) for each in self.averages]
        if self.matrix is not None:
            homes.append(Home(self.weight))
        if self.gradient_at_home:
            homes.append(Home(self.gradient, store=False))
        if self.copy is not None:
            homes.append(Home(self.copy, load=False))

        def use(average: Tensor, square: Tensor, *others: Tensor) -> None:
            rest = iter(others)
            weight = self.weight if self.matrix is None else next(rest)
            gradient = next(rest).mul_(factor) if self.gradient_at_home else self.gradient
            fused_adamw(weight, gradient, average, square, self.count, self.group, found_inf)
            self._refresh(weight, next(rest, None))

        return Piece(homes, use)

    def by_cores(self, gradient: Tensor, count: Tensor) -> None:
        """The update itself, with the gradient at home, and clipped."""
        fused_adamw(self.weight, gradient, *self.averages, count, self.group, None)

    def refreshing(self) -> Piece:
        """After an update by the host's cores."""
        homes = [Home(self.weight, store=False)]
        if self.copy is not None:
            homes.append(Home(self.copy, load=False))
        return Piece(homes, self._refresh)

    def _refresh(self, weight: Tensor, copy: Tensor | None = None) -> None:
        if self.matrix is None:
            return
        if copy is None:
            self.matrix.copy_rows(weight, self.first)
        else:
            self.matrix.copy_into(copy, weight)

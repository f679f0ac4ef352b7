"""What a run costs in money, energy and CO2: GPU hours and kilowatt-hours times the prices that were given."""

from __future__ import annotations

from typing import Literal

from nanopace.prices import Prices, Used
from nanopace.record import Record

# measured: by the cards' sensors; board_power: at most this, as if each card drew its board power all the time
EnergyBasis = Literal["measured", "board_power"]
Missing = Literal["time", "energy"]
GpusBasis = Literal["known", "inferred", "assumed"]  # assumed: one, because nothing says how many


class BilledPhase(Record):
    """One phase of the wall clock."""

    phase: str  # as in the names of `Wall`
    used: Used


class Bill(Record):
    """What a run has cost so far, by phase, and what the rest will cost. Evenly spread: a second of any phase costs the
    same, but the cards draw nothing while the machine is suspended."""

    currency: str | None
    per_gpu_hour: float | None  # the prices that were given
    per_kwh: float | None
    co2_g_per_kwh: float | None
    gpus: int
    gpus_basis: GpusBasis
    watts: float | None  # of all cards, while the machine is awake
    energy_basis: EnergyBasis | None
    missing: Missing | None  # what one of the prices would need and nothing shows; it is left out of all figures
    so_far: Used
    phases: tuple[BilledPhase, ...]
    per_1000: Used | None = None  # more iterations
    ahead: Used | None = None  # until max_iters, as far as that is known
    ahead_low: Used | None = None  # its 80% interval
    ahead_high: Used | None = None

    @property
    def prices(self) -> Prices:
        return Prices(self.per_gpu_hour, self.per_kwh, self.currency, self.co2_g_per_kwh)

    @property
    def at_most(self) -> bool:
        """Whether the money is only a bound."""
        return self.per_kwh is not None and self.energy_basis == "board_power"

    @property
    def per_gpu(self) -> bool:
        """Whether the figures are those of one GPU, because nothing says how many there were. What their sensors
        measured is that of all."""
        return self.gpus_basis == "assumed" and self.counts_gpus

    @property
    def counts_gpus(self) -> bool:
        """Whether the figures depend on the number of GPUs."""
        return self.per_gpu_hour is not None or self.energy_basis == "board_power"

    def of(self, seconds: float) -> Used:
        """What so many seconds cost while the machine is awake."""
        return self.prices.of_time(seconds, self.gpus, self.watts)

    def money_of(self, seconds: float | None) -> float | None:
        return None if seconds is None else self.of(seconds).money

"""Adds its bill to a diagnosis, if prices are given."""

from __future__ import annotations

from typing import NamedTuple, get_args

from nanopace.diagnosis.bill import Bill, BilledPhase, EnergyBasis, GpusBasis, Missing
from nanopace.diagnosis.result import Diagnosis, Wall
from nanopace.diagnosis.time.wall_time import Bucket
from nanopace.errors import CardError
from nanopace.prices import JOULES_PER_KWH, Prices, Used
from nanopace.record import replace

PHASES = get_args(Bucket)


class _Power(NamedTuple):
    watts: float | None  # of all cards
    basis: EnergyBasis | None


def billed(diagnosis: Diagnosis, prices: Prices | None) -> Diagnosis:
    """The diagnosis with its bill; unchanged without prices."""
    return diagnosis if prices is None else replace(diagnosis, bill=_bill(diagnosis, prices))


def _bill(run: Diagnosis, prices: Prices) -> Bill:
    gpus, gpus_basis = _gpus(run)
    power = _power(run, gpus) if prices.of_energy else _Power(None, None)
    wall, ahead = run.wall, run.ahead

    def of(seconds: float | None, *, awake: bool = True) -> Used | None:
        return (
            None if seconds is None else prices.of_time(seconds, gpus, power.watts if awake or not power.watts else 0.0)
        )

    return Bill(
        currency=prices.currency,
        per_gpu_hour=prices.gpu_hour,
        per_kwh=prices.kwh,
        co2_g_per_kwh=prices.co2_g_per_kwh,
        gpus=gpus,
        gpus_basis=gpus_basis,
        watts=power.watts,
        energy_basis=power.basis,
        missing=_missing(wall, prices, power),
        so_far=_so_far(wall, prices, gpus, power.watts),
        phases=tuple(
            BilledPhase(phase, used)
            for phase in PHASES
            if (seconds := getattr(wall, f"{phase}_s"))
            and (used := of(seconds, awake=phase != "suspended")) is not None
        ),
        per_1000=of(ahead.seconds_per_1000),
        ahead=of(ahead.eta_s),
        ahead_low=of(ahead.eta_low_s),
        ahead_high=of(ahead.eta_high_s),
    )


def _so_far(wall: Wall, prices: Prices, gpus: int, watts: float | None) -> Used:
    """A suspended machine is paid for, but its cards draw nothing."""
    if wall.total_s is None:
        return Used()
    kwh = None if watts is None else watts * wall.awake_s / JOULES_PER_KWH
    return prices.used(gpus * wall.total_s / 3600, kwh)


def _missing(wall: Wall, prices: Prices, power: _Power) -> Missing | None:
    if wall.total_s is None:
        return "time"
    return "energy" if prices.of_energy and power.watts is None else None


def _gpus(run: Diagnosis) -> tuple[int, GpusBasis]:
    """How many GPUs trained, and how that is known."""
    for name in ("gpu_count", "world_size"):
        fact = run.facts.get(name)
        if fact is not None and isinstance(fact.value, int) and fact.value >= 1:
            return fact.value, "inferred" if fact.origin == "inferred" else "known"
    card = run.facts.get("gpu")
    one = _on_cpu(run) or (card is not None and card.origin == "flag")  # --gpu "2x 4090" would name more
    return 1, "known" if one else "assumed"


def _on_cpu(run: Diagnosis) -> bool:
    device = run.facts.get("device")
    return device is not None and device.value == "cpu"


def _power(run: Diagnosis, gpus: int) -> _Power:
    """The mean power of all cards together, or their board power."""
    use, awake_s = run.gpu_use, run.wall.awake_s
    if use is not None and use.energy_kwh is not None and awake_s > 0:
        return _Power(use.energy_kwh * JOULES_PER_KWH / awake_s, "measured")
    each = _board_power(run)
    return _Power(None, None) if each is None else _Power(each * gpus, "board_power")


def _board_power(run: Diagnosis) -> float | None:
    """Of the run's card; of several that it may be, the highest, if all are known."""
    card = run.facts.get("gpu")
    if card is None or not isinstance(card.value, str) or _on_cpu(run):
        return None
    from nanopace.hardware.cards import find_cards  # only with a price per kWh

    memory = run.facts.get("gpu_memory_gb")
    memory_gb = float(memory.value) if memory is not None and isinstance(memory.value, (int, float)) else None
    try:
        powers = [each.tdp_w for each in find_cards(card.value, memory_gb=memory_gb)]
    except CardError:
        return None
    known = [power for power in powers if power is not None]
    return max(known) if len(known) == len(powers) else None

"""What a GPU hour and a kilowatt-hour cost, and what an amount of them does. price_text.py reads what people write."""

from __future__ import annotations

from nanopace.record import Record

JOULES_PER_KWH = 3.6e6
_S_PER_HOUR = 3600.0


class Used(Record):
    """An amount of GPU time and energy, and what it costs. None: unknown, or not asked for."""

    gpu_hours: float | None = None
    kwh: float | None = None
    co2_kg: float | None = None
    money: float | None = None  # by all prices whose quantity is known


class Prices(Record):
    """What was given by --price and --co2."""

    gpu_hour: float | None = None
    kwh: float | None = None
    currency: str | None = None  # a sign or an ISO code, as typed
    co2_g_per_kwh: float | None = None

    @property
    def of_energy(self) -> bool:
        """Whether energy matters."""
        return self.kwh is not None or self.co2_g_per_kwh is not None

    def of_time(self, seconds: float, gpus: int, watts: float | None) -> Used:
        """What so many seconds on so many GPUs cost, if all of them together draw that power."""
        kwh = None if watts is None else watts * seconds / JOULES_PER_KWH
        return self.used(gpus * seconds / _S_PER_HOUR, kwh)

    def used(self, gpu_hours: float | None, kwh: float | None) -> Used:
        """What these cost."""
        parts = [
            quantity * price
            for quantity, price in ((gpu_hours, self.gpu_hour), (kwh, self.kwh))
            if quantity is not None and price is not None
        ]
        grams = self.co2_g_per_kwh
        co2_kg = None if kwh is None or grams is None else kwh * grams / 1000
        return Used(gpu_hours, kwh, co2_kg, sum(parts) if parts else None)

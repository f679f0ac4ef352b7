"""Reads the card's sensors during training: clocks, power, temperature, throttling reasons and energy.

A thread queries NVML every few seconds. If the library is missing, the card does not answer or the ledger cannot be
written, the thread ends silently; it never keeps the process alive. Everything slow happens in the thread, including
the import of the library.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any

from nanopace.ledger.events import GpuEvent

EVERY_S = 5.0
_PATIENCE_S = 2.0  # how long to wait for a hanging driver at the end of the run
_GIB = 1 << 30
_MILLIJOULES_PER_KWH = 3.6e9
_JOULES_PER_KWH = 3.6e6

# NVML's bits. The first one, an idle card, is not throttling.
_REASONS = {
    0x002: "clock_setting",
    0x004: "power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "thermal",
    0x040: "thermal",
    0x080: "power_brake",
    0x100: "clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}


class Monitor:
    """Passes sensor readings to `tell`. `card` is a uuid as torch reports it, or a PCI bus id.

    A card's number is not enough: CUDA_VISIBLE_DEVICES renumbers cards for CUDA but not for NVML. Without `card`, the
    machine's only card is read; if it has several, none is.
    """

    def __init__(
        self,
        tell: Callable[[GpuEvent], object],
        iteration: Callable[[], int],
        card: str | None = None,
        every_s: float = EVERY_S,
    ) -> None:
        self._tell = tell
        self._iteration = iteration
        self._card = card
        self._every_s = every_s
        self._energy = _Energy()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nanopace-gpu", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> float | None:
        """The energy since `start` in kWh; None if the card does not report it. May be called more than once."""
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join(_PATIENCE_S)
        return self._energy.kwh

    def _watch(self) -> None:
        with suppress(Exception):
            sensors = _Sensors(import_module("pynvml"), self._card)
            try:
                self._energy.meter(sensors)
                while not self._over.wait(self._every_s):
                    self._energy.meter(sensors)
                    event = sensors.read(self._iteration())
                    if event is not None:
                        self._tell(event)
                self._energy.meter(sensors)
            finally:
                sensors.close()


class _Sensors:
    """The sensors of one card. A missing one is None; the others still work."""

    def __init__(self, nvml: Any, card: str | None) -> None:
        self._nvml = nvml
        nvml.nvmlInit()
        try:
            self._handle = self._find(card)
        except BaseException:
            self.close()
            raise

    def _find(self, card: str | None) -> Any:
        if card is None:
            if self._nvml.nvmlDeviceGetCount() != 1:
                raise LookupError("several cards, or none")
            return self._nvml.nvmlDeviceGetHandleByIndex(0)
        if ":" in card:
            return self._nvml.nvmlDeviceGetHandleByPciBusId(card)
        uuid = card if card.startswith(("GPU-", "MIG-")) else f"GPU-{card}"
        return self._nvml.nvmlDeviceGetHandleByUUID(uuid)

    def read(self, iteration: int) -> GpuEvent | None:
        """A reading; None if no sensor answers."""
        utilization = self._ask("nvmlDeviceGetUtilizationRates")
        memory = self._ask("nvmlDeviceGetMemoryInfo")
        event = GpuEvent(
            iteration,
            sm_mhz=self._ask("nvmlDeviceGetClockInfo", 1),
            memory_mhz=self._ask("nvmlDeviceGetClockInfo", 2),
            watts=self.watts(),
            celsius=self._ask("nvmlDeviceGetTemperature", 0),
            utilization=None if utilization is None else utilization.gpu / 100,
            memory_used_gb=None if memory is None else round(memory.used / _GIB, 3),
            throttle=self._throttle(),
        )
        return None if event == GpuEvent(iteration) else event

    def watts(self) -> float | None:
        milliwatts = self._ask("nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else float(milliwatts) / 1000

    def millijoules(self) -> float | None:
        """Energy since the driver was loaded; None on cards before Volta, which do not count it."""
        counted = self._ask("nvmlDeviceGetTotalEnergyConsumption")
        return None if counted is None else float(counted)

    def close(self) -> None:
        with suppress(Exception):
            self._nvml.nvmlShutdown()

    def _throttle(self) -> str | None:
        bits = self._ask("nvmlDeviceGetCurrentClocksEventReasons")
        if bits is None:  # its name before the 2023 drivers
            bits = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        return ",".join(dict.fromkeys(word for bit, word in _REASONS.items() if (bits or 0) & bit)) or None

    def _ask(self, question: str, *about: int) -> Any:
        with suppress(Exception):
            return getattr(self._nvml, question)(self._handle, *about)
        return None


class _Energy:
    """Energy from the card's own counter; without one, power times time."""

    def __init__(self) -> None:
        self._first_mj: float | None = None
        self._last_mj: float | None = None
        self._joules: float | None = None
        self._before: tuple[float, float] | None = None  # seconds, watts

    def meter(self, sensors: _Sensors) -> None:
        counted, watts, now = sensors.millijoules(), sensors.watts(), time.monotonic()
        if counted is not None:
            self._first_mj = counted if self._first_mj is None else self._first_mj
            self._last_mj = counted
        if watts is not None:
            if self._before is not None:
                then, before = self._before
                self._joules = (self._joules or 0.0) + (now - then) * (before + watts) / 2
            self._before = now, watts

    @property
    def kwh(self) -> float | None:
        if self._first_mj is not None and self._last_mj is not None and self._last_mj > self._first_mj:
            return (self._last_mj - self._first_mj) / _MILLIJOULES_PER_KWH
        return None if self._joules is None else self._joules / _JOULES_PER_KWH

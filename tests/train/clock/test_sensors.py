"""The monitor with a stand-in for NVML, and its real thread."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from nanopace.ledger.events import GpuEvent
from nanopace.train.clock import sensors as monitor
from nanopace.train.clock.sensors import Monitor

UUID = "9d1b1bb2-5c2c-4b5a-8f0e-1c2d3e4f5a6b"


class Card:
    """A machine with cards, as NVML shows it. Whatever is None or missing raises, as in NVML."""

    def __init__(self) -> None:
        self.count = 1
        self.asked_for: object = None
        self.opened = 0
        self.bits = 0x004
        self.watts: float | None = 300.0
        self.joules: float | None = 1_000_000.0
        self.lacks: set[str] = set()

    def module(self) -> ModuleType:
        module = ModuleType("pynvml")
        for name in dir(self):
            if name.startswith("nvml") and name not in self.lacks:
                setattr(module, name, getattr(self, name))
        return module

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.opened -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self.count

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        self.asked_for = index
        return "card"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.asked_for = uuid
        return "card"

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> str:  # noqa: N802
        self.asked_for = bus_id
        return "card"

    def nvmlDeviceGetClockInfo(self, handle: str, which: int) -> int:  # noqa: N802
        assert handle == "card"
        return {1: 1980, 2: 3201}[which]

    def nvmlDeviceGetPowerUsage(self, _: str) -> int:  # noqa: N802
        if self.watts is None:
            raise RuntimeError("not supported")
        return round(self.watts * 1000)

    def nvmlDeviceGetTotalEnergyConsumption(self, _: str) -> int:  # noqa: N802
        if self.joules is None:
            raise RuntimeError("not supported")
        self.joules += 36.0  # 0.00001 kWh from one look to the next
        return round(self.joules * 1000)

    def nvmlDeviceGetTemperature(self, _: str, sensor: int) -> int:  # noqa: N802
        assert sensor == 0
        return 71

    def nvmlDeviceGetUtilizationRates(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(gpu=97, memory=50)

    def nvmlDeviceGetMemoryInfo(self, _: str) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(used=3 << 29, total=80 << 30)

    def nvmlDeviceGetCurrentClocksEventReasons(self, _: str) -> int:  # noqa: N802
        return self.bits

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _: str) -> int:  # noqa: N802
        return 0x020


@pytest.fixture
def card() -> Card:
    return Card()


Watch = Callable[..., tuple[list[GpuEvent], float | None]]


@pytest.fixture
def watch(card: Card, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watch until there are some samples, or for a moment if none should come."""

    def watch(name: str | None = None, samples: int = 3) -> tuple[list[GpuEvent], float | None]:
        monkeypatch.setitem(sys.modules, "pynvml", card.module())
        events: list[GpuEvent] = []
        enough = threading.Event()

        def tell(event: GpuEvent) -> None:
            events.append(event)
            if len(events) == samples:
                enough.set()

        watching = Monitor(tell, lambda: 42, name, every_s=0.01)
        watching.start()
        enough.wait(10.0 if samples else 0.1)
        energy = watching.stop()
        assert watching.stop() == energy
        assert not watching._thread.is_alive()
        assert card.opened == 0
        return events, energy

    return watch


def test_all_that_the_sensors_say(watch: Watch) -> None:
    events, _ = watch()
    assert len(events) >= 3
    assert events[0] == GpuEvent(
        42,
        sm_mhz=1980,
        memory_mhz=3201,
        watts=300.0,
        celsius=71,
        utilization=0.97,
        memory_used_gb=1.5,
        throttle="power_cap",
    )


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0x000, None),
        (0x001, None),  # idle
        (0x004, "power_cap"),
        (0x048, "hw_slowdown,thermal"),
        (0x060, "thermal"),
        (0x088, "hw_slowdown,power_brake"),
        (0x010, "sync_boost"),
        (0x102, "clock_setting"),
        (0x800, None),  # of a later driver
    ],
)
def test_what_holds_the_clocks_back_in_words(card: Card, watch: Watch, bits: int, words: str | None) -> None:
    card.bits = bits
    assert watch(samples=1)[0][0].throttle == words


def test_the_older_name_of_the_reasons(card: Card, watch: Watch) -> None:
    card.lacks = {"nvmlDeviceGetCurrentClocksEventReasons"}
    assert watch(samples=1)[0][0].throttle == "thermal"


@pytest.mark.parametrize(
    ("name", "asked_for"),
    [
        (None, 0),
        (UUID, f"GPU-{UUID}"),  # as torch gives it
        (f"GPU-{UUID}", f"GPU-{UUID}"),
        (f"MIG-{UUID}", f"MIG-{UUID}"),
        ("0000:3B:00.0", "0000:3B:00.0"),
    ],
)
def test_the_right_card_is_asked(card: Card, watch: Watch, name: str | None, asked_for: object) -> None:
    assert watch(name, samples=1)[0]
    assert card.asked_for == asked_for


def test_with_several_cards_and_no_name_nobody_is_asked(card: Card, watch: Watch) -> None:
    card.count = 2
    assert watch(samples=0) == ([], None)
    assert card.asked_for is None


def test_energy_by_the_cards_counter(watch: Watch) -> None:
    events, energy = watch(samples=4)
    looks = len(events) + 1  # after the first one
    assert energy == pytest.approx(looks * 36.0 / 3.6e6)


def test_energy_by_power_and_time_where_there_is_no_counter(card: Card, watch: Watch) -> None:
    card.joules = None
    card.watts = 1000.0
    began = time.monotonic()
    _, energy = watch(samples=5)
    most = (time.monotonic() - began) / 3600  # kWh of 1 kW
    assert 0.04 / 3600 < energy <= most


def test_a_counter_that_went_back_is_not_believed(card: Card, watch: Watch, monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([5_000_000] + [0] * 1000)
    monkeypatch.setattr(Card, "nvmlDeviceGetTotalEnergyConsumption", lambda *_: next(left))
    card.watts = None
    assert watch(samples=2)[1] is None


def test_a_sensor_that_is_missing_is_unknown_and_the_others_stay(card: Card, watch: Watch) -> None:
    card.watts = card.joules = None
    card.lacks = {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUtilizationRates"}
    events, energy = watch()
    assert (events[0].watts, events[0].memory_used_gb, events[0].utilization) == (None, None, None)
    assert (events[0].sm_mhz, events[0].celsius) == (1980, 71)
    assert energy is None


def test_a_card_that_says_nothing_is_not_spoken_of(card: Card, watch: Watch) -> None:
    card.lacks = {name for name in dir(card) if name.startswith("nvmlDeviceGet") and "Handle" not in name}
    card.lacks -= {"nvmlDeviceGetCount"}
    assert watch(samples=0) == ([], None)


@pytest.mark.parametrize("broken", ["nvmlInit", "nvmlDeviceGetHandleByUUID"])
def test_a_library_that_fails_is_no_trouble(card: Card, watch: Watch, broken: str) -> None:
    card.lacks = {broken}
    assert watch(UUID, samples=0) == ([], None)


def test_without_the_library_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it raises ImportError
    watching = Monitor(lambda _: pytest.fail("told"), lambda: 0, every_s=0.001)
    watching.start()
    time.sleep(0.02)
    assert watching.stop() is None
    assert capfd.readouterr() == ("", "")


def test_one_that_was_never_started_has_nothing_to_say() -> None:
    assert Monitor(lambda _: None, lambda: 0).stop() is None


def test_a_full_disk_ends_the_watch_and_nothing_else(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", card.module())

    def tell(_: GpuEvent) -> None:
        raise OSError(28, "No space left on device")

    watching = Monitor(tell, lambda: 0, every_s=0.001)
    watching.start()
    watching._thread.join(5.0)
    assert not watching._thread.is_alive()
    assert watching.stop() is not None
    assert card.opened == 0


def test_a_driver_that_hangs_keeps_nobody_waiting(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    hanging = threading.Event()
    module: Any = card.module()
    module.nvmlDeviceGetTemperature = lambda *_: hanging.wait(30)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(monitor, "_PATIENCE_S", 0.05)
    watching = Monitor(lambda _: None, lambda: 0, every_s=0.001)
    watching.start()
    time.sleep(0.02)
    began = time.monotonic()
    watching.stop()
    assert time.monotonic() - began < 5
    hanging.set()
    watching._thread.join(5.0)


def test_the_process_ends_although_the_monitor_runs() -> None:
    program = """
import sys, time, types
module = types.ModuleType("pynvml")
module.nvmlInit = lambda: time.sleep(60)
sys.modules["pynvml"] = module
from nanopace.train.clock.sensors import Monitor
Monitor(print, lambda: 0, every_s=0.001).start()
time.sleep(0.05)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout, done.stderr) == ("", "")

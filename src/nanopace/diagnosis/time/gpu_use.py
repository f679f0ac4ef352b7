"""What the card's own sensors show: throttling and energy."""

from __future__ import annotations

from nanopace.diagnosis.result import Finding, Number, Verdict
from nanopace.prices import JOULES_PER_KWH
from nanopace.run import GpuUse, Run

# Heat and a bad power supply slow down a card that could do more. A power limit is normal for most cards, and worth
# reporting only if it is reached most of the time.
_WORTH_A_WORD = 0.02
_MOSTLY = 0.5


def at_power_limit(run: Run) -> bool:
    """Whether the card was at its power limit most of the time during steps: it works as fast as its power allows."""
    use = run.gpu_use
    return use is not None and use.training_samples > 0 and use.at_power_limit >= _MOSTLY * use.training_samples


def samples_at_limit(run: Run) -> dict[str, Number]:
    """How often the card was at its power limit."""
    use = run.gpu_use or GpuUse()
    return {"at_limit": use.at_power_limit, "samples": use.training_samples}


def power_limited(run: Run) -> dict[str, Number]:
    """How often the card was at its power limit, with its power and clock there."""
    use = run.gpu_use or GpuUse()
    return samples_at_limit(run) | {"limited_watts": use.limited_watts, "limited_mhz": use.limited_mhz}


def gpu_findings(run: Run, verdict: Verdict | None = None) -> list[Finding]:
    """Findings from sensor readings. The power limit is not repeated if the verdict on the card already names it."""
    use = run.gpu_use
    if use is None:
        return []
    findings = []
    heat, slowdown, brake, power = (
        use.throttled.get(reason, 0.0) for reason in ("thermal", "hw_slowdown", "power_brake", "power_cap")
    )
    hardware = max(slowdown, brake)  # they often occur together
    numbers: dict[str, Number]
    if heat >= _WORTH_A_WORD:
        numbers = {"throttled_share": heat, "highest_celsius": use.celsius}
        findings.append(Finding("throttled_heat", numbers))
    elif hardware >= _WORTH_A_WORD:  # a card that is too hot reports this too
        findings.append(Finding("throttled_hardware", {"throttled_share": hardware}))
    if power >= _MOSTLY and verdict != "power_limited":
        numbers = {"throttled_share": power, "median_watts": use.watts, "median_mhz": use.sm_mhz}
        findings.append(Finding("throttled_power", numbers))
    if use.energy_kwh is not None:
        wall_s = ((run.wall_ms or 0.0) - sum(each.ms for each in run.spans if each.reason == "suspend")) / 1000
        watts = use.energy_kwh * JOULES_PER_KWH / wall_s if wall_s > 0 else None
        findings.append(Finding("energy", {"energy_kwh": use.energy_kwh, "mean_watts": watts}))
    return findings

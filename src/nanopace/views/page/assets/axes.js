// The axes of a chart: where their ticks are, and how far they reach.
function axesOf(colour, tickLabels) {
  "use strict";

  const ROUND = [1, 2, 5];
  const POWERS = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => 10 ** (from + index));
  const BELOW_A_SECOND = POWERS(-6, -1).flatMap((power) => ROUND.map((digit) => digit * power));
  const CLOCK_STEPS = [...BELOW_A_SECOND, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  CLOCK_STEPS.push(...POWERS(0, 6).flatMap((days) => ROUND.map((digit) => 86400 * digit * days)));
  const COUNT_STEPS = POWERS(0, 14).flatMap((power) => ROUND.map((digit) => digit * power));

  // On a logarithmic axis: 1, 2 and 5 of every decade, or only 1 if there are many decades; even steps within one.
  function decades(plot, axisIndex, low, high) {
    const digits = Math.log10(high / low) > 3 ? [1] : ROUND;
    const from = Math.floor(Math.log10(low));
    const ticks = POWERS(from, Math.ceil(Math.log10(high))).flatMap((power) => digits.map((digit) => digit * power));
    const inside = ticks.filter((tick) => tick >= low && tick <= high);
    return inside.length > 2 ? inside : evenly(low, high);
  }

  function evenly(low, high) {
    const power = 10 ** Math.floor(Math.log10((high - low) / 4));
    const step = [10, 5, 2, 1].find((digit) => digit * power <= (high - low) / 4) * power;
    const first = Math.ceil(low / step);
    return Array.from({ length: Math.max(0, Math.floor(high / step) - first + 1) }, (_, index) => (first + index) * step);
  }

  // Leave room for a whole mark at either end.
  function xRange(log) {
    return (plot, low, high) => {
      if (low == null) return log ? [1, 10] : [0, 1];
      if (log) {
        const room = (high / low) ** 0.012 * (low === high ? 2 : 1);
        return [low / room, high * room];
      }
      const room = 0.012 * (high - low) || 1;
      return [low - room, high + room];
    };
  }

  // Lowest and highest value in view, including the bounds of intervals and bands.
  function inView(lines, plot, low, high) {
    const { min, max } = plot.scales.x;
    lines.forEach((series, number) => {
      if (!series.low.length || !plot.series[number + 1].show) return;
      series.x.forEach((x, index) => {
        if (series.low[index] == null || x < min || x > max) return;
        low = Math.min(low, series.low[index]);
        high = Math.max(high, series.high[index]);
      });
    });
    return [low, high];
  }

  // `view` has the current chart and its lines: both change while a run continues.
  function yRange(view, log) {
    return (plot, least, most) => {
      if (least == null) return log ? [1, 10] : [0, 1];
      const [low, high] = inView(view.lines, plot, least, most);
      const { from_zero: fromZero } = view.chart;
      const cropped = view.cropped ? view.chart.y_top : null;
      const top = Math.min(high, cropped ?? high);
      if (log) {
        const room = Math.max(1.02, (top / low) ** 0.1);
        return [low / room, Math.min(top * room, cropped ?? Infinity)];
      }
      const bottom = fromZero ? 0 : low;
      const room = 0.08 * (top - bottom) || 0.05 * Math.abs(top) || 1;
      return [fromZero ? 0 : low - room, Math.min(top + room, cropped ?? Infinity)];
    };
  }

  function axis(chart, which, log, narrow) {
    const unit = chart[`${which}_unit`];
    const options = {
      scale: which,
      stroke: colour("muted"),
      font: "12px system-ui, sans-serif",
      label: chart[`${which}_label`],
      labelFont: "12px system-ui, sans-serif",
      labelSize: 20,
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      values: (plot, ticks) => tickLabels(unit, ticks, log),
    };
    if (unit === "seconds") options.incrs = CLOCK_STEPS;
    if (unit === "count") options.incrs = COUNT_STEPS;
    if (log) Object.assign(options, { splits: decades, filter: (plot, ticks) => ticks });
    if (which === "x") return { ...options, space: narrow ? 72 : 88, size: 34, gap: 8 };
    const size = (plot, labels) => Math.max(narrow ? 40 : 52, ...(labels ?? []).map((label) => 14 + 7 * label.length));
    return { ...options, space: 34, size, gap: 8 };
  }

  return { xRange, yRange, axis };
}

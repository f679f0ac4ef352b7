// What is computed from a chart's data: smoothed lines, and the matching position on the axes of other charts.
const curvesOf = (() => {
  "use strict";

  // How far back a smoothed line remembers: a share of the whole x axis, and at least this many points.
  const REACH = { light: [1 / 300, 3], strong: [1 / 60, 12] };

  // An exponential mean of the points so far, each weighted by how far back it is on x. The weights add up to one from the
  // first point on, so the line does not start too low.
  function smoothed(series, strength) {
    const [first, last] = [series.x[0], series.x.at(-1)];
    const [share, points] = REACH[strength];
    const reach = Math.max(share, points / series.x.length) * (last - first) || 1;
    let [sum, weight, before] = [0, 0, first];
    return series.y.map((y, index) => {
      if (y == null) return null;
      const fade = Math.exp((before - series.x[index]) / reach);
      before = series.x[index];
      sum = sum * fade + y;
      weight = weight * fade + 1;
      return sum / weight;
    });
  }

  // y at x on a line through points with increasing x, extrapolated beyond its ends.
  function interpolate(xs, ys, x) {
    if (xs.length < 2) return xs.length && x === xs[0] ? ys[0] : null;
    let [low, high] = [0, xs.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      xs[middle] <= x ? (low = middle) : (high = middle);
    }
    const span = xs[high] - xs[low];
    return span ? ys[low] + ((x - xs[low]) / span) * (ys[high] - ys[low]) : ys[low];
  }

  // A chart over iterations needs no table; one over tokens or time has its own; null if several runs share none.
  function toIteration(chart, x) {
    if (chart.at) return interpolate(chart.at.x, chart.at.iteration, x);
    return chart.x_unit === "count" ? x : null;
  }

  function fromIteration(chart, iteration) {
    if (chart.at) return interpolate(chart.at.iteration, chart.at.x, iteration);
    return chart.x_unit === "count" ? iteration : null;
  }

  // The same point of the run on another chart's axis.
  function translate(from, to, x) {
    if (x == null || from.x_label === to.x_label) return x;
    const iteration = toIteration(from, x);
    return iteration == null ? null : fromIteration(to, iteration);
  }

  return { smoothed, toIteration, fromIteration, translate };
})();

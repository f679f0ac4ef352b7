// What is computed from a chart's data: smoothed lines, and the same place on the axes of other charts.
const curvesOf = (() => {
  "use strict";

  // How far back a smoothed line remembers: a share of the whole x axis, and at least so many points.
  const REACH = { light: [1 / 300, 3], strong: [1 / 60, 12] };

  // An exponential mean of the points so far, each weighed by how far back it lies on x. Its weights sum to one from the
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

  // y at x on a line through points whose x rise; beyond its ends it goes on.
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

  // A chart over iterations needs no table; one over tokens or time has its own; null where several runs have no common one.
  function toIteration(chart, x) {
    if (chart.at) return interpolate(chart.at.x, chart.at.iteration, x);
    return chart.x_unit === "count" ? x : null;
  }

  function fromIteration(chart, iteration) {
    if (chart.at) return interpolate(chart.at.iteration, chart.at.x, iteration);
    return chart.x_unit === "count" ? iteration : null;
  }

  // The same place of the run on another chart's axis.
  function translate(from, to, x) {
    if (x == null || from.x_label === to.x_label) return x;
    const iteration = toIteration(from, x);
    return iteration == null ? null : fromIteration(to, iteration);
  }

  return { smoothed, toIteration, fromIteration, translate };
})();

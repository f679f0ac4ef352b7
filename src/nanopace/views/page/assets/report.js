// Draws the charts of a report with uPlot. All data stands in the page: nothing is loaded, nothing is sent.
(() => {
  "use strict";

  const report = JSON.parse(document.getElementById("report-data").textContent);
  const NARROW = 560; // below this width axes give way to the plot
  const MANY = 120; // marks of one kind that still have room for a rim each
  const DARK = matchMedia("(prefers-color-scheme: dark)");

  const { HOVER, significant, tickLabels } = numbersOf(report.lang, report.units);

  // --- colours and marks --------------------------------------------------------------------------------------------

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  // Every mark as a closed outline around a centre; `r` is half its size.
  const OUTLINES = {
    circle: (path, x, y, r) => {
      path.moveTo(x + r, y);
      path.arc(x, y, r, 0, 2 * Math.PI);
    },
    square: (path, x, y, r) => path.rect(x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r),
    diamond: (path, x, y, r) => polygon(path, [[x, y - 1.25 * r], [x + 1.25 * r, y], [x, y + 1.25 * r], [x - 1.25 * r, y]]),
    triangle: (path, x, y, r) => polygon(path, [[x, y - 1.2 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]]),
    cross: (path, x, y, r) => {
      const w = 0.42 * r;
      const corners = [[-r, -w], [-w, -w], [-w, -r], [w, -r], [w, -w], [r, -w], [r, w], [w, w], [w, r], [-w, r], [-w, w], [-r, w]];
      polygon(path, corners.map(([dx, dy]) => [x + 0.9 * (dx - dy), y + 0.9 * (dx + dy)]));
    },
  };
  OUTLINES.ring = (path, x, y, r) => OUTLINES.circle(path, x, y, 1.5 * r);

  function polygon(path, corners) {
    corners.forEach(([x, y], index) => (index ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }

  function scatter(mark, radius) {
    return (plot, seriesIndex, first, last) => {
      const path = new Path2D();
      const [xs, ys] = [plot.data[0], plot.data[seriesIndex]];
      for (let i = first; i <= last; i++) {
        if (ys[i] == null) continue;
        OUTLINES[mark](path, plot.valToPos(xs[i], "x", true), plot.valToPos(ys[i], "y", true), radius * devicePixelRatio);
      }
      return { stroke: path, fill: path, clip: null, band: null, gaps: null, flags: 0 };
    };
  }

  // Each point, and what it may as well be. `bounds` are found by x: the data of a chart share their places.
  function intervals(bounds) {
    return (plot, seriesIndex, first, last) => {
      const path = new Path2D();
      const [xs, ys] = [plot.data[0], plot.data[seriesIndex]];
      const r = 4 * devicePixelRatio;
      for (let i = first; i <= last; i++) {
        if (ys[i] == null) continue;
        const x = plot.valToPos(xs[i], "x", true);
        const [y, low, high] = [ys[i], ...bounds.get(xs[i])].map((value) => plot.valToPos(value, "y", true));
        path.moveTo(x, low);
        path.lineTo(x, high);
        for (const end of [low, high]) {
          path.moveTo(x - r, end);
          path.lineTo(x + r, end);
        }
        OUTLINES.circle(path, x, y, 0.5 * r);
      }
      return { stroke: path, fill: null, clip: null, band: null, gaps: null, flags: 0 };
    };
  }

  function uprights(plot, seriesIndex, first, last) {
    const path = new Path2D();
    const { top, height } = plot.bbox;
    for (let i = first; i <= last; i++) {
      if (plot.data[seriesIndex][i] == null) continue;
      const x = plot.valToPos(plot.data[0][i], "x", true);
      path.moveTo(x, top);
      path.lineTo(x, top + height);
    }
    return { stroke: path, fill: null, clip: null, band: null, gaps: null, flags: 0 };
  }

  // The legend shows each series as it is drawn, so that colour is never the only difference.
  function legendLabel(series) {
    const label = document.createElement("span");
    const canvas = document.createElement("canvas");
    const ratio = devicePixelRatio;
    canvas.width = 30 * ratio;
    canvas.height = 14 * ratio;
    canvas.className = "key";
    canvas.setAttribute("aria-hidden", "true");
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = pen.strokeStyle = colour(series.colour);
    pen.globalAlpha = series.faint ? 0.5 : 1;
    pen.lineWidth = series.faint ? 1.25 : 2;
    const path = new Path2D();
    if (series.mark === "line") {
      pen.setLineDash(series.dash);
      path.moveTo(0, 7);
      path.lineTo(30, 7);
      pen.stroke(path);
    } else if (series.mark === "upright" || series.mark === "interval") {
      pen.setLineDash(series.dash);
      path.moveTo(15, 0);
      path.lineTo(15, 14);
      if (series.mark === "interval") OUTLINES.circle(path, 15, 7, 2);
      pen.stroke(path);
    } else if (series.mark === "dots") {
      [9, 15, 21].forEach((x) => OUTLINES.circle(path, x, 7, 1.75));
      pen.fill(path);
    } else {
      OUTLINES[series.mark](path, 15, 7, 4);
      series.mark === "ring" ? pen.stroke(path) : pen.fill(path);
    }
    label.append(canvas, series.label); // a text node: names come from the log
    return label;
  }

  function seriesOptions(series, chart) {
    const stroke = colour(series.colour);
    const hover = HOVER[chart.y_unit];
    const bounds = new Map(series.low.map((low, index) => [series.x[index], [low, series.high[index]]]));
    const options = {
      label: legendLabel(series),
      stroke,
      width: series.faint ? 1 : 2,
      alpha: series.faint ? 0.5 : 1,
      points: { show: false },
      value: (plot, value, seriesIndex, index) => {
        if (series.mark === "upright") return "";
        if (value == null) return "–";
        if (bounds.size) return `${hover(value)} (${bounds.get(plot.data[0][index]).map(hover).join(" – ")})`;
        return chart.perplexity ? `${hover(value)} (${report.perplexity} ${significant(Math.exp(value))})` : hover(value);
      },
    };
    if (series.dash.length) options.dash = series.dash;
    if (series.mark === "dots") Object.assign(options, { paths: scatter("circle", 1.75), fill: stroke, width: 0 });
    else if (series.mark === "ring") Object.assign(options, { paths: scatter("ring", 4), width: 2.5 });
    else if (series.mark === "interval") Object.assign(options, { paths: intervals(bounds), width: 1.5 });
    else if (series.mark === "upright") Object.assign(options, { paths: uprights, width: 1.5 });
    else if (series.mark !== "line") {
      const many = series.x.length > MANY; // so many overlap, and the rim of one would hide the next
      const rim = many ? { width: 0 } : { stroke: colour("surface"), width: 0.75 };
      Object.assign(options, { paths: scatter(series.mark, many ? 2.5 : 4), fill: stroke, ...rim });
    }
    return options;
  }

  // --- scales and axes ----------------------------------------------------------------------------------------------

  const ROUND = [1, 2, 5];
  const POWERS = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => 10 ** (from + index));
  const BELOW_A_SECOND = POWERS(-6, -1).flatMap((power) => ROUND.map((digit) => digit * power));
  const CLOCK_STEPS = [...BELOW_A_SECOND, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  CLOCK_STEPS.push(...POWERS(0, 6).flatMap((days) => ROUND.map((digit) => 86400 * digit * days)));
  const COUNT_STEPS = POWERS(0, 14).flatMap((power) => ROUND.map((digit) => digit * power));

  // On a logarithmic axis: 1, 2 and 5 of every decade, only the 1 where decades are many; even steps inside of one.
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

  // A mark at either end stands whole inside the frame.
  function xRange(plot, low, high) {
    if (low == null) return [0, 1];
    const room = 0.012 * (high - low) || 1;
    return [low - room, high + room];
  }

  // Lowest and highest value in view, the intervals among them.
  function inView(chart, plot, low, high) {
    const { min, max } = plot.scales.x;
    for (const series of chart.series)
      series.x.forEach((x, index) => {
        if (!series.low.length || x < min || x > max) return;
        low = Math.min(low, series.low[index]);
        high = Math.max(high, series.high[index]);
      });
    return [low, high];
  }

  function yRange(chart) {
    return (plot, least, most) => {
      if (least == null) return chart.log ? [1, 10] : [0, 1];
      const [low, high] = inView(chart, plot, least, most);
      if (chart.log) {
        const room = Math.max(1.02, (high / low) ** 0.1);
        return [low / room, high * room];
      }
      const bottom = chart.from_zero ? 0 : low;
      const top = Math.min(high, chart.y_top ?? high);
      const room = 0.08 * (top - bottom) || 0.05 * Math.abs(top) || 1;
      return [chart.from_zero ? 0 : low - room, Math.min(top + room, chart.y_top ?? Infinity)];
    };
  }

  function axis(chart, which, narrow) {
    const unit = chart[`${which}_unit`];
    const log = which === "y" && chart.log;
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
    if (which === "x") return { ...options, space: narrow ? 72 : 88, size: 34, gap: 8 };
    if (log) Object.assign(options, { splits: decades, filter: (plot, ticks) => ticks });
    const size = (plot, labels) => Math.max(narrow ? 40 : 52, ...(labels ?? []).map((label) => 14 + 7 * label.length));
    return { ...options, space: 34, size, gap: 8 };
  }

  // --- a chart ------------------------------------------------------------------------------------------------------

  // The row that the legend shows: the one at the pointer's x, for all series alike. A series without a value there
  // shows none, never a neighbour's. Of rows in the same column of pixels it is the one with a mark closest to the pointer.
  function underPointer() {
    let shown = null;
    return (plot, seriesIndex, closest) => {
      if (seriesIndex === 0) shown = plot.walking ? closest : inColumn(plot, closest);
      return shown;
    };
  }

  function inColumn(plot, closest) {
    const [xs, ...columns] = plot.data;
    const { left, top } = plot.cursor;
    const far = (index) => index < 0 || index >= xs.length || Math.abs(plot.valToPos(xs[index], "x") - left) > 0.5;
    if (closest == null || far(closest)) return closest;
    let [first, last] = [closest, closest];
    while (!far(first - 1)) first--;
    while (!far(last + 1)) last++;
    const height = (value) => (value == null ? Infinity : Math.abs(plot.valToPos(value, "y") - top));
    const gap = (index) => Math.min(...columns.map((column) => height(column[index])));
    let best = closest;
    for (let index = first; index <= last; index++) if (gap(index) < gap(best)) best = index;
    return best;
  }

  function build(figure) {
    const chart = report.charts[figure.dataset.chart];
    const place = figure.querySelector(".plot");
    const width = place.clientWidth;
    const narrow = width < NARROW;
    const plot = new uPlot(
      {
        width,
        height: narrow ? 240 : 300,
        scales: { x: { time: false, range: xRange }, y: { distr: chart.log ? 3 : 1, range: yRange(chart) } },
        padding: [null, narrow ? 20 : 32, null, null],
        series: [
          { label: chart.x_label, value: (plot, value) => (value == null ? "–" : HOVER[chart.x_unit](value)) },
          ...chart.series.map((series) => seriesOptions(series, chart)),
        ],
        axes: [axis(chart, "x", narrow), axis(chart, "y", narrow)],
        legend: { markers: { show: false } },
        cursor: {
          dataIdx: underPointer(),
          points: { size: 9, width: 2, fill: colour("surface"), stroke: (plot, i) => colour(chart.series[i - 1].colour) },
          drag: { x: true, y: false },
        },
      },
      uPlot.join(chart.series.map((series) => [series.x, series.y])),
      place,
    );
    const wrap = plot.root.querySelector(".u-wrap");
    wrap.setAttribute("role", "img");
    wrap.setAttribute("aria-label", chart.title);
    wrap.tabIndex = 0;
    wrap.addEventListener("keydown", (event) => walk(plot, event));
    return plot;
  }

  // The arrow keys move the cursor from point to point, as the mouse does.
  function walk(plot, event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const last = plot.data[0].length - 1;
    const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? 0) + steps[event.key]));
    plot.walking = true;
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: plot.over.clientHeight / 2 });
    plot.walking = false;
  }

  // --- the page -----------------------------------------------------------------------------------------------------

  const figures = [...document.querySelectorAll("figure[data-chart]")];
  const plots = new Map();

  function draw() {
    for (const figure of figures) {
      plots.get(figure)?.destroy();
      plots.set(figure, build(figure));
    }
  }

  draw();
  DARK.addEventListener("change", draw);
  // Paper is white: a page that is dark on the screen is printed in its light colours.
  const onPaper = (printing) => () => {
    document.documentElement.dataset.theme = printing ? "light" : "";
    if (DARK.matches) draw();
  };
  addEventListener("beforeprint", onPaper(true));
  addEventListener("afterprint", onPaper(false));

  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const plot = plots.get(target.parentElement);
      if (plot && target.clientWidth && plot.width !== target.clientWidth)
        plot.setSize({ width: target.clientWidth, height: plot.height });
    }
  });
  figures.forEach((figure) => watcher.observe(figure.querySelector(".plot")));
})();

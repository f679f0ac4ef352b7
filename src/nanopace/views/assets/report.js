// Draws the charts of a report with uPlot. All data stands in the page: nothing is loaded, nothing is sent.
(() => {
  "use strict";

  const report = JSON.parse(document.getElementById("report-data").textContent);
  const NARROW = 560; // below this width axes give way to the plot
  const DARK = matchMedia("(prefers-color-scheme: dark)");

  // --- numbers in the page's language -------------------------------------------------------------------------------

  const numberFormats = new Map();
  function number(value, options) {
    const key = JSON.stringify(options);
    if (!numberFormats.has(key)) numberFormats.set(key, new Intl.NumberFormat(report.lang, options));
    return numberFormats.get(key).format(value);
  }
  const fixed = (value, digits) => number(value, { minimumFractionDigits: digits, maximumFractionDigits: digits });
  const short = (value) => number(value, { maximumFractionDigits: 2 });
  const significant = (value) => number(value, { maximumSignificantDigits: 3 });

  const CLOCK = [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ];
  // A duration in one unit; `like` decides which, so that all ticks of an axis have the same.
  function duration(seconds, like = seconds) {
    const [unit, size] = CLOCK.find(([, size]) => Math.abs(like) >= 2 * size) ?? ["s", 1];
    return `${short(seconds / size)}\u00a0${report.units[unit]}`;
  }
  function milliseconds(ms) {
    if (ms < 1000) return `${significant(ms)}\u00a0ms`;
    return ms < 120000 ? `${significant(ms / 1000)}\u00a0s` : duration(ms / 1000);
  }

  const FORMATS = {
    count: { tick: (value) => short(value), hover: (value) => short(value) },
    tokens: {
      tick: (value) => number(value, { notation: "compact", maximumFractionDigits: 1 }),
      hover: (value) => number(value, { notation: "compact", maximumFractionDigits: 3 }),
    },
    seconds: { tick: (value, most) => duration(value, most), hover: (value) => duration(value) },
    ms: { tick: milliseconds, hover: (ms) => (ms < 1000 ? `${fixed(ms, 1)}\u00a0ms` : `${fixed(ms / 1000, 2)}\u00a0s`) },
    loss: { tick: short, hover: (value) => fixed(value, 4) },
    share: {
      tick: (value) => number(value, { style: "percent", maximumFractionDigits: 1 }),
      hover: (value) => number(value, { style: "percent", minimumFractionDigits: 2, maximumFractionDigits: 2 }),
    },
  };

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

  // The legend shows each series as it is drawn, so that colour is never the only difference.
  function legendLabel(series) {
    const label = document.createElement("span");
    const canvas = document.createElement("canvas");
    const ratio = devicePixelRatio;
    canvas.width = 22 * ratio;
    canvas.height = 14 * ratio;
    canvas.className = "key";
    canvas.setAttribute("aria-hidden", "true");
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.fillStyle = pen.strokeStyle = colour(series.colour);
    pen.globalAlpha = series.faint ? 0.5 : 1;
    pen.lineWidth = series.faint ? 1.25 : 2;
    const path = new Path2D();
    if (series.mark === "line" || series.mark === "dashed") {
      if (series.mark === "dashed") pen.setLineDash([5, 3]);
      path.moveTo(1, 7);
      path.lineTo(21, 7);
      pen.stroke(path);
    } else if (series.mark === "dots") {
      [5, 11, 17].forEach((x) => OUTLINES.circle(path, x, 7, 1.75));
      pen.fill(path);
    } else {
      OUTLINES[series.mark](path, 11, 7, 4);
      series.mark === "ring" ? pen.stroke(path) : pen.fill(path);
    }
    label.append(canvas, series.label); // a text node: names come from the log
    return label;
  }

  function seriesOptions(series, chart) {
    const stroke = colour(series.colour);
    const hover = FORMATS[chart.y_unit].hover;
    const options = {
      label: legendLabel(series),
      stroke,
      width: series.faint ? 1 : 2,
      alpha: series.faint ? 0.5 : 1,
      points: { show: false },
      value: (plot, value) => {
        if (value == null) return "–";
        return chart.perplexity ? `${hover(value)} (${report.perplexity} ${significant(Math.exp(value))})` : hover(value);
      },
    };
    if (series.mark === "dashed") options.dash = [6, 4];
    else if (series.mark === "dots") Object.assign(options, { paths: scatter("circle", 1.75), fill: stroke, width: 0 });
    else if (series.mark === "ring") Object.assign(options, { paths: scatter("ring", 4), width: 2.5 });
    else if (series.mark !== "line") {
      const radius = series.x.length > 400 ? 2.5 : 4;
      Object.assign(options, { paths: scatter(series.mark, radius), fill: stroke, stroke: colour("surface"), width: 0.75 });
    }
    return options;
  }

  // --- scales and axes ----------------------------------------------------------------------------------------------

  const CLOCK_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200];
  for (let days = 1; days < 1e6; days *= 10) CLOCK_STEPS.push(86400 * days, 172800 * days, 432000 * days);

  // 1, 2 and 5 of every decade; only the 1 where the decades are many.
  function decades(plot, axisIndex, low, high) {
    const ticks = [];
    const digits = Math.log10(high / low) > 3 ? [1] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
      digits.forEach((digit) => ticks.push(digit * 10 ** power));
    return ticks.filter((tick) => tick >= low && tick <= high);
  }

  // A mark at either end stands whole inside the frame.
  function xRange(plot, low, high) {
    if (low == null) return [0, 1];
    const room = 0.012 * (high - low) || 1;
    return [low - room, high + room];
  }

  function yRange(chart) {
    if (chart.log) return (plot, low, high) => [low / 1.4, high * 1.4];
    return (plot, low, high) => {
      if (low == null) return [0, 1];
      const top = chart.y_top ?? high;
      const bottom = chart.from_zero ? 0 : low;
      const room = 0.08 * (top - bottom) || 0.05 * Math.abs(top) || 1;
      return [chart.from_zero ? 0 : low - room, chart.y_top ?? high + room];
    };
  }

  function axis(chart, which, narrow) {
    const unit = chart[`${which}_unit`];
    const options = {
      scale: which,
      stroke: colour("muted"),
      font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif",
      grid: { stroke: colour("line"), width: 1 },
      ticks: { show: false },
      values: (plot, ticks) => {
        const most = Math.max(...ticks.map(Math.abs));
        return ticks.map((tick) => (tick == null ? "" : FORMATS[unit].tick(tick, most)));
      },
    };
    if (unit === "seconds") options.incrs = CLOCK_STEPS;
    if (unit === "count") options.incrs = [1, 2, 5].flatMap((n) => [...Array(15).keys()].map((e) => n * 10 ** e)).sort((a, b) => a - b);
    if (which === "x") return { ...options, space: narrow ? 60 : 80, size: 34, gap: 8, label: chart.x_label, labelSize: 20 };
    if (chart.log) Object.assign(options, { splits: decades, filter: (plot, ticks) => ticks });
    return { ...options, space: 34, size: narrow ? 52 : 64, gap: 8 };
  }

  // --- a chart ------------------------------------------------------------------------------------------------------

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
        series: [
          { label: chart.x_label, value: (plot, value) => (value == null ? "–" : FORMATS[chart.x_unit].hover(value)) },
          ...chart.series.map((series) => seriesOptions(series, chart)),
        ],
        axes: [axis(chart, "x", narrow), axis(chart, "y", narrow)],
        legend: { markers: { show: false } },
        cursor: {
          hover: { prox: 24, skip: [null] },
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
    plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: plot.over.clientHeight / 2 });
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

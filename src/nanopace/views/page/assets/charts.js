// Draws the charts of a page with uPlot. All data is in the page or passed to `refresh`: nothing is loaded here.
window.nanopaceCharts = (() => {
  "use strict";

  const report = JSON.parse(document.getElementById("report-data").textContent);
  const say = report.words;
  const NARROW = 560; // below this width, axes are smaller
  const MANY = 120; // up to this many marks of one kind have a rim each
  const LEAST_DRAG = 4; // pixels: less is a click

  // A colour of the palette as a canvas understands it: light-dark() is resolved where it is used.
  const probe = document.body.appendChild(document.createElement("span"));
  const colours = new Map();
  probe.hidden = true;

  function colour(name) {
    if (!colours.has(name)) {
      probe.style.color = `var(--${name})`;
      colours.set(name, getComputedStyle(probe).color);
    }
    return colours.get(name);
  }

  const { HOVER, significant, tickLabels } = numbersOf(report.lang, report.units);
  const { scatter, intervals, uprights, shade, legendLabel } = marksOf(colour);
  const { xRange, yRange, axis } = axesOf(colour, tickLabels);
  const controls = controlsOf(say);
  const { smoothed, toIteration, fromIteration, translate } = curvesOf;

  const views = new Map(); // figure -> what is drawn in it
  const choices = new Map(); // key -> what the user chose; it outlives the plot
  const zooms = new Map(); // group -> the part of the run that its charts show

  function choiceOf(key) {
    if (!choices.has(key)) choices.set(key, { smoothing: "none", log: {}, hidden: new Set() });
    return choices.get(key);
  }

  const groupOf = (view) => view.key.slice(0, -view.chart.name.length);
  const together = (view) => [...views.values()].filter((each) => groupOf(each) === groupOf(view));
  const isLog = (view, which) => view.choice.log[which] ?? (which === "y" && view.chart.log);

  // --- series -------------------------------------------------------------------------------------------------------

  // What is drawn: the series of the chart, plus smoothed ones on request.
  function linesOf({ chart, choice }) {
    if (choice.smoothing === "none") return chart.series;
    const raw = chart.series.map((series) => (series.smoothable ? { ...series, faint: true } : series));
    const over = chart.series.filter((series) => series.smoothable && series.x.length);
    return raw.concat(
      over.map((series) => ({
        ...series,
        label: `${series.label}, ${say.smoothed}`,
        y: smoothed(series, choice.smoothing),
        faint: false,
      })),
    );
  }

  function columnsOf(view) {
    const drawable = isLog(view, "x") ? (x) => x > 0 : null; // a logarithmic axis has no zero
    const points = view.lines.map(({ x, y }) => {
      if (!drawable) return [x, y];
      return [x.filter(drawable), y.filter((_, index) => drawable(x[index]))];
    });
    return points.length ? uPlot.join(points) : [[]];
  }

  const boundsOf = (series) => new Map(series.low.map((low, index) => [series.x[index], [low, series.high[index]]]));

  function seriesOptions(view, index) {
    const series = view.lines[index];
    const { chart } = view;
    const stroke = colour(series.colour);
    const hover = HOVER[chart.y_unit];
    const bounds = (x) => view.bounds[index].get(x);
    const options = {
      label: legendLabel(series, !view.choice.hidden.has(series.label)),
      show: !view.choice.hidden.has(series.label),
      stroke,
      width: series.faint ? 1 : 2,
      alpha: series.faint ? 0.5 : 1,
      points: { show: false },
      value: (plot, value, seriesIndex, row) => {
        if (series.mark === "upright") return "";
        if (value == null) return "–";
        const [low, high] = bounds(plot.data[0][row]) ?? [];
        if (series.mark === "interval") return `${hover(value)} (${hover(low)} – ${hover(high)})`;
        const about = low == null ? hover(value) : `${hover(value)} ± ${hover((high - low) / 2)}`;
        return chart.perplexity ? `${about} (${report.perplexity} ${significant(Math.exp(value))})` : about;
      },
    };
    if (series.dash.length) options.dash = series.dash;
    if (series.mark === "dots") Object.assign(options, { paths: scatter("circle", 1.75), fill: stroke, width: 0 });
    else if (series.mark === "ring") Object.assign(options, { paths: scatter("ring", 4), width: 2.5 });
    else if (series.mark === "interval") Object.assign(options, { paths: intervals(bounds), width: 1.5 });
    else if (series.mark === "upright") Object.assign(options, { paths: uprights, width: 1.5 });
    else if (series.mark !== "line") {
      const many = series.x.length > MANY; // they overlap, and the rim of one would hide the next
      const rim = many ? { width: 0 } : { stroke: colour("surface"), width: 0.75 };
      Object.assign(options, { paths: scatter(series.mark, many ? 2.5 : 4), fill: stroke, ...rim });
    }
    return options;
  }

  // --- a chart ------------------------------------------------------------------------------------------------------

  // Everything that needs a new plot if it changes.
  function kindOf(view) {
    const { title, x_label, x_unit, y_label, y_unit, perplexity } = view.chart;
    const looks = view.lines.map((each) => [each.label, each.mark, each.colour, each.faint, each.dash, each.x.length > MANY]);
    return JSON.stringify([title, x_label, x_unit, y_label, y_unit, perplexity, isLog(view, "x"), isLog(view, "y"), looks]);
  }

  // The row that the legend shows: the one at the pointer's x, for all series. A series without a value there
  // shows none, never a neighbour's. If rows share a column of pixels, it is the one with a mark closest to the pointer.
  function underPointer(view) {
    let shown = null;
    return (plot, seriesIndex, closest) => {
      if (seriesIndex === 0) shown = view.led ? closest : inColumn(plot, closest);
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

  function plotOf(view) {
    const { chart, place } = view;
    const width = place.clientWidth;
    const narrow = width < NARROW;
    const [logX, logY] = [isLog(view, "x"), isLog(view, "y")];
    const height = (narrow ? 240 : 300) * (chart.small ? 0.7 : 1);
    const plot = new uPlot(
      {
        width,
        height,
        scales: {
          x: { time: false, distr: logX ? 3 : 1, range: xRange(logX) },
          y: { distr: logY ? 3 : 1, range: yRange(view, logY) },
        },
        padding: [null, narrow ? 20 : 32, null, null],
        series: [
          { label: chart.x_label, value: (plot, value) => (value == null ? "–" : HOVER[chart.x_unit](value)) },
          ...view.lines.map((_, index) => seriesOptions(view, index)),
        ],
        axes: [axis(chart, "x", logX, narrow), axis(chart, "y", logY, narrow)],
        legend: { markers: { show: false } },
        cursor: {
          dataIdx: underPointer(view),
          points: { size: 9, width: 2, fill: colour("surface"), stroke: (plot, i) => colour(view.lines[i - 1].colour) },
          drag: { x: true, y: false, setScale: false },
          bind: { dblclick: () => () => zoom(view, null) },
        },
        hooks: {
          drawSeries: [(plot, index) => bandOf(view.lines[index - 1]) && shade(plot, view.lines[index - 1])],
          setSelect: [(plot) => selected(view, plot)],
          setCursor: [() => lead(view)],
          setSeries: [(plot, index, { show }) => show != null && hide(view, plot, index - 1, !show)],
        },
      },
      columnsOf(view),
      place,
    );
    const wrap = plot.root.querySelector(".u-wrap");
    wrap.setAttribute("role", "img");
    wrap.setAttribute("aria-label", chart.title);
    wrap.tabIndex = 0;
    wrap.addEventListener("keydown", (event) => keyed(view, event));
    return plot;
  }

  const bandOf = (series) => series?.mark === "line" && series.low.length > 0;

  function hide(view, plot, index, hidden) {
    const { label } = view.lines[index] ?? {};
    plot.root.querySelectorAll(".entry")[index]?.setAttribute("aria-pressed", !hidden);
    hidden ? view.choice.hidden.add(label) : view.choice.hidden.delete(label);
  }

  // --- zoom: charts of one run show the same part of it ------------------------------------------------------------

  function selected(view, plot) {
    const { left, width } = plot.select;
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    if (width >= LEAST_DRAG) zoom(view, [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
  }

  function zoom(view, stretch) {
    stretch ? zooms.set(groupOf(view), { key: view.key, stretch }) : zooms.delete(groupOf(view));
    together(view).forEach(show);
  }

  // All of the data, or the zoomed part.
  function stretchOf(view) {
    const xs = view.plot.data[0];
    const all = [xs[0], xs.at(-1)];
    const zoomed = zooms.get(groupOf(view));
    if (!zoomed) return all;
    const [min, max] = zoomed.stretch.map((x) => translate(report.charts[zoomed.key], view.chart, x));
    if (min == null || max == null || !(max > min)) return all;
    return isLog(view, "x") ? [Math.max(min, all[0] ?? min), max] : [min, max];
  }

  function show(view) {
    const [min, max] = stretchOf(view);
    if (min != null) view.plot.batch(() => view.plot.setScale("x", { min, max })); // at once: a cursor may follow
    view.reset.hidden = !zooms.has(groupOf(view));
  }

  // If zoomed, move the zoom so that it contains x.
  function reveal(view, x) {
    const zoomed = zooms.get(groupOf(view));
    const [min, max] = stretchOf(view);
    if (!zoomed || (x >= min && x <= max)) return;
    zoom(view, [x - (max - min) / 2, x + (max - min) / 2]);
  }

  function magnify(view, factor) {
    const [min, max] = stretchOf(view);
    const centre = rowAt(view)?.x ?? (min + max) / 2;
    const half = ((max - min) / 2) * factor;
    const xs = view.plot.data[0];
    const [low, high] = [Math.max(xs[0], centre - half), Math.min(xs.at(-1), centre + half)];
    if (high > low) zoom(view, low === xs[0] && high === xs.at(-1) ? null : [low, high]);
  }

  // --- cursor ---------------------------------------------------------------------------------------------------------

  function rowAt(view) {
    const index = view.plot.cursor.idxs?.[0];
    return index == null ? null : { index, x: view.plot.data[0][index] };
  }

  // The other charts of the run show the same row.
  function lead(view) {
    view.led = false;
    view.walked = null;
    const x = view.plot.cursor.left < 0 ? null : rowAt(view)?.x;
    for (const other of together(view)) if (other !== view) point(other, translate(view.chart, other.chart, x));
  }

  // Put the cursor on the row closest to x; remove it if x is null or out of view.
  function point(view, x) {
    const { plot } = view;
    const left = x == null ? -10 : plot.valToPos(x, "x");
    const inside = left >= -1 && left <= plot.over.clientWidth + 1;
    view.led = true;
    view.walked = inside ? x : null;
    plot.setCursor(inside ? { left, top: plot.over.clientHeight / 2 } : { left: -10, top: -10 }, false);
  }

  function closest(xs, x) {
    let [low, high] = [0, xs.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      xs[middle] <= x ? (low = middle) : (high = middle);
    }
    return high < 0 ? null : x - xs[low] <= xs[high] - x ? low : high;
  }

  // The values of a row, for all series that have one there.
  function valuesOf(view, index) {
    return view.lines.flatMap((series, number) => {
      const value = view.plot.data[number + 1][index];
      const { show, value: text } = view.plot.series[number + 1];
      return value == null || !show || series.mark === "upright"
        ? []
        : [{ label: series.label, text: text(view.plot, value, number + 1, index) }];
    });
  }

  function goToRow(view, index) {
    const x = view.plot.data[0][index];
    reveal(view, x);
    for (const each of together(view)) point(each, translate(view.chart, each.chart, x));
    view.walked = x;
    return { x, values: valuesOf(view, index) };
  }

  // The arrow keys move the cursor from row to row, + and - zoom, Escape shows everything again.
  function keyed(view, event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    const factors = { "+": 0.5, "=": 0.5, "-": 2 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in factors) magnify(view, factors[event.key]);
    else if (event.key === "Escape") zoom(view, null);
    else if (event.key in steps && view.plot.data[0].length) {
      const last = view.plot.data[0].length - 1;
      const from = view.walked == null ? (rowAt(view)?.index ?? 0) : closest(view.plot.data[0], view.walked);
      announce(view, goToRow(view, Math.min(last, Math.max(0, from + steps[event.key]))));
    } else return;
    event.preventDefault();
  }

  // For screen readers, which do not notice that the legend changes.
  function announce(view, { x, values }) {
    const place = { axis: view.chart.x_label, x: HOVER[view.chart.x_unit](x) };
    const told = { ...place, values: values.map(({ label, text }) => `${text}, ${label}`).join("; ") };
    const text = say.row.replace(/\{(\w+)\}/g, (_, name) => told[name]);
    document.dispatchEvent(new CustomEvent("nanopace:row", { detail: { text } }));
  }

  // --- drawing and redrawing --------------------------------------------------------------------------------------

  function take(view) {
    view.chart = report.charts[view.key];
    view.lines = linesOf(view);
    view.cropped = view.chart.y_top != null && !isLog(view, "x") && !isLog(view, "y"); // a logarithm has room for the start
    view.note?.toggleAttribute("hidden", !view.cropped);
    view.bounds = view.lines.map(boundsOf);
  }

  // What the keyboard reaches in a plot, by its name: a new plot takes over the focus of the old one.
  function reachable(view) {
    const all = view.plot?.root.querySelectorAll(".u-wrap, .entry") ?? [];
    return new Map([...all].map((each) => [each.getAttribute("aria-label") ?? each.textContent, each]));
  }

  function build(view) {
    const [focused] = [...reachable(view)].find(([, each]) => each === document.activeElement) ?? [];
    take(view);
    view.plot?.destroy();
    view.plot = plotOf(view);
    view.kind = kindOf(view);
    reachable(view).get(focused)?.focus({ preventScroll: true });
    show(view);
    if (view.walked != null) point(view, view.walked);
  }

  function update(view) {
    take(view);
    if (kindOf(view) !== view.kind) return build(view);
    const { plot, walked } = view;
    plot.setData(columnsOf(view), false);
    show(view);
    if (walked != null) point(view, walked);
    else if (plot.cursor.left >= 0) plot.setCursor({ left: plot.cursor.left, top: plot.cursor.top }, false); // new values there
  }

  const watcher = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const { plot } = views.get(target.parentElement) ?? {};
      if (plot && target.clientWidth && plot.width !== target.clientWidth)
        plot.setSize({ width: target.clientWidth, height: plot.height });
    }
  });

  function drawOne(figure) {
    const key = figure.dataset.chart;
    if (views.has(figure) || !report.charts[key]) return;
    const view = { figure, key, chart: report.charts[key], choice: choiceOf(key), place: figure.querySelector(".plot") };
    view.note = figure.querySelector("figcaption .note"); // says that the axis is cropped
    view.controls = controls(view, { isLog, changed: build, reset: (each) => zoom(each, null) });
    view.place.before(view.controls);
    views.set(figure, view);
    build(view);
    watcher.observe(view.place);
  }

  function draw(root = document) {
    if (root.matches?.("figure[data-chart]")) drawOne(root);
    root.querySelectorAll("figure[data-chart]").forEach(drawOne);
  }

  function forget() {
    for (const [figure, view] of views) {
      if (figure.isConnected) continue;
      watcher.unobserve(view.place);
      view.plot.destroy();
      view.controls.remove();
      views.delete(figure);
      waiting.delete(view);
    }
  }

  // New data waits for the next frame, so that a hidden page draws nothing.
  const waiting = new Set();

  function changed(key) {
    for (const view of views.values()) {
      if (view.key !== key) continue;
      if (!waiting.size) requestAnimationFrame(flush);
      waiting.add(view);
    }
  }

  function flush() {
    const now = [...waiting];
    waiting.clear();
    now.forEach(update);
  }

  function refresh(charts) {
    for (const [key, chart] of Object.entries(charts)) {
      report.charts[key] = chart;
      changed(key);
    }
  }

  // A series has these points from `from` on: {key: {series: {from, x, y, low, high}}}.
  function extend(tails) {
    for (const [key, parts] of Object.entries(tails)) {
      const chart = report.charts[key];
      if (!chart) continue;
      for (const [index, { from, ...columns }] of Object.entries(parts)) {
        const series = chart.series[index];
        for (const name in columns) series[name] = series[name].slice(0, from).concat(columns[name]);
      }
      changed(key);
    }
  }

  // Show an iteration in all charts; return the values of its row, or null if no chart has rows of iterations.
  function goTo(iteration, root = document) {
    const shown = [...views.values()].filter((view) => root.contains(view.figure) && view.plot.data[0].length);
    const main = shown.find((view) => !view.chart.at && view.chart.x_unit === "count");
    if (!main) return null;
    const row = goToRow(main, closest(main.plot.data[0], iteration));
    const others = together(main).filter((view) => view !== main && shown.includes(view));
    const more = others.flatMap((view) => {
      const x = fromIteration(view.chart, row.x);
      const index = x == null ? null : closest(view.plot.data[0], x);
      if (index == null || Math.abs(toIteration(view.chart, view.plot.data[0][index]) - row.x) > 0.5) return [];
      return valuesOf(view, index).map(({ label, text }) => ({ label: `${view.chart.y_label}: ${label}`, text }));
    });
    const once = new Map(more.map((each) => [each.label, each])); // a loss is drawn over tokens and over time
    return { iteration: row.x, values: [...row.values, ...once.values()] };
  }

  // --- the page -------------------------------------------------------------------------------------------------------

  const palette = () => ["surface", "text", "training"].map(colour).join();
  let painted = palette();

  function repaint() {
    colours.clear();
    if (palette() === painted) return;
    painted = palette();
    views.forEach(build);
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  new MutationObserver(repaint).observe(document.documentElement, { attributeFilter: ["data-theme"] });

  // Paper is white: a page that is dark on screen is printed in the light theme.
  let onScreen;
  addEventListener("beforeprint", () => {
    onScreen = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    repaint();
  });
  addEventListener("afterprint", () => {
    onScreen == null ? delete document.documentElement.dataset.theme : (document.documentElement.dataset.theme = onScreen);
    repaint();
  });

  draw();
  return { draw, refresh, extend, goTo, forget };
})();

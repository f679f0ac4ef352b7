// How a series looks: its marks on the canvas, and its key in the legend.
function marksOf(colour) {
  "use strict";

  const W = 0.42; // half the width of an arm of a cross
  const ARMS = [[-1, -W], [-W, -W], [-W, -1], [W, -1], [W, -W], [1, -W], [1, W], [W, W], [W, 1], [-W, 1], [-W, W], [-1, W]];

  // Every mark as a closed outline around a centre; `r` is half its size.
  const OUTLINES = {
    circle: (path, x, y, r) => {
      path.moveTo(x + r, y);
      path.arc(x, y, r, 0, 2 * Math.PI);
    },
    square: (path, x, y, r) => path.rect(x - 0.85 * r, y - 0.85 * r, 1.7 * r, 1.7 * r),
    diamond: (path, x, y, r) => polygon(path, [[x, y - 1.25 * r], [x + 1.25 * r, y], [x, y + 1.25 * r], [x - 1.25 * r, y]]),
    triangle: (path, x, y, r) => polygon(path, [[x, y - 1.2 * r], [x + 1.2 * r, y + r], [x - 1.2 * r, y + r]]),
    cross: (path, x, y, r) => polygon(path, ARMS.map(([dx, dy]) => [x + 0.9 * r * (dx - dy), y + 0.9 * r * (dx + dy)])),
    plus: (path, x, y, r) => polygon(path, ARMS.map(([dx, dy]) => [x + 1.2 * r * dx, y + 1.2 * r * dy])),
  };
  OUTLINES.ring = (path, x, y, r) => OUTLINES.circle(path, x, y, 1.5 * r);

  function polygon(path, corners) {
    corners.forEach(([x, y], index) => (index ? path.lineTo(x, y) : path.moveTo(x, y)));
    path.closePath();
  }

  const drawn = (stroke, fill = null) => ({ stroke, fill, clip: null, band: null, gaps: null, flags: 0 });

  function scatter(mark, radius) {
    return (plot, seriesIndex, first, last) => {
      const path = new Path2D();
      const [xs, ys] = [plot.data[0], plot.data[seriesIndex]];
      for (let i = first; i <= last; i++) {
        if (ys[i] == null) continue;
        OUTLINES[mark](path, plot.valToPos(xs[i], "x", true), plot.valToPos(ys[i], "y", true), radius * devicePixelRatio);
      }
      return drawn(path, path);
    };
  }

  // Each point with its interval. `boundsOf` looks it up by x, because all series of a chart share their x values.
  function intervals(boundsOf) {
    return (plot, seriesIndex, first, last) => {
      const path = new Path2D();
      const [xs, ys] = [plot.data[0], plot.data[seriesIndex]];
      const r = 4 * devicePixelRatio;
      for (let i = first; i <= last; i++) {
        if (ys[i] == null) continue;
        const x = plot.valToPos(xs[i], "x", true);
        const [y, low, high] = [ys[i], ...boundsOf(xs[i])].map((value) => plot.valToPos(value, "y", true));
        path.moveTo(x, low);
        path.lineTo(x, high);
        for (const end of [low, high]) {
          path.moveTo(x - r, end);
          path.lineTo(x + r, end);
        }
        OUTLINES.circle(path, x, y, 0.5 * r);
      }
      return drawn(path);
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
    return drawn(path);
  }

  // A shaded area between the bounds of a line.
  function shade(plot, series) {
    const pen = plot.ctx;
    const path = new Path2D();
    const at = (index, values) => [plot.valToPos(series.x[index], "x", true), plot.valToPos(values[index], "y", true)];
    const known = series.x.map((_, index) => index).filter((index) => series.low[index] != null && series.high[index] != null);
    known.forEach((index) => path.lineTo(...at(index, series.high)));
    known.reverse().forEach((index) => path.lineTo(...at(index, series.low)));
    path.closePath();
    pen.save();
    pen.beginPath();
    pen.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
    pen.clip();
    pen.globalAlpha = 0.22;
    pen.fillStyle = colour(series.colour);
    pen.fill(path);
    pen.restore();
  }

  // The legend shows each series as it is drawn, so that colour is never the only difference. uPlot listens for clicks
  // on what is around this button, which hide the series or show it again.
  function legendLabel(series, shown) {
    const label = document.createElement("button");
    label.type = "button";
    label.className = "entry";
    label.setAttribute("aria-pressed", shown);
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

  return { scatter, intervals, uprights, shade, legendLabel };
}

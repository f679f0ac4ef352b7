// The small controls above a chart: smoothing, logarithmic axes, and resetting the zoom.
function controlsOf(say) {
  "use strict";

  function element(name, content, attributes = {}) {
    const made = document.createElement(name);
    made.append(content);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function smoothing(view, changed) {
    const select = document.createElement("select");
    for (const strength of ["none", "light", "strong"]) select.append(element("option", say[strength], { value: strength }));
    select.value = view.choice.smoothing;
    select.addEventListener("change", () => {
      view.choice.smoothing = select.value;
      changed(view);
    });
    const label = element("label", `${say.smoothing} `);
    label.append(select);
    return label;
  }

  function logarithmic(view, which, isLog, changed) {
    const button = element("button", say[`log_${which}`], { type: "button", "aria-pressed": isLog(view, which) });
    button.addEventListener("click", () => {
      view.choice.log[which] = !isLog(view, which);
      button.setAttribute("aria-pressed", view.choice.log[which]);
      changed(view);
    });
    return button;
  }

  // `changed` redraws a view; `view.reset` is the button that appears when zoomed.
  return function controls(view, { isLog, changed, reset }) {
    const { chart } = view;
    const bar = element("div", "", { class: "controls", role: "group", "aria-label": chart.title });
    view.reset = element("button", say.reset, { type: "button" });
    view.reset.hidden = true;
    view.reset.addEventListener("click", () => reset(view));
    bar.append(view.reset);
    if (chart.series.some((series) => series.smoothable)) bar.append(smoothing(view, changed));
    for (const which of chart.log_axes) bar.append(logarithmic(view, which, isLog, changed));
    return bar;
  };
}

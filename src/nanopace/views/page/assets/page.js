// Everything interactive except for the charts: theme, copying, jumping to a row, printing.
// Parts of the page may be replaced at any time, so all listeners are on the document and look up elements when needed.
(() => {
  "use strict";

  const report = JSON.parse(document.getElementById("report-data").textContent);
  const { HOVER } = numbersOf(report.lang, report.units);

  function announce(text) {
    const place = document.getElementById("announced");
    if (place) place.textContent = text;
  }

  // --- theme --------------------------------------------------------------------------------------------------------

  function showTheme() {
    for (const select of document.querySelectorAll("[data-theme-choice]")) select.value = nanopaceTheme.choice();
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("[data-theme-choice]")) return;
    nanopaceTheme.choose(event.target.value);
    showTheme();
  });
  document.addEventListener("nanopace:news", showTheme); // the control may have been replaced
  showTheme();

  // --- a line to copy -----------------------------------------------------------------------------------------------

  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false; // the line can still be selected
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    if (!(await copy(button.dataset.copy))) {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      if (!document.execCommand("copy")) return;
    }
    button.dataset.keptLabel ??= button.textContent;
    button.textContent = button.dataset.copied;
    announce(`${button.dataset.copied}: ${button.dataset.copy}`);
    setTimeout(() => (button.textContent = button.dataset.keptLabel), 2000);
  });

  // --- a row, by its iteration --------------------------------------------------------------------------------------

  const HASH = /^#((?:run-\d+-)?iteration-)(\d+)$/;

  // Show the row that the address names, and its values in the charts.
  function follow() {
    const [, hash, digits] = HASH.exec(location.hash) ?? [];
    const form = hash && document.querySelector(`form.find[data-hash="${hash}"]`);
    if (!form) return;
    const wanted = Number(digits);
    const words = JSON.parse(form.dataset.words);
    const row = window.nanopaceCharts.goTo(wanted, form.parentElement);
    form.elements.iteration.value = wanted;
    form.querySelector("output").textContent = row ? told(row, wanted, words) : words.none;
    (form.parentElement.querySelector('figure[data-chart$="-times"]') ?? form).scrollIntoView({ block: "center" });
  }

  function told({ iteration, values }, wanted, words) {
    const parts = [`${words.iteration} ${HOVER.count(iteration)}`, ...values.map(({ label, text }) => `${label} ${text}`)];
    return `${iteration === wanted ? "" : `${words.nearest}: `}${parts.join(" · ")}`;
  }

  document.addEventListener("submit", (event) => {
    const form = event.target.closest?.("form.find");
    if (!form) return;
    event.preventDefault();
    const digits = form.elements.iteration.value.replace(/\D/g, ""); // "1,250" and "1 250", too
    if (!digits) {
      form.querySelector("output").textContent = JSON.parse(form.dataset.words).empty;
      return;
    }
    const hash = `#${form.dataset.hash}${Number(digits.slice(0, 15))}`;
    if (location.hash === hash) follow();
    else location.hash = hash;
  });
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href]");
    if (link && link.hash === location.hash && HASH.test(link.hash)) follow(); // clicked again: the hash does not change
  });
  follow();

  document.addEventListener("nanopace:row", (event) => announce(event.detail.text));

  // --- paper --------------------------------------------------------------------------------------------------------

  // Paper is white and cannot be clicked: light colours, and everything unfolded.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const details of folded) details.open = true;
    nanopaceTheme.apply("light");
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
    nanopaceTheme.apply(nanopaceTheme.choice());
  });
})();

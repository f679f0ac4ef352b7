// The theme that the reader chose. This stands in the head, so that the first thing painted has it.
const nanopaceTheme = (() => {
  "use strict";

  const KEY = "nanopace-theme";
  const root = document.documentElement;
  root.classList.add("scripts"); // shows the controls that need them

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a browser may keep files from storing anything
    }
  }

  function store(choice) {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // it holds as long as the page is open
    }
  }

  // "auto" has no attribute: the style sheet then asks the system. Charts watch the attribute.
  function apply(theme) {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
  }

  let choice = ["light", "dark"].includes(stored()) ? stored() : "auto";
  apply(choice);

  function choose(theme) {
    choice = theme;
    store(theme);
    apply(theme);
  }

  return { choice: () => choice, choose, apply };
})();

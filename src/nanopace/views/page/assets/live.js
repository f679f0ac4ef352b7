// Keeps a live page up to date: its server sends what has changed, and this puts it in place.
(() => {
  "use strict";

  const root = document.getElementById("live");
  const lost = document.getElementById("lost");
  const charts = window.nanopaceCharts;
  const LOST_MS = 5000; // a restarting server is back sooner, so nobody needs a notice
  const RETRY_MS = 2000;
  let address = root.dataset.events;
  let source = null;
  let timer = 0;

  // --- what has changed ---------------------------------------------------------------------------------------------

  // Make `here` like `there` without touching what is the same: focus, open details, ticks, scrolling and selections
  // stay as they are. Figures, except for their captions, are left to the charts, and choices to the user.
  function morph(here, there) {
    if (here.isEqualNode(there)) return;
    if (here.nodeType !== there.nodeType || here.nodeName !== there.nodeName || here.id !== there.id) {
      here.replaceWith(there);
      return;
    }
    if (here.nodeType !== Node.ELEMENT_NODE) {
      here.nodeValue = there.nodeValue;
      return;
    }
    if (here.matches("figure[data-chart]")) {
      if (here.dataset.chart !== there.dataset.chart) here.replaceWith(there);
      else morph(here.querySelector("figcaption"), there.querySelector("figcaption"));
      return;
    }
    const kept = here.matches("details") ? ["open"] : [];
    for (const { name } of [...here.attributes])
      if (!there.hasAttribute(name) && !kept.includes(name)) here.removeAttribute(name);
    for (const { name, value } of there.attributes) if (!kept.includes(name)) here.setAttribute(name, value);
    if (!here.matches("[data-kept]")) children(here, there); // other scripts fill those
  }

  // A child with an id is the one with that id, a chart the one of that name, a slow row the one with that link; of the
  // others, the third paragraph is the third paragraph.
  function kind(node) {
    if (node.nodeName === "TR" && !node.id) return `TR ${node.querySelector("a")?.hash}`;
    return node.id ? `#${node.id}` : (node.dataset?.chart ?? node.nodeName);
  }

  // What is not wanted goes first, and a text makes way for an element, not the other way: what is moved loses its focus.
  function children(here, there) {
    const pool = new Map();
    for (const child of here.childNodes) pool.set(kind(child), [...(pool.get(kind(child)) ?? []), child]);
    const pairs = [...there.childNodes].map((next) => [next, pool.get(kind(next))?.shift()]);
    for (const left of [...pool.values()].flat()) left.remove();
    let place = here.firstChild;
    for (const [next, known] of pairs) {
      if (known && known.nodeType !== Node.TEXT_NODE)
        while (known !== place && place?.nodeType === Node.TEXT_NODE) place = place.nextSibling;
      if (known === place) place = place?.nextSibling ?? null;
      else here.insertBefore(known ?? next, place);
      if (known) morph(known, next);
    }
  }

  function show(news) {
    charts.refresh(news.charts ?? {});
    if (news.body !== undefined) {
      const there = new DOMParser().parseFromString(`<div id="live">${news.body}</div>`, "text/html");
      children(root, there.getElementById("live"));
      charts.forget(root);
      charts.draw(root);
    }
    charts.extend(news.tails ?? {});
    const alert = root.querySelector("#alerts li");
    const title = document.title.replace(/^⚠ /, "");
    document.title = alert ? `⚠ ${title}` : title;
    root.dispatchEvent(new CustomEvent("nanopace:news", { bubbles: true }));
  }

  // --- the connection -----------------------------------------------------------------------------------------------

  // A hidden page needs no updates, and a browser keeps only six connections open to one server.
  function connect() {
    source?.close();
    source = null;
    if (document.hidden) return;
    source = new EventSource(address);
    source.addEventListener("open", () => {
      clearTimeout(timer);
      timer = 0;
      lost.hidden = true;
    });
    source.addEventListener("message", ({ data, lastEventId }) => {
      show(JSON.parse(data));
      address = address.replace(/version=[^&]*/, `version=${lastEventId}`);
    });
    source.addEventListener("error", () => {
      timer ||= setTimeout(() => (lost.hidden = false), LOST_MS);
      if (source?.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS); // the browser has given up
    });
  }

  document.addEventListener("visibilitychange", connect);
  addEventListener("pagehide", () => source?.close());
  addEventListener("pageshow", ({ persisted }) => persisted && connect());
  connect();
})();

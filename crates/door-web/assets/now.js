// Keeps the page Now up to date. Without it the page shows the moment in which it was loaded.
"use strict";
(() => {
  const table = document.getElementById("copies");
  const body = table.tBodies[0];
  const pause = document.getElementById("pause");
  const live = document.getElementById("live");
  const rows = new Map(Array.from(body.rows, (row) => [row.dataset.id, row]));
  let source = null;

  const say = (text) => {
    if (live.textContent !== text) live.textContent = text;
  };

  // Rows come as HTML that the server has escaped.
  const made = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };

  const fill = (row, cells) => {
    for (const name of ["bytes", "rate", "age", "phase"]) {
      row.querySelector(`[data-cell="${name}"]`).textContent = cells[name];
    }
    const state = row.querySelector(".state");
    row.classList.toggle("stalled", cells.stalled);
    state.className = `state ${cells.class}`.trim();
    state.textContent = cells.stage;
    const progress = row.querySelector("progress");
    if (cells.percent !== null) progress.value = cells.percent;
  };

  const count = (counts) => {
    for (const place of document.querySelectorAll("[data-count]")) {
      place.textContent = counts[place.dataset.count];
    }
    document.getElementById("more").hidden = counts.more === 0;
  };

  const arrange = (order) => {
    const shown = new Set(order);
    for (const [id, row] of rows) {
      if (!shown.has(id)) {
        row.remove();
        rows.delete(id);
      }
    }
    let next = body.firstElementChild;
    for (const id of order) {
      const row = rows.get(id);
      if (row === next) next = next.nextElementSibling;
      else body.insertBefore(row, next);
    }
    document.getElementById("none").hidden = order.length > 0;
  };

  const take = (event) => {
    const change = JSON.parse(event.data);
    // The first event has everything; so has one after a missed one.
    for (const { id, html } of change.new) {
      rows.get(id)?.remove();
      rows.set(id, made(html));
    }
    for (const cells of change.changed) fill(rows.get(cells.id), cells);
    if (change.order) arrange(change.order);
    count(change.counts);
    say("Live");
  };

  const begin = () => {
    source = new EventSource(table.dataset.events);
    source.addEventListener("table", take);
    source.addEventListener("error", () => {
      const isRefused = source?.readyState === EventSource.CLOSED;
      say(isRefused ? "Not followed any more; load the page again" : "Connection lost; trying again");
    });
  };

  const end = (text) => {
    source?.close();
    source = null;
    say(text);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    const pauses = source !== null;
    if (pauses) end("Paused");
    else begin();
    pause.textContent = pauses ? "Go on" : "Pause";
    pause.setAttribute("aria-pressed", String(pauses));
  });
  addEventListener("pagehide", () => end("Closed"));
  addEventListener("pageshow", (event) => {
    if (event.persisted && pause.getAttribute("aria-pressed") === "false") begin();
  });
  begin();
})();

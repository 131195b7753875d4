"use strict";
(() => {
  const table = document.querySelector("table"), body = table.tBodies[0], output = document.querySelector("output");
  const heads = table.tHead.rows[0].cells, parts = ["source", "target", "weight"].map((id) => document.getElementById(id));
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const first = body.querySelector("td");
  let marked = [], stop = first;
  const cellOf = (event) => event.target.closest("tbody td");
  const clear = () => { marked.forEach((head) => head.classList.remove("on")); marked = []; output.hidden = true; };
  const show = (cell) => {
    clear();
    marked = [heads[cell.cellIndex], cell.parentElement.cells[0]];
    marked.forEach((head) => head.classList.add("on"));
    [...marked, cell].forEach((from, i) => { parts[i].textContent = from.textContent; });
    output.hidden = false;
  };
  const reach = (cell) => { stop.removeAttribute("tabindex"); stop = cell; cell.tabIndex = 0; };
  if (!first) return;
  document.documentElement.classList.add("js");
  reach(first);
  body.addEventListener("mouseover", (event) => { const cell = cellOf(event); if (cell) show(cell); else clear(); });
  body.addEventListener("mouseleave", () => { if (document.activeElement === stop) show(stop); else clear(); });
  body.addEventListener("focusin", (event) => { const cell = cellOf(event); if (cell) show(cell); });
  body.addEventListener("focusout", clear);
  body.addEventListener("mousedown", (event) => { const cell = cellOf(event); if (cell) reach(cell); });
  body.addEventListener("keydown", (event) => {
    const cell = cellOf(event), step = steps[event.key];
    if (!cell || !step || event.ctrlKey || event.altKey || event.metaKey) return;
    const row = body.rows[cell.parentElement.sectionRowIndex + step[0]], next = row && row.cells[cell.cellIndex + step[1]];
    event.preventDefault();
    if (!next || next.tagName !== "TD") return;
    reach(next);
    next.focus();
    next.scrollIntoView({ block: "nearest", inline: "nearest" });
  });
})();

"use strict";
// Tables sort by a column; numbers as numbers. All details open on paper.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.parentElement, body = head.closest("table").tBodies[0];
    const up = head.getAttribute("aria-sort") !== "ascending";
    const key = (row) => row.cells[head.cellIndex].textContent.trim();
    const number = (text) => parseFloat(text.replace(/,/g, ""));
    const rows = [...body.rows].sort((a, b) => {
      const x = number(key(a)), y = number(key(b));
      const order = isNaN(x) || isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
      return up ? order : -order;
    });
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    body.append(...rows);
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => { one.open = true; }));

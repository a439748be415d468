"use strict";
// Puts plots in their places and shows one page at a time, by the address after #.

const rows = data.rows;
const methods = data.methods.filter((method) => rows.some((row) => row.results.some((one) => one.method === method)));
for (const place of document.querySelectorAll("[data-legend]")) place.append(legend(methods));
for (const place of document.querySelectorAll("[data-boxes]")) {
  const which = place.dataset.boxes;
  const all = rows.filter((row) => row.metric.title === place.dataset.metric); // one axis for each metric
  boxes(place, which === "all" ? all : [rows[+which]], { points: which !== "all" });
}
for (const place of document.querySelectorAll("[data-bars]")) bars(place, place.dataset.bars === "all" ? rows : [rows[+place.dataset.bars]]);
for (const place of document.querySelectorAll("[data-curves]")) curves(place, rows[+place.dataset.curves]);
for (const place of document.querySelectorAll("[data-responses]")) responses(place, data.sweeps[+place.dataset.responses]);
for (const place of document.querySelectorAll("[data-ranks]")) ranks(place, data.rankings[+place.dataset.ranks]);
const opener = data.graphs.length ? viewer(document.getElementById("viewer"), data.graphs) : null;
for (const link of document.querySelectorAll("[data-graph]")) link.addEventListener("click", () => opener(+link.dataset.graph));

function show() {
  const sections = [...document.querySelectorAll("main > section")];
  const here = sections.find((section) => `#${section.id}` === location.hash) || sections[0];
  for (const section of sections) section.classList.toggle("here", section === here);
  for (const link of document.querySelectorAll("nav a")) {
    const current = link.getAttribute("href") === `#${here.id}`;
    if (current) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); }
    else link.removeAttribute("aria-current");
  }
  scrollTo(0, 0);
}
addEventListener("hashchange", show);
document.body.classList.add("ready");
show();

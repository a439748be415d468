"use strict";
// Puts plots in their places and shows one page at a time, by the address after #.

const rows = data.rows, everywhere = (selector, act) => document.querySelectorAll(selector).forEach(act);
const methods = data.methods.filter((method) => rows.some((row) => row.results.some((one) => one.method === method)));
let recipe = data.recipes[0]; // that the overview shows

// A data set's own page has all its recipes, the overview one recipe of all data sets
const rowsOf = (place) => rows.filter((row) => (place.dataset.dataset ? row.dataset === place.dataset.dataset : row.recipe === recipe) && (!place.dataset.metric || row.metric.title === place.dataset.metric));
const several = (dataset) => rows.filter((row) => row.dataset === dataset).length > 1;
const heading = (place, row) => (!place.dataset.dataset ? { title: row.dataset, link: row.link } : several(row.dataset) || row.recipe !== "fast" ? { title: `recipe ${row.recipe}` } : {});
const byRow = (place) => () => rowsOf(place).map((row) => ({ ...heading(place, row), lines: seen(row.results) }));
const byMethod = (place) => () => methods.map((method) => ({ title: `component less ${method}`, lines: rowsOf(place).flatMap((row) => seen(row.differences.filter((one) => one.method === method)).map((one) => ({ ...one, label: row.dataset }))) }));
const differences = (place) => (place.dataset.dataset ? () => rowsOf(place).map((row) => ({ ...heading(place, row), lines: seen(row.differences) })) : byMethod(place));
const metricOf = (place) => rows.find((row) => row.metric.title === place.dataset.metric).metric;

everywhere("[data-legend]", (place) => place.append(legend(methods.filter((method) => !place.dataset.legend || rows.some((row) => row.dataset === place.dataset.legend && row.results.some((one) => one.method === method))))));
everywhere("[data-recipes]", (place) => place.append(choices(data.recipes, recipe, (name) => `recipe ${name}`, (name) => { recipe = name; for (const redraw of redraws) redraw(); }, "data-recipe")));
everywhere("[data-boxes]", (place) => boxes(place, byRow(place), metricOf(place), !!place.dataset.dataset));
everywhere("[data-forest]", (place) => forest(place, differences(place), metricOf(place)));
everywhere("[data-bars]", (place) => bars(place, byRow(place)));
everywhere("[data-curves]", (place) => curves(place, rows.filter((row) => row.dataset === place.dataset.curves)));
everywhere("[data-responses]", (place) => responses(place, data.sweeps[+place.dataset.responses]));
everywhere("[data-ranks]", (place) => ranks(place, data.rankings[+place.dataset.ranks]));
const opener = data.graphs.length ? viewer(document.getElementById("viewer"), data.graphs) : null;
everywhere("[data-graph]", (link) => link.addEventListener("click", () => opener(+link.dataset.graph)));

const header = document.querySelector("header");
const clearHeader = () => { document.documentElement.style.scrollPaddingTop = `${header.offsetHeight + 12}px`; }; // titles stay below it
new ResizeObserver(clearHeader).observe(header);

function show() {
  const sections = [...document.querySelectorAll("main > section")], target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const here = sections.find((section) => target && section.contains(target)) || sections[0];
  for (const section of sections) section.classList.toggle("here", section === here);
  everywhere("nav a", (link) => {
    const current = link.getAttribute("href") === `#${here.id}`;
    if (current) { link.setAttribute("aria-current", "page"); link.scrollIntoView({ block: "nearest", inline: "center" }); }
    else link.removeAttribute("aria-current");
  });
  clearHeader();
  if (target && target !== here && here.contains(target)) target.scrollIntoView();
  else scrollTo(0, 0);
}
addEventListener("hashchange", show);
addEventListener("load", show); // after the browser has scrolled to the address by itself
document.body.classList.add("ready");
show();

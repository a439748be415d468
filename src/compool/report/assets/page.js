"use strict";
// Fills in the plots, and shows one tab at a time, chosen by the part of the address after #.

const rows = data.rows, everywhere = (selector, act) => document.querySelectorAll(selector).forEach(act);
const methods = data.methods.filter((method) => rows.some((row) => row.results.some((result) => result.method === method)));
let recipe = data.recipes[0]; // the recipe that the overview shows

// The tab of a data set has all its recipes, the overview one recipe of all data sets
const rowsOf = (container) => rows.filter((row) => (container.dataset.dataset ? row.dataset === container.dataset.dataset : row.recipe === recipe) && (!container.dataset.metric || row.metric.title === container.dataset.metric));
const several = (dataset) => rows.filter((row) => row.dataset === dataset).length > 1;
const heading = (container, row) => (!container.dataset.dataset ? { title: row.dataset, link: row.link } : several(row.dataset) || row.recipe !== "fast" ? { title: `recipe ${row.label}` } : {});
const byRow = (container) => () => rowsOf(container).map((row) => ({ ...heading(container, row), lines: seen(row.results) }));
const byMethod = (container) => () => methods.map((method) => ({ title: `component minus ${method}`, lines: rowsOf(container).flatMap((row) => seen(row.differences.filter((difference) => difference.method === method)).map((difference) => ({ ...difference, label: row.dataset }))) }));
const differences = (container) => (container.dataset.dataset ? () => rowsOf(container).map((row) => ({ ...heading(container, row), lines: seen(row.differences) })) : byMethod(container));
const metricOf = (container) => rows.find((row) => row.metric.title === container.dataset.metric).metric;

everywhere("[data-legend]", (container) => container.append(legend(methods.filter((method) => !container.dataset.legend || rows.some((row) => row.dataset === container.dataset.legend && row.results.some((result) => result.method === method))))));
// Hide the overview's cards that have nothing of the chosen recipe
const hasResults = (plot) => rowsOf(plot).some((row) => ("forest" in plot.dataset ? row.differences : row.results).length);
const hideEmptyCards = () => everywhere("[data-boxes], [data-forest]", (plot) => { plot.closest(".card").hidden = !hasResults(plot); });

everywhere("[data-recipes]", (container) => container.append(choices(data.recipes, recipe, (name) => `recipe ${name}`, (name) => { recipe = name; hideEmptyCards(); for (const redraw of redraws) redraw(); }, "data-recipe")));
everywhere("[data-boxes]", (container) => boxes(container, byRow(container), metricOf(container), !!container.dataset.dataset));
everywhere("[data-forest]", (container) => forest(container, differences(container), metricOf(container)));
everywhere("[data-bars]", (container) => bars(container, byRow(container)));
everywhere("[data-curves]", (container) => curves(container, rows.filter((row) => row.dataset === container.dataset.curves)));
everywhere("[data-responses]", (container) => responses(container, data.sweeps[+container.dataset.responses]));
everywhere("[data-ranks]", (container) => ranks(container, data.rankings[+container.dataset.ranks]));
hideEmptyCards();
const opener = data.graphs.length ? viewer(document.getElementById("viewer"), data.graphs) : null;
everywhere("[data-graph]", (link) => link.addEventListener("click", () => opener(+link.dataset.graph)));

const header = document.querySelector("header");
const clearHeader = () => { document.documentElement.style.scrollPaddingTop = `${header.offsetHeight + 12}px`; }; // so that titles are not hidden by it
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

"use strict";
// Training curves: the median over runs of each method, and the band of the method under the pointer.

function point(method) { // show the band of this method, or none
  for (const band of document.querySelectorAll("path.band")) band.classList.toggle("shown", band.dataset.method === method);
}

function choices(names, chosen, title, choose, kind) { // buttons, one of which is pressed
  const buttons = names.map((name) => make("button", { type: "button", [kind]: name, "aria-pressed": name === chosen, onclick: () => {
    for (const button of buttons) button.setAttribute("aria-pressed", button.getAttribute(kind) === name);
    choose(name);
  } }, title(name)));
  return make("div", { class: "choices" }, ...buttons);
}

function curves(container, rows) { // the rows of a data set, one per recipe and metric
  const drawn = rows.filter((row) => row.results.some((result) => Object.keys(result.curves).length));
  if (!drawn.length) { container.append(make("p", { class: "note" }, "No curves: they were left out when the runs were exported; compool runs --csv --curves includes them.")); return; }
  const measured = new Set(drawn.map((row) => row.metric.title)), shared = measured.size === 1 ? [...measured][0] : "metric";
  const titles = (metric) => ({ validation: `validation ${metric}`, test: `test ${metric}`, loss: "training loss", validation_loss: "validation loss" });
  const title = (name, metric = row.metric.title + row.metric.unit) => titles(metric)[name] || name.replace("kept", "nodes kept, %, level").replace(/, level$/, "");
  const known = Object.keys(titles("")), order = (name) => (known.includes(name) ? known.indexOf(name) : 9); // nodes kept come last
  const names = [...new Set(drawn.flatMap((row) => row.results.flatMap((result) => Object.keys(result.curves))))].sort((a, b) => order(a) - order(b));
  let row = drawn[0], chosen = names[0];
  const area = make("div", { class: "plot", "data-label": "training curves" });
  if (drawn.length > 1) container.append(choices(drawn.map((other) => other.label), row.label, (name) => `recipe ${name}`, (name) => { row = drawn.find((other) => other.label === name); redraw(); }, "data-recipe"));
  container.append(choices(names, chosen, (name) => title(name, shared).replace(", %", ""), (name) => { chosen = name; redraw(); }, "data-curve"), area);
  const redraw = plot(area, (width) => {
    const shown = row.results.filter((result) => !hidden.has(result.method) && result.curves[chosen]);
    const flat = shown.flatMap((result) => result.curves[chosen].flat()).filter((value) => value !== null);
    const height = Math.max(240, Math.min(340, width * 0.45)), left = 44, right = width - 10, top = 26, bottom = height - 36;
    if (!flat.length) return [40, [make("text", { x: 8, y: 24, class: "soft" }, `no such curves for recipe ${row.label}`)]];
    const least = Math.min(...flat), most = Math.max(...flat);
    const log = chosen.endsWith("loss") && least > 0 && most > 20 * least, f = log ? Math.log10 : (value) => value;
    const pad = 0.04 * (f(most) - f(least) || 1), low = f(least) - pad, high = f(most) + pad;
    const epochs = Math.max(...shown.map((result) => result.curves[chosen][0].length), 2);
    const x = (epoch) => left + ((epoch - 1) / (epochs - 1)) * (right - left), y = (value) => bottom - ((f(value) - low) / (high - low)) * (bottom - top);
    const grid = [make("text", { x: 0, y: 12, class: "soft axis-title" }, `${title(chosen)}${log ? ", logarithmic" : ""}`)], bands = [], lines = [];
    const steps = log ? ticks(low, high, 5).map((power) => +(10 ** power).toPrecision(2)) : ticks(low, high, 5);
    for (const tick of steps) grid.push(make("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "axis" }), make("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end", class: "soft" }, `${tick}`));
    for (const tick of ticks(1, epochs, Math.max(3, width / 90)).filter(Number.isInteger)) grid.push(make("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle", class: "soft" }, `${tick}`));
    grid.push(make("text", { x: right, y: bottom + 32, "text-anchor": "end", class: "soft axis-title" }, "epoch"));
    for (const result of shown) {
      const [under, middle, over] = result.curves[chosen];
      const present = middle.map((value, index) => index).filter((index) => middle[index] !== null);
      const path = (values, order) => order.map((index) => `${x(index + 1).toFixed(1)} ${y(values[index]).toFixed(1)}`).join("L");
      bands.push(make("path", { d: `M${path(over, present)}L${path(under, [...present].reverse())}Z`, fill: colour(result.method), class: "band", "data-method": result.method }));
      lines.push(make("path", { d: `M${path(middle, present)}`, fill: "none", stroke: colour(result.method), "stroke-width": 2, "stroke-linejoin": "round", class: "curve", "data-method": result.method }));
    }
    const cross = make("line", { y1: top, y2: bottom, stroke: "var(--muted)", "stroke-dasharray": "3 3", visibility: "hidden" });
    const cover = make("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: "transparent", class: "cover" });
    tip(cover, (event) => {
      const bounds = cover.getBoundingClientRect(), height = top + event.clientY - bounds.top;
      const epoch = Math.round(1 + ((event.clientX - bounds.left) / bounds.width) * (epochs - 1));
      cross.setAttribute("x1", x(epoch)); cross.setAttribute("x2", x(epoch)); cross.setAttribute("visibility", "visible");
      const written = chosen.endsWith("loss") || (!row.metric.unit && !chosen.startsWith("kept")) ? significant : number;
      const present = shown.filter((result) => result.curves[chosen][1][epoch - 1] != null), distance = (result) => Math.abs(y(result.curves[chosen][1][epoch - 1]) - height);
      const nearest = present.reduce((best, result) => (best === null || distance(result) < distance(best) ? result : best), null);
      point(nearest && nearest.method);
      return [`epoch ${epoch}, ${title(chosen)}`, ...present.map((result) => {
        const [under, middle, over] = result.curves[chosen].map((values) => written(values[epoch - 1]));
        return `${result.method} ${middle}${result === nearest ? ` (${under} … ${over})` : ""}`;
      })].join("\n");
    });
    cover.addEventListener("pointerleave", () => { cross.setAttribute("visibility", "hidden"); point(null); });
    return [height, [...grid, ...bands, ...lines, cross, cover]];
  });
}

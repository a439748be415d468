"use strict";
// Small plots as SVG, drawn anew when their place changes its width. Text is always set as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set(); // methods that the legends switched off
const redraws = []; // what to call when that changes

function make(name, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "path", "rect", "circle", "text"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key === "style") made.style.cssText = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const colour = (method) => data.colours[method];
const number = (value, digits = 1) => value.toFixed(digits).replace("-", "−");
const significant = (value) => `${+value.toPrecision(4)}`.replace("-", "−"); // as many digits as the data have

function tip(element, text) {
  const box = document.getElementById("tip");
  const move = (event) => {
    box.textContent = typeof text === "function" ? text(event) : text;
    box.hidden = !box.textContent;
    const { width, height } = box.getBoundingClientRect();
    const left = Math.max(6, Math.min(event.clientX + 14, innerWidth - width - 6));
    const below = event.clientY + 16 + height < innerHeight;
    box.style.left = `${left}px`;
    box.style.top = `${Math.max(6, below ? event.clientY + 16 : event.clientY - height - 12)}px`;
  };
  for (const kind of ["pointerenter", "pointermove", "pointerdown"]) element.addEventListener(kind, move);
  element.addEventListener("pointerleave", () => { box.hidden = true; });
  return element;
}

function ticks(low, high, wanted) {
  if (!(high > low)) return [low];
  const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 2.5, 5].find((factor) => factor * power >= rough) || 10);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + 1e-9 * step; at++) found.push(+(at * step).toPrecision(12));
  return found;
}

function plot(place, draw) { // draw(width) returns [height, elements]
  let width = 0;
  const redraw = () => {
    if (width < 50) return;
    const [height, elements] = draw(width);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": place.dataset.label || "plot" });
    svg.append(...elements);
    place.replaceChildren(svg);
  };
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) { width = now; redraw(); }
  }).observe(place);
  redraws.push(redraw);
  return redraw;
}

function legend(methods) {
  const buttons = methods.map((method) => {
    const button = make("button", { type: "button", "data-method": method, "aria-pressed": !hidden.has(method) });
    button.append(make("i", { style: `background: ${colour(method)}` }), method);
    button.addEventListener("click", () => {
      if (!hidden.delete(method)) hidden.add(method);
      for (const one of document.querySelectorAll(".legend button")) one.setAttribute("aria-pressed", !hidden.has(one.dataset.method));
      for (const redraw of redraws) redraw();
    });
    return button;
  });
  return make("div", { class: "legend" }, ...buttons);
}

function quantile(sorted, share) {
  const at = share * (sorted.length - 1), low = Math.floor(at);
  return sorted[low] + (at - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

function boxes(place, rows, { points = false } = {}) { // rows: [{title, link, results}]
  plot(place, (width) => {
    const shown = rows.map((row) => ({ ...row, results: row.results.filter((one) => !hidden.has(one.method)) }));
    const all = shown.flatMap((row) => row.results.flatMap((one) => [...one.runs.map((run) => run[1]), ...(one.paper ? [one.paper[0]] : [])]));
    const left = 8, right = width - 14, thick = points ? 30 : 15, gap = points ? 12 : 5;
    const { title: metric, unit } = rows[0].metric, least = Math.min(...all), most = Math.max(...all);
    const pad = unit ? 3 : 0.05 * (most - least || Math.abs(most) || 1);
    const low = Math.max(0, least - pad), high = unit ? Math.min(100.5, most + pad) : most + pad;
    if (!all.length) return [40, [make("text", { x: left, y: 24, class: "soft" }, "nothing to show")]];
    const x = (value) => left + ((value - low) / (high - low)) * (right - left);
    const marks = [], grid = [];
    let y = 6;
    for (const row of shown) {
      if (rows.length > 1) {
        const title = make("text", { x: left, y: y + 12 }, row.title);
        const link = document.createElementNS("http://www.w3.org/2000/svg", "a");
        link.setAttribute("href", row.link);
        link.append(title);
        marks.push(link);
        y += 18;
      }
      for (const one of row.results) {
        marks.push(...box(one, x, y, thick, points, rows[0].metric));
        y += thick + gap;
      }
      y += rows.length > 1 ? 8 : 0;
    }
    for (const tick of ticks(low, high, Math.max(3, width / 110))) {
      grid.push(make("line", { x1: x(tick), x2: x(tick), y1: 0, y2: y, class: "axis" }));
      grid.push(make("text", { x: x(tick), y: y + 15, "text-anchor": "middle", class: "soft" }, `${tick}`));
    }
    grid.push(make("text", { x: right, y: y + 31, "text-anchor": "end", class: "soft" }, `test ${metric}${unit}`));
    return [y + 36, [...grid, ...marks]];
  });
}

function box(one, x, y, thick, points, metric) {
  const write = metric.unit ? number : significant;
  const values = one.runs.map((run) => run[1]).sort((a, b) => a - b), paint = colour(one.method), middle = y + thick / 2;
  const found = [];
  if (values.length) {
    const [q1, q2, q3] = [0.25, 0.5, 0.75].map((share) => quantile(values, share)), reach = 1.5 * (q3 - q1);
    const inner = values.filter((value) => value >= q1 - reach && value <= q3 + reach);
    const [first, last] = [inner[0], inner[inner.length - 1]];
    const group = make("g", { class: "box", "data-method": one.method });
    group.append(
      make("rect", { x: x(first) - 3, y, width: x(last) - x(first) + 6, height: thick, fill: "transparent" }),
      make("line", { x1: x(first), x2: x(last), y1: middle, y2: middle, stroke: paint, "stroke-width": 1.5 }),
      make("rect", { x: x(q1), y, width: Math.max(x(q3) - x(q1), 1), height: thick, rx: 3, fill: paint, "fill-opacity": 0.28, stroke: paint }),
      make("line", { x1: x(q2), x2: x(q2), y1: y, y2: y + thick, stroke: paint, "stroke-width": 2.5 }),
    );
    tip(group, `${one.label}\n${values.length} runs: ${one.text}\nmedian ${write(q2)}, quartiles ${write(q1)} and ${write(q3)}\nfrom ${write(values[0])} to ${write(values[values.length - 1])}` + (one.paper ? `\npaper ${number(one.paper[0])} ± ${number(one.paper[1])}` : ""));
    found.push(group);
    for (const [replica, value, epoch, kept] of one.runs) {
      if (!points && value >= q1 - reach && value <= q3 + reach) continue;
      const place = points ? y + 3 + ((replica * 0.618034) % 1) * (thick - 6) : middle;
      const dot = make("circle", { cx: x(value), cy: place, r: points ? 2.6 : 2, fill: paint, "fill-opacity": 0.75, class: "run" });
      found.push(tip(dot, `${one.label}, replica ${replica}\ntest ${metric.title} ${write(value)}${metric.unit.replace(",", "")}\nepoch ${epoch}` + (kept.length ? `\nnodes kept ${kept.map((share) => number(share, 0)).join(" → ")} %` : "")));
    }
  }
  if (one.paper) {
    const at = x(one.paper[0]), size = points ? 6 : 4.5;
    const diamond = make("path", { d: `M${at - size} ${middle}L${at} ${middle - size}L${at + size} ${middle}L${at} ${middle + size}Z`, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 1.4, class: "paper" });
    found.push(tip(diamond, `the paper: ${one.method} ${number(one.paper[0])} ± ${number(one.paper[1])}`));
  }
  return found;
}

function bars(place, rows) { // parameters, on a logarithmic axis
  plot(place, (width) => {
    const shown = rows.map((row) => ({ ...row, results: row.results.filter((one) => !hidden.has(one.method)) }));
    const all = shown.flatMap((row) => row.results.flatMap((one) => [one.parameters, ...(one.paperParameters ? [one.paperParameters] : [])]));
    const left = 8, right = width - 56;
    if (!all.length) return [40, [make("text", { x: left, y: 24, class: "soft" }, "nothing to show")]];
    const low = Math.floor(Math.log10(Math.min(...all)) - 0.2), high = Math.max(Math.log10(Math.max(...all)), low + 1);
    const x = (value) => left + ((Math.log10(value) - low) / (high - low)) * (right - left);
    const marks = [], grid = [];
    let y = 6;
    for (const row of shown) {
      if (rows.length > 1) { marks.push(make("text", { x: left, y: y + 12, style: "font-weight: 600" }, row.title)); y += 18; }
      for (const one of row.results) {
        const bar = make("rect", { x: left, y, width: x(one.parameters) - left, height: 13, rx: 2.5, fill: colour(one.method), "fill-opacity": 0.85, class: "parameters" });
        marks.push(tip(bar, `${one.label}: ${one.parameters.toLocaleString("en")} parameters` + (one.paperParameters ? `\npaper ${one.paperParameters.toLocaleString("en")}` : "")));
        if (one.paperParameters) {
          const at = x(one.paperParameters);
          marks.push(make("path", { d: `M${at - 4.5} ${y + 6.5}L${at} ${y + 2}L${at + 4.5} ${y + 6.5}L${at} ${y + 11}Z`, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 1.2, "pointer-events": "none" }));
        }
        const end = x(one.parameters), paper = one.paperParameters ? x(one.paperParameters) : 0;
        const beside = paper > end - 8 && paper < end + 60 ? paper : end; // not under the paper's mark
        marks.push(make("text", { x: beside + 8, y: y + 11, class: "soft" }, one.parameters.toLocaleString("en")));
        y += 17;
      }
      y += 9;
    }
    for (let power = low; power <= high; power++) {
      const at = x(10 ** power);
      grid.push(make("line", { x1: at, x2: at, y1: 0, y2: y, class: "axis" }), make("text", { x: at, y: y + 15, "text-anchor": "middle", class: "soft" }, (10 ** power).toLocaleString("en")));
    }
    return [y + 20, [...grid, ...marks]];
  });
}

function curves(place, row) {
  const names = [...new Set(row.results.flatMap((one) => Object.keys(one.curves)))];
  const metric = row.metric.title + row.metric.unit;
  const titles = { validation: `validation ${metric}`, test: `test ${metric}`, loss: "training loss", validation_loss: "validation loss" };
  const title = (name) => titles[name] || name.replace("kept", "nodes kept, %, level").replace(/, level$/, "");
  if (!names.length) { place.append(make("p", { class: "note" }, "There are no curves.")); return; }
  let chosen = names[0];
  const buttons = names.map((name) => make("button", { type: "button", "data-curve": name, "aria-pressed": name === chosen, onclick: () => {
    chosen = name;
    for (const one of buttons) one.setAttribute("aria-pressed", one.dataset.curve === name);
    redraw();
  } }, title(name).replace(", %", "")));
  const area = make("div", { class: "plot", "data-label": "training curves" });
  place.append(make("div", { class: "choices" }, ...buttons), area);
  const redraw = plot(area, (width) => {
    const shown = row.results.filter((one) => !hidden.has(one.method) && one.curves[chosen]);
    const flat = shown.flatMap((one) => one.curves[chosen].flat()).filter((value) => value !== null);
    const height = Math.max(220, Math.min(340, width * 0.45)), left = 44, right = width - 10, top = 8, bottom = height - 36;
    if (!flat.length) return [40, [make("text", { x: 8, y: 24, class: "soft" }, "nothing to show")]];
    const least = Math.min(...flat), most = Math.max(...flat);
    const log = chosen.endsWith("loss") && least > 0 && most > 20 * least, f = log ? Math.log10 : (value) => value;
    const pad = 0.04 * (f(most) - f(least) || 1), low = f(least) - pad, high = f(most) + pad;
    const epochs = Math.max(...shown.map((one) => one.curves[chosen][0].length), 2);
    const x = (epoch) => left + ((epoch - 1) / (epochs - 1)) * (right - left), y = (value) => bottom - ((f(value) - low) / (high - low)) * (bottom - top);
    const grid = [], lines = [];
    const steps = log ? ticks(low, high, 5).map((power) => +(10 ** power).toPrecision(2)) : ticks(low, high, 5);
    for (const tick of steps) grid.push(make("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "axis" }), make("text", { x: left - 7, y: y(tick) + 4, "text-anchor": "end", class: "soft" }, `${tick}`));
    for (const tick of ticks(1, epochs, Math.max(3, width / 90)).filter(Number.isInteger)) grid.push(make("text", { x: x(tick), y: bottom + 17, "text-anchor": "middle", class: "soft" }, `${tick}`));
    grid.push(make("text", { x: right, y: bottom + 32, "text-anchor": "end", class: "soft" }, "epoch"));
    for (const one of shown) {
      const [under, middle, over] = one.curves[chosen];
      const there = middle.map((value, at) => at).filter((at) => middle[at] !== null);
      const path = (values, order) => order.map((at) => `${x(at + 1).toFixed(1)} ${y(values[at]).toFixed(1)}`).join("L");
      lines.push(make("path", { d: `M${path(over, there)}L${path(under, [...there].reverse())}Z`, fill: colour(one.method), "fill-opacity": 0.14 }));
      lines.push(make("path", { d: `M${path(middle, there)}`, fill: "none", stroke: colour(one.method), "stroke-width": 2, "stroke-linejoin": "round", class: "curve", "data-method": one.method }));
    }
    const cross = make("line", { y1: top, y2: bottom, stroke: "var(--muted)", "stroke-dasharray": "3 3", visibility: "hidden" });
    const cover = make("rect", { x: left, y: top, width: right - left, height: bottom - top, fill: "transparent" });
    tip(cover, (event) => {
      const bounds = cover.getBoundingClientRect();
      const epoch = Math.round(1 + ((event.clientX - bounds.left) / bounds.width) * (epochs - 1));
      cross.setAttribute("x1", x(epoch)); cross.setAttribute("x2", x(epoch)); cross.setAttribute("visibility", "visible");
      const written = chosen.endsWith("loss") || (!row.metric.unit && !chosen.startsWith("kept")) ? significant : number;
      return [`epoch ${epoch}, ${title(chosen)}`, ...shown.filter((one) => one.curves[chosen][1][epoch - 1] != null).map((one) => {
        const [under, middle, over] = one.curves[chosen].map((values) => written(values[epoch - 1]));
        return `${one.method} ${middle} (${under} … ${over})`;
      })].join("\n");
    });
    cover.addEventListener("pointerleave", () => cross.setAttribute("visibility", "hidden"));
    return [height, [...grid, ...lines, cross, cover]];
  });
}

function ranks(place, found) { // the critical-difference diagram
  plot(place, (width) => {
    const left = 20, right = width - 20, count = found.methods.length, top = 46;
    const x = (rank) => left + ((rank - 0.8) / (count - 0.6)) * (right - left), marks = [];
    marks.push(make("line", { x1: x(0.8), x2: x(count + 0.2), y1: top, y2: top, stroke: "var(--muted)" }));
    for (let rank = 1; rank <= count; rank++) marks.push(make("line", { x1: x(rank), x2: x(rank), y1: top - 5, y2: top, stroke: "var(--muted)" }), make("text", { x: x(rank), y: top - 9, "text-anchor": "middle", class: "soft" }, `${rank}`));
    marks.push(make("line", { x1: x(1), x2: x(1 + found.difference), y1: 18, y2: 18, stroke: "var(--ink)", "stroke-width": 2 }), make("text", { x: x(1), y: 11, class: "soft" }, `critical difference ${number(found.difference, 2)}`));
    const order = found.methods.map((_, at) => at).sort((a, b) => found.ranks[a] - found.ranks[b]);
    found.cliques.forEach(([first, last], line) => marks.push(make("line", { x1: x(first) - 4, x2: x(last) + 4, y1: top + 10 + 7 * line, y2: top + 10 + 7 * line, stroke: "var(--ink)", "stroke-width": 4, "stroke-linecap": "round" })));
    const start = top + 26 + 7 * found.cliques.length;
    order.forEach((at, line) => {
      const y = start + 20 * line, end = x(found.ranks[at]) > width * 0.6;
      marks.push(make("path", { d: `M${x(found.ranks[at])} ${top}V${y}`, stroke: colour(found.methods[at]), "stroke-width": 2 }));
      marks.push(make("text", { x: x(found.ranks[at]) + (end ? -7 : 7), y: y + 4, "text-anchor": end ? "end" : "start" }, `${found.methods[at]} ${number(found.ranks[at], 2)}`));
    });
    return [start + 20 * order.length, marks];
  });
}

function responses(place, sweep) { // one panel per setting: validation metric against its value; the first point is the best
  for (const [key, means] of Object.entries(sweep.means)) {
    const area = make("div", { class: "plot", "data-label": `response to ${key}`, "data-setting": key });
    place.append(area);
    plot(area, (width) => {
      const values = means.map(([value]) => value), numeric = values.every((value) => typeof value === "number");
      const log = numeric && Math.min(...values) > 0 && Math.max(...values) >= 20 * Math.min(...values);
      const scale = (value) => (!numeric ? values.indexOf(value) : log ? Math.log10(value) : value);
      const all = sweep.points.map((point) => point.validation), places = values.map(scale);
      const height = 220, left = 52, right = width - 16, top = 10, bottom = height - 40;
      const gap = 0.06 * (Math.max(...all) - Math.min(...all) || 1), low = Math.min(...all) - gap, high = Math.max(...all) + gap;
      const from = Math.min(...places), span = Math.max(...places) - from || 1;
      const x = (value) => left + 8 + ((scale(value) - from) / span) * (right - left - 16), y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
      const grid = ticks(low, high, 4).flatMap((tick) => [make("line", { x1: left, x2: right, y1: y(tick), y2: y(tick), class: "axis" }), make("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end", class: "soft" }, `${tick}`)]);
      const marks = values.length > 8 ? [values[0], values[values.length - 1]] : values;
      for (const value of marks) grid.push(make("text", { x: x(value), y: bottom + 16, "text-anchor": "middle", class: "soft" }, `${value}`));
      grid.push(make("text", { x: right, y: bottom + 33, "text-anchor": "end", class: "soft" }, `${key}${log ? ", logarithmic" : ""}`));
      grid.push(make("text", { x: left, y: bottom + 33, class: "soft" }, `validation ${sweep.metric.title}${sweep.metric.unit}`));
      const paint = colour(sweep.method), drawn = [];
      if (values.length < sweep.points.length) drawn.push(make("path", { d: `M${means.map(([value, mean]) => `${x(value)} ${y(mean)}`).join("L")}`, fill: "none", stroke: paint, "stroke-width": 2 }));
      sweep.points.forEach((point, rank) => {
        const dot = make("circle", { cx: x(point.settings[key]), cy: y(point.validation), r: rank ? 3.2 : 5.5, fill: paint, "fill-opacity": rank ? 0.55 : 1, stroke: rank ? "none" : "var(--ink)", "stroke-width": 2, class: rank ? "trial" : "trial best" });
        const settings = Object.entries(point.settings).map(([name, value]) => `${name}=${value}`).join(" ");
        drawn.unshift(tip(dot, `${rank ? `rank ${rank + 1}` : "best"}: ${settings}\nvalidation ${significant(point.validation)}, test ${point.test === null ? "–" : significant(point.test)}, ${point.runs} runs`));
      });
      return [height, [...grid, ...drawn]];
    });
  }
}

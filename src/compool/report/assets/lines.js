"use strict";
// Plots of named lines in groups: boxes of accuracies, kept shares, paired differences, parameters.

const NARROW = 640; // pixels: below this width, panels are stacked

// groups(): [{title, link, lines: [{label, ...}]}]. panels(lines): [{title, low, high, log, notes, draw}]: the axis, the width
// in pixels of the text to its right, and draw(line, x, y, thick), which returns the elements of a line.
function linePlot(container, groups, panels, { thick = 14, gap = 6 } = {}) {
  return plot(container, (width) => {
    const shown = groups().filter((group) => group.lines.length), lines = shown.flatMap((group) => group.lines);
    const used = lines.length ? panels(lines) : [];
    if (!used.length) return [40, [make("text", { x: 0, y: 24, class: "soft" }, container.dataset.empty || "nothing to show")]];
    const short = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
    const names = Math.min(0.36 * width, 14 + 6.8 * Math.max(...lines.map((line) => short(line.label).length)));
    const beside = width >= NARROW && used.length > 1, each = beside ? (width - names + 12) / used.length : width - names;
    const marks = [];
    let height = 0;
    used.forEach((panel, position) => {
      const named = !beside || position === 0, left = names + (beside ? position * each : 0), right = left + each - (beside ? 34 : 14) - (panel.notes || 0);
      const [elements, bottom] = linePanel(panel, shown, { named, short, above: !beside && used.length > 1, left, right, top: beside ? 0 : height, thick, gap });
      marks.push(...elements);
      height = beside ? Math.max(height, bottom) : bottom + (position < used.length - 1 ? 22 : 0);
    });
    return [height, marks];
  });
}

function linePanel(panel, groups, { named, short, above, left, right, top, thick, gap }) {
  const scale = panel.log ? Math.log10 : (value) => value, low = scale(panel.low), span = scale(panel.high) - low || 1;
  const x = (value) => left + ((scale(value) - low) / span) * (right - left), marks = [], grid = [];
  const tall = groups.reduce((sum, group) => sum + group.lines.length, 0) > 18, first = top + (above ? 18 : 0) + (tall ? 20 : 4);
  let y = first;
  if (above) grid.push(make("text", { x: right, y: top + 12, "text-anchor": "end", class: "soft axis-title" }, panel.title));
  for (const group of groups) {
    if (group.title) {
      const title = make("text", { x: 0, y: y + 13, class: "heading" }, group.title);
      if (named) marks.push(group.link ? make("a", { href: group.link }, title) : title);
      y += 22;
    }
    for (const line of group.lines) {
      const name = make("text", { x: left - 8, y: y + thick / 2 + 4, "text-anchor": "end", class: "name" }, short(line.label));
      if (named) marks.push(short(line.label) === line.label ? name : tip(name, line.label));
      marks.push(...panel.draw(line, x, y, thick));
      y += thick + gap;
    }
    y += group.title ? 4 : 0;
  }
  const powers = Array.from({ length: Math.floor(scale(panel.high) + 1e-9) - Math.ceil(low - 1e-9) + 1 }, (_, at) => 10 ** (Math.ceil(low - 1e-9) + at));
  for (const tick of panel.log ? powers : ticks(panel.low, panel.high, Math.max(3, (right - left) / 60))) {
    grid.push(make("line", { x1: x(tick), x2: x(tick), y1: first - 2, y2: y, class: tick === panel.zero ? "zero" : "axis" }));
    const text = panel.log ? tick.toLocaleString("en") : `${panel.signed && tick > 0 ? "+" : ""}${tick}`.replace("-", "−");
    for (const at of tall ? [first - 8, y + 14] : [y + 14]) grid.push(make("text", { x: x(tick), y: at, "text-anchor": "middle", class: "soft tick" }, text));
  }
  if (tall || !above) grid.push(make("text", { x: right, y: y + 30, "text-anchor": "end", class: "soft axis-title" }, panel.title));
  return [[...grid, ...marks], y + 36];
}

const seen = (results) => results.filter((one) => !hidden.has(one.method)).map((one) => ({ ...one, label: one.method }));
const diamond = (x, y, size) => make("path", { d: `M${x - size} ${y}L${x} ${y - size}L${x + size} ${y}L${x} ${y + size}Z`, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 1.3, class: "published" });

function highlight(dot, run) { // highlight the same run in every panel
  const same = () => document.querySelectorAll(`.here [data-run="${CSS.escape(run)}"]`);
  dot.setAttribute("data-run", run);
  dot.addEventListener("pointerenter", () => same().forEach((one) => one.classList.add("lit")));
  dot.addEventListener("pointerleave", () => same().forEach((one) => one.classList.remove("lit")));
  return dot;
}

const spread = (replica) => (replica * 0.618034) % 1; // the height of a run's dot within its line, so that dots do not hide each other

function describeRun(one, [replica, value, epoch, kept], metric) {
  const write = metric.unit ? number : significant;
  return `${one.title}, replica ${replica}\ntest ${metric.title} ${write(value)}${metric.unit.replace(",", "")}, epoch ${epoch}` + (kept.length ? `\nnodes kept: ${kept.map((share) => number(share)).join(" → ")} %` : "");
}

function boxes(container, groups, metric, points) { // test metric of every run, and next to it the share of nodes that each run keeps
  linePlot(container, groups, (lines) => {
    const all = lines.flatMap((one) => [...one.runs.map((run) => run[1]), ...(one.published ? [one.published[0]] : [])]);
    if (!all.length) return [];
    const { title, unit } = metric, least = Math.min(...all), most = Math.max(...all), pad = unit ? 2 : 0.05 * (most - least || Math.abs(most) || 1);
    const low = Math.max(0, least - pad), high = unit ? Math.min(100.5, most + pad) : most + pad;
    const panels = [{ title: `test ${title}${unit}`, low, high, draw: (one, x, y, thick) => box(one, x, y, thick, points, metric) }];
    if (lines.some((one) => one.runs.some((run) => run[3].length))) panels.push({ title: "nodes kept, %, one dot per run", low: 0, high: 100, draw: (one, x, y, thick) => strip(one, x, y, thick, metric) });
    return panels;
  }, points ? { thick: 26, gap: 10 } : {});
}

function box(one, x, y, thick, points, metric) {
  const write = metric.unit ? number : significant, paint = colour(one.method), middle = y + thick / 2, elements = [];
  const values = one.runs.map((run) => run[1]).sort((a, b) => a - b);
  const published = one.published ? `\npublished: ${number(one.published[0])} ± ${number(one.published[1])}` : "";
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
    tip(group, `${one.title}\n${values.length} ${values.length === 1 ? "run" : "runs"}: ${one.text}\nmedian ${write(q2)}, quartiles ${write(q1)} and ${write(q3)}\nfrom ${write(values[0])} to ${write(values[values.length - 1])}${published}`);
    elements.push(group);
    for (const run of one.runs) {
      if (!points && run[1] >= q1 - reach && run[1] <= q3 + reach) continue;
      const dot = make("circle", { cx: x(run[1]), cy: points ? y + 3 + spread(run[0]) * (thick - 6) : middle, r: points ? 2.4 : 1.8, fill: paint, "fill-opacity": 0.7, class: "run" });
      elements.push(highlight(tip(dot, describeRun(one, run, metric)), `${one.title} ${run[0]}`));
    }
  }
  if (one.published) elements.push(tip(diamond(x(one.published[0]), middle, points ? 6 : 4.5), `${one.title}${published}`));
  return elements;
}

function strip(one, x, y, thick, metric) { // one dot per run and pooling layer; deeper layers lie lower
  const paint = colour(one.method), levels = Math.max(0, ...one.runs.map((run) => run[3].length)), high = thick / Math.max(1, levels);
  if (!levels) return [make("text", { x: x(100), y: y + thick / 2 + 4, "text-anchor": "end", class: "soft" }, "no pooling")];
  const all = one.runs.filter((run) => run[3].length && run[3][run[3].length - 1] >= 99.95).length;
  const ground = make("rect", { x: x(0), y, width: x(100) - x(0), height: thick, fill: "var(--soft)", "fill-opacity": 0.6 });
  const elements = [tip(ground, `${one.title}\n${all} of ${one.runs.length} runs keep every node${levels > 1 ? "\nupper dots: after the first pooling layer; lower dots: after deeper ones" : ""}`)];
  for (const run of one.runs) run[3].forEach((share, level) => {
    const dot = make("circle", { cx: x(share), cy: y + level * high + 2 + spread(run[0]) * (high - 4), r: high < 10 ? 1.6 : 2.2, fill: paint, "fill-opacity": 0.6, class: "kept" });
    elements.push(highlight(tip(dot, describeRun(one, run, metric)), `${one.title} ${run[0]}`));
  });
  return elements;
}

function forest(container, groups, metric) { // component pooling minus another method on the same splits, with the corrected interval
  const write = (value) => `${value > 0 ? "+" : ""}${metric.unit ? number(value) : significant(value)}`;
  const describe = (one) => `${write(one.difference)} (${write(one.low)} … ${write(one.high)})`;
  linePlot(container, groups, (lines) => {
    const ends = lines.flatMap((one) => [Math.abs(one.low), Math.abs(one.high)]).sort((a, b) => a - b), far = 2.5 * quantile(ends, 0.9); // a few large differences must not compress the others
    const low = Math.max(-far, Math.min(0, ...lines.map((one) => one.low))), high = Math.min(far, Math.max(0, ...lines.map((one) => one.high)));
    const pad = 0.04 * (high - low || 1), notes = container.clientWidth >= NARROW ? 150 : 0, side = metric.higher ? "right" : "left";
    return [{ title: `difference${metric.unit ? " in points" : ""}; ${side} of 0: component is better`, low: low - pad, high: high + pad, zero: 0, signed: true, notes, draw: (one, x, y, thick) => {
      const middle = y + thick / 2, paint = colour(one.method), apart = one.low > 0 || one.high < 0;
      const at = (value) => x(Math.max(low - pad, Math.min(high + pad, value))), arrow = (value, step) => make("path", { d: `M${at(value) - step} ${middle - 4}l${step} 4l${-step} 4`, fill: "none", stroke: paint, "stroke-width": 2, class: "beyond" });
      const group = make("g", { class: "difference", "data-method": one.method, "data-significant": apart });
      group.append(
        make("rect", { x: at(one.low) - 4, y, width: at(one.high) - at(one.low) + 8, height: thick, fill: "transparent" }),
        make("line", { x1: at(one.low), x2: at(one.high), y1: middle, y2: middle, stroke: paint, "stroke-width": 2 }),
        ...(one.high > high + pad ? [arrow(one.high, 5)] : []), ...(one.low < low - pad ? [arrow(one.low, -5)] : []),
        ...(at(one.difference) === x(one.difference) ? [make("rect", { x: x(one.difference) - 4, y: middle - 4, width: 8, height: 8, fill: apart ? paint : "var(--card)", stroke: paint, "stroke-width": 2 })] : []),
      );
      tip(group, `${one.title}\n${describe(one)}, ${one.pairs} splits\np = ${one.p.toPrecision(2)}` + (one.holm === null ? "" : `, over data sets (Holm) ${one.holm.toPrecision(2)}`));
      return [group, ...(notes ? [make("text", { x: x(high + pad) + notes, y: middle + 4, "text-anchor": "end", class: "soft" }, describe(one))] : [])];
    } }];
  });
}

function bars(container, groups) { // parameters, on a logarithmic axis
  linePlot(container, groups, (lines) => {
    const all = lines.flatMap((one) => [one.parameters, ...(one.publishedParameters ? [one.publishedParameters] : [])]).filter((count) => count > 0);
    if (!all.length) return [];
    const low = 10 ** Math.floor(Math.log10(Math.min(...all)) - 0.2);
    return [{ title: "parameters, logarithmic", low, high: Math.max(...all, 10 * low), log: true, notes: 52, draw: (one, x, y, thick) => {
      if (!one.parameters) return [];
      const end = x(one.parameters), bar = make("rect", { x: x(low), y, width: end - x(low), height: thick, rx: 2.5, fill: colour(one.method), "fill-opacity": 0.85, class: "parameters" });
      const published = one.publishedParameters ? x(one.publishedParameters) : 0, beside = published > end - 8 && published < end + 60 ? published : end;
      tip(bar, `${one.title}: ${one.parameters.toLocaleString("en")} parameters` + (published ? `\npublished: ${one.publishedParameters.toLocaleString("en")}` : ""));
      return [bar, ...(published ? [diamond(published, y + thick / 2, 4.5)] : []), make("text", { x: beside + 8, y: y + thick / 2 + 4, class: "soft" }, one.parameters.toLocaleString("en"))];
    } }];
  }, { thick: 13, gap: 4 });
}

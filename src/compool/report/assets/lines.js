"use strict";
// Plots of named lines in groups: boxes of accuracies, kept shares, paired differences, parameters.

const NARROW = 640; // pixels: below this width, panels are stacked

// groups(): [{title, link, lines: [{label, ...}]}]. panels(lines): [{title, low, high, log, notes, draw}]: the axis, the width
// in pixels of the text to its right, and draw(line, x, y, thick), which returns the elements of a line.
function linePlot(container, groups, panels, { thick = 14, gap = 6 } = {}) {
  return plot(container, (width) => {
    const shown = groups().filter((group) => group.lines.length), lines = shown.flatMap((group) => group.lines);
    const used = lines.length ? panels(lines) : [];
    if (!used.length) return [40, [make("text", { x: 0, y: 24, class: "soft" }, "no finished runs of the methods chosen above")]];
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
  const powers = Array.from({ length: Math.floor(scale(panel.high) + 1e-9) - Math.ceil(low - 1e-9) + 1 }, (_, index) => 10 ** (Math.ceil(low - 1e-9) + index));
  for (const tick of panel.log ? powers : ticks(panel.low, panel.high, Math.max(3, (right - left) / 60))) {
    grid.push(make("line", { x1: x(tick), x2: x(tick), y1: first - 2, y2: y, class: tick === panel.zero ? "zero" : "axis" }));
    const text = panel.log ? tick.toLocaleString("en") : `${panel.signed && tick > 0 ? "+" : ""}${tick}`.replace("-", "−");
    for (const height of tall ? [first - 8, y + 14] : [y + 14]) grid.push(make("text", { x: x(tick), y: height, "text-anchor": "middle", class: "soft tick" }, text));
  }
  if (tall || !above) grid.push(make("text", { x: right, y: y + 30, "text-anchor": "end", class: "soft axis-title" }, panel.title));
  return [[...grid, ...marks], y + 36];
}

const seen = (results) => results.filter((result) => !hidden.has(result.method)).map((result) => ({ ...result, label: result.method }));
const diamond = (x, y, size) => make("path", { d: `M${x - size} ${y}L${x} ${y - size}L${x + size} ${y}L${x} ${y + size}Z`, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 1.3, class: "published" });

function highlight(dot, run) { // highlight the same run in every panel
  const same = () => document.querySelectorAll(`.here [data-run="${CSS.escape(run)}"]`);
  dot.setAttribute("data-run", run);
  dot.addEventListener("pointerenter", () => same().forEach((dot) => dot.classList.add("lit")));
  dot.addEventListener("pointerleave", () => same().forEach((dot) => dot.classList.remove("lit")));
  return dot;
}

const spread = (replica) => (replica * 0.618034) % 1; // the height of a run's dot within its line, so that dots do not hide each other

function describeRun(line, [replica, value, epoch, kept], metric) {
  const write = metric.unit ? number : significant;
  return `${line.title}, replica ${replica}\ntest ${metric.title} ${write(value)}${metric.unit.replace(",", "")}, epoch ${epoch}` + (kept.length ? `\nnodes kept: ${kept.map((share) => number(share)).join(" → ")} %` : "");
}

function boxes(container, groups, metric, points) { // test metric of every run, and next to it the share of nodes that each run keeps
  linePlot(container, groups, (lines) => {
    const all = lines.flatMap((line) => [...line.runs.map((run) => run[1]), ...(line.published ? [line.published[0]] : [])]);
    if (!all.length) return [];
    const { title, unit } = metric, least = Math.min(...all), most = Math.max(...all), pad = unit ? 2 : 0.05 * (most - least || Math.abs(most) || 1);
    const low = Math.max(0, least - pad), high = unit ? Math.min(100.5, most + pad) : most + pad;
    const panels = [{ title: `test ${title}${unit}`, low, high, draw: (line, x, y, thick) => box(line, x, y, thick, points, metric) }];
    if (lines.some((line) => line.runs.some((run) => run[3].length))) panels.push({ title: "nodes kept, %, one dot per run", low: 0, high: 100, draw: (line, x, y, thick) => strip(line, x, y, thick, metric) });
    return panels;
  }, points ? { thick: 26, gap: 10 } : {});
}

function box(line, x, y, thick, points, metric) {
  const write = metric.unit ? number : significant, paint = colour(line.method), middle = y + thick / 2, elements = [];
  const values = line.runs.map((run) => run[1]).sort((a, b) => a - b);
  const published = line.published ? `\npublished: ${number(line.published[0])} ± ${number(line.published[1])}` : "";
  if (values.length) {
    const [q1, q2, q3] = [0.25, 0.5, 0.75].map((share) => quantile(values, share)), reach = 1.5 * (q3 - q1);
    const inner = values.filter((value) => value >= q1 - reach && value <= q3 + reach);
    const [first, last] = [inner[0], inner[inner.length - 1]];
    const group = make("g", { class: "box", "data-method": line.method });
    group.append(
      make("rect", { x: x(first) - 3, y, width: x(last) - x(first) + 6, height: thick, fill: "transparent" }),
      make("line", { x1: x(first), x2: x(last), y1: middle, y2: middle, stroke: paint, "stroke-width": 1.5 }),
      make("rect", { x: x(q1), y, width: Math.max(x(q3) - x(q1), 1), height: thick, rx: 3, fill: paint, "fill-opacity": 0.28, stroke: paint }),
      make("line", { x1: x(q2), x2: x(q2), y1: y, y2: y + thick, stroke: paint, "stroke-width": 2.5 }),
    );
    tip(group, `${line.title}\n${values.length} ${values.length === 1 ? "run" : "runs"}: ${line.text}\nmedian ${write(q2)}, quartiles ${write(q1)} and ${write(q3)}\nfrom ${write(values[0])} to ${write(values[values.length - 1])}${published}`);
    elements.push(group);
    for (const run of line.runs) {
      if (!points && run[1] >= q1 - reach && run[1] <= q3 + reach) continue;
      const dot = make("circle", { cx: x(run[1]), cy: points ? y + 3 + spread(run[0]) * (thick - 6) : middle, r: points ? 2.4 : 1.8, fill: paint, "fill-opacity": 0.7, class: "run" });
      elements.push(highlight(tip(dot, describeRun(line, run, metric)), `${line.title} ${run[0]}`));
    }
  }
  if (line.published) elements.push(tip(diamond(x(line.published[0]), middle, points ? 6 : 4.5), `${line.title}${published}`));
  return elements;
}

function strip(line, x, y, thick, metric) { // one dot per run and pooling layer; deeper layers lie lower
  const paint = colour(line.method), levels = Math.max(0, ...line.runs.map((run) => run[3].length)), high = thick / Math.max(1, levels);
  if (!levels) return [make("text", { x: x(100), y: y + thick / 2 + 4, "text-anchor": "end", class: "soft" }, "no pooling")];
  const all = line.runs.filter((run) => run[3].length && run[3][run[3].length - 1] >= 99.95).length;
  const ground = make("rect", { x: x(0), y, width: x(100) - x(0), height: thick, fill: "var(--soft)", "fill-opacity": 0.6 });
  const elements = [tip(ground, `${line.title}\n${all} of ${line.runs.length} runs keep every node${levels > 1 ? "\nupper dots: after the first pooling layer; lower dots: after deeper ones" : ""}`)];
  for (const run of line.runs) run[3].forEach((share, level) => {
    const dot = make("circle", { cx: x(share), cy: y + level * high + 2 + spread(run[0]) * (high - 4), r: high < 10 ? 1.6 : 2.2, fill: paint, "fill-opacity": 0.6, class: "kept" });
    elements.push(highlight(tip(dot, describeRun(line, run, metric)), `${line.title} ${run[0]}`));
  });
  return elements;
}

function forest(container, groups, metric) { // component pooling minus another method on the same splits, with the corrected interval
  const write = (value) => `${value > 0 ? "+" : ""}${metric.unit ? number(value) : significant(value)}`;
  const describe = (line) => `${write(line.difference)} (${write(line.low)} … ${write(line.high)})`;
  linePlot(container, groups, (lines) => {
    const ends = lines.flatMap((line) => [Math.abs(line.low), Math.abs(line.high)]).sort((a, b) => a - b), far = 2.5 * quantile(ends, 0.9); // a few large differences must not compress the others
    const low = Math.max(-far, Math.min(0, ...lines.map((line) => line.low))), high = Math.min(far, Math.max(0, ...lines.map((line) => line.high)));
    const pad = 0.04 * (high - low || 1), notes = container.clientWidth >= NARROW ? 150 : 0, side = metric.higher ? "right" : "left";
    return [{ title: `difference${metric.unit ? " in points" : ""}; ${side} of 0: component is better`, low: low - pad, high: high + pad, zero: 0, signed: true, notes, draw: (line, x, y, thick) => {
      const middle = y + thick / 2, paint = colour(line.method), apart = line.low > 0 || line.high < 0;
      const inside = (value) => x(Math.max(low - pad, Math.min(high + pad, value))), arrow = (value, step) => make("path", { d: `M${inside(value) - step} ${middle - 4}l${step} 4l${-step} 4`, fill: "none", stroke: paint, "stroke-width": 2, class: "beyond" });
      const group = make("g", { class: "difference", "data-method": line.method, "data-significant": apart });
      group.append(
        make("rect", { x: inside(line.low) - 4, y, width: inside(line.high) - inside(line.low) + 8, height: thick, fill: "transparent" }),
        make("line", { x1: inside(line.low), x2: inside(line.high), y1: middle, y2: middle, stroke: paint, "stroke-width": 2 }),
        ...(line.high > high + pad ? [arrow(line.high, 5)] : []), ...(line.low < low - pad ? [arrow(line.low, -5)] : []),
        ...(inside(line.difference) === x(line.difference) ? [make("rect", { x: x(line.difference) - 4, y: middle - 4, width: 8, height: 8, fill: apart ? paint : "var(--card)", stroke: paint, "stroke-width": 2 })] : []),
      );
      tip(group, `${line.title}\n${describe(line)}, ${line.pairs} splits\np = ${line.p.toPrecision(2)}` + (line.holm === null ? "" : `, over data sets (Holm) ${line.holm.toPrecision(2)}`));
      return [group, ...(notes ? [make("text", { x: x(high + pad) + notes, y: middle + 4, "text-anchor": "end", class: "soft" }, describe(line))] : [])];
    } }];
  });
}

function bars(container, groups) { // parameters, on a logarithmic axis
  linePlot(container, groups, (lines) => {
    const all = lines.flatMap((line) => [line.parameters, ...(line.publishedParameters ? [line.publishedParameters] : [])]).filter((count) => count > 0);
    if (!all.length) return [];
    const low = 10 ** Math.floor(Math.log10(Math.min(...all)) - 0.2);
    return [{ title: "parameters, logarithmic", low, high: Math.max(...all, 10 * low), log: true, notes: 52, draw: (line, x, y, thick) => {
      if (!line.parameters) return [];
      const end = x(line.parameters), bar = make("rect", { x: x(low), y, width: end - x(low), height: thick, rx: 2.5, fill: colour(line.method), "fill-opacity": 0.85, class: "parameters" });
      const published = line.publishedParameters ? x(line.publishedParameters) : 0, beside = published > end - 8 && published < end + 60 ? published : end;
      tip(bar, `${line.title}: ${line.parameters.toLocaleString("en")} parameters` + (published ? `\npublished: ${line.publishedParameters.toLocaleString("en")}` : ""));
      return [bar, ...(published ? [diamond(published, y + thick / 2, 4.5)] : []), make("text", { x: beside + 8, y: y + thick / 2 + 4, class: "soft" }, line.parameters.toLocaleString("en"))];
    } }];
  }, { thick: 13, gap: 4 });
}

"use strict";
// One graph before and after pooling, at any threshold. The page contains its merges, highest score first: each makes one
// supernode of two, which are given by their first members.

function components(count, merges, threshold) { // the supernode of each node, and the first member of each supernode
  const parent = Array.from({ length: count }, (_, node) => node), first = [], cluster = [];
  for (const [into, absorbed, score] of merges) if (score > threshold) parent[absorbed] = into;
  parent.forEach((into, node) => cluster.push(into === node ? first.push(node) - 1 : cluster[into]));
  return { cluster, first };
}

function firstMembers(cluster) {
  const first = [];
  cluster.forEach((k, node) => { first[k] ??= node; });
  return first;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

function scoreColour(score) {
  const ends = score < 0 ? [47, 111, 224] : [224, 83, 31], share = Math.min(1, Math.abs(score) ** 0.6);
  return `rgb(${[154, 163, 176].map((grey, channel) => Math.round(grey + (ends[channel] - grey) * share)).join(" ")})`;
}

function viewer(container, graphs) {
  let graph = graphs[0], level = graph.levels[0], threshold = level.threshold, own = null, pooled; // own: what a layer with a budget did, until the slider is moved
  const select = make("select", { id: "graph" });
  graphs.forEach((other, position) => select.append(make("option", { value: position }, `${other.dataset}, graph ${other.index}`)));
  const levels = make("div", { class: "choices" });
  const slider = make("input", { type: "range", id: "threshold", min: -1, max: 1, step: 0.005, "aria-label": "threshold" });
  const output = make("output", { for: "threshold" }), strip = make("div", { class: "plot", "data-label": "scores and number of supernodes" });
  const reset = make("button", { type: "button", id: "reset" }), about = make("p", { class: "note", id: "about" });
  const merging = make("p", { id: "merging", role: "status" }), probabilities = make("div", { class: "probabilities" });
  const before = make("div", { class: "plot", "data-label": "the graph" }), after = make("div", { class: "plot", "data-label": "its supernodes" });
  const [beforeTitle, afterTitle] = [make("h3", { id: "before" }), make("h3", { id: "after" })];
  container.append(
    make("div", { class: "controls" }, make("label", {}, "graph", select), levels, make("div", { class: "choices" }, reset)),
    make("div", { class: "threshold" }, make("div", {}, strip, slider), make("label", {}, output)),
    merging,
    make("div", { class: "scale" }, "score −1", make("i"), "1", make("span", {}, "Bars: edges by score. Line: supernodes by threshold. Thick edges merge, grey nodes stay alone. Point at bars, nodes and edges for numbers.")),
    make("div", { class: "panels", style: "margin-top: .8rem" }, make("div", { class: "panel" }, beforeTitle, before), make("div", { class: "panel" }, afterTitle, after)),
    about, probabilities,
  );
  const nodeColour = (k) => (pooled.size[k] > 1 ? `hsl(${(pooled.first[k] * 137.508) % 360} 60% 55%)` : "var(--alone)");
  const features = (list) => list.map(([channel, value]) => `x${channel} = ${+value.toPrecision(3)}`).join(", ") || "all zero";

  function compute() {
    pooled = own ? { cluster: own.cluster, first: firstMembers(own.cluster) } : components(level.positions.length, level.merges, threshold);
    pooled.size = pooled.first.map(() => 0);
    for (const k of pooled.cluster) pooled.size[k]++;
    pooled.weight = level.positions.map(() => 0);
    const touched = level.positions.map(() => false);
    for (const [i, j, score] of level.edges) if (score > threshold && i !== j) { pooled.weight[i] += score; touched[i] = touched[j] = true; }
    pooled.weight = pooled.weight.map((weight, node) => (touched[node] ? weight : 1)); // Eq. 3
    output.textContent = own ? "" : number(threshold, 3).replace(/0$/, "");
    slider.value = threshold;
    beforeTitle.replaceChildren(plural(level.positions.length, "node"), make("span", {}, `, ${plural(level.pairs.length, "edge")}`));
    afterTitle.replaceChildren(plural(pooled.first.length, "supernode"), make("span", {}, `, ${number((100 * pooled.first.length) / level.positions.length, 0)} % of the nodes`));
    afterTitle.dataset.supernodes = pooled.first.length;
    merging.textContent = sentence();
    for (const redraw of [redrawBefore, redrawAfter, redrawStrip]) redraw();
  }

  function sentence() { // what merges at this threshold, in words
    const scores = level.edges.filter(([i, j]) => i !== j).map((edge) => edge[2]), above = scores.filter((score) => score > threshold).length;
    if (!scores.length) return "There are no edges to merge.";
    if (own) return `The network merges by a budget: ${plural(level.positions.length, "node")} become ${plural(pooled.first.length, "supernode")}. Drag to merge by a threshold instead.`;
    const ratio = `${above} of ${scores.length} directed edges score above ${number(threshold, 3).replace(/0$/, "")} and merge`;
    if (!above) { // all scores may be −1, and no threshold is lower
      const highest = Math.max(...scores);
      return `Nothing merges; highest score ${number(highest, 2)}${highest > -1 ? ": drag left to merge" : ", the lowest possible"}.`;
    }
    if (above === scores.length) return `Every edge merges; lowest score ${number(Math.min(...scores), 2)}: drag right to separate nodes.`;
    return pooled.first.length === level.positions.length - level.merges.length ? `${ratio}. Every connected part of the graph is one supernode: drag right to separate nodes.` : `${ratio}: ${plural(level.positions.length - pooled.first.length, "node")} fewer.`;
  }

  function frame(width) {
    const high = Math.max(...level.positions.map(([, y]) => y), 0.3), size = Math.min(width, 520), pad = 16;
    const scale = size - 2 * pad, shift = (width - size) / 2;
    return [high * scale + 2 * pad, ([x, y]) => [shift + pad + x * scale, pad + y * scale]];
  }

  const highlight = (k, on) => {
    for (const circle of container.querySelectorAll(`circle[data-supernode="${k}"]`)) {
      circle.setAttribute("stroke", on ? "var(--ink)" : "var(--card)");
      circle.setAttribute("stroke-width", on ? 2.5 : 1);
    }
  };
  const highlightable = (circle, k) => {
    circle.addEventListener("pointerenter", () => highlight(k, true));
    circle.addEventListener("pointerleave", () => highlight(k, false));
    return circle;
  };

  const redrawBefore = plot(before, (width) => {
    const [height, pixels] = frame(width), marks = [];
    for (const [i, j, forward, backward] of level.pairs) {
      const merges = own ? pooled.cluster[i] === pooled.cluster[j] : forward > threshold || backward > threshold, [x1, y1] = pixels(level.positions[i]), [x2, y2] = pixels(level.positions[j]);
      const top = Math.max(forward ?? -2, backward ?? -2);
      const line = make("line", { x1, y1, x2, y2, stroke: scoreColour(top), "stroke-width": merges ? 2.4 : 1, "stroke-opacity": merges ? 0.95 : 0.55, class: merges ? "merged" : "edge" });
      const text = forward === backward ? `score ${number(forward, 3)}` : [[i, j, forward], [j, i, backward]].filter(([, , score]) => score !== null).map(([a, b, score]) => `score ${a} → ${b}: ${number(score, 3)}`).join("\n");
      marks.push(tip(line, `edge ${i} – ${j}${merges ? ", merged" : ""}\n${text}`));
    }
    const radius = Math.max(2.5, Math.min(9, 60 / Math.sqrt(level.positions.length)));
    level.positions.forEach((position, node) => {
      const [cx, cy] = pixels(position), k = pooled.cluster[node];
      const circle = make("circle", { cx, cy, r: radius, fill: nodeColour(k), stroke: "var(--card)", "stroke-width": 1, "data-supernode": k });
      const weight = own?.weight?.[node] ?? { merged: pooled.weight[node], sum: 1, mean: 1 / pooled.size[k] }[level.weights];
      const weighed = weight !== undefined ? `\nweight ${number(weight, 3)}` : `\nweighted by ${level.weights === "all" ? "all its edges" : "the grades of merges"}`;
      const given = level.given ? `\ninput: ${features(level.given[node])}` : "";
      marks.push(highlightable(tip(circle, `node ${node} of supernode ${k}, which has ${pooled.size[k]}${weighed}${given}\nfeatures: ${features(level.features[node])}`), k));
    });
    return [height, marks];
  });

  const redrawAfter = plot(after, (width) => {
    const [height, pixels] = frame(width), marks = [];
    const sums = pooled.first.map(() => [0, 0]);
    level.positions.forEach(([x, y], node) => { sums[pooled.cluster[node]][0] += x; sums[pooled.cluster[node]][1] += y; });
    const spots = sums.map(([x, y], k) => pixels([x / pooled.size[k], y / pooled.size[k]])), seen = new Set();
    for (const [i, j] of level.pairs) {
      const [a, b] = [pooled.cluster[i], pooled.cluster[j]].sort((left, right) => left - right);
      if (a === b || seen.has(a * level.positions.length + b)) continue;
      seen.add(a * level.positions.length + b);
      marks.push(make("line", { x1: spots[a][0], y1: spots[a][1], x2: spots[b][0], y2: spots[b][1], stroke: "var(--muted)", "stroke-opacity": 0.5 }));
    }
    const radius = Math.max(2.5, Math.min(9, 60 / Math.sqrt(level.positions.length)));
    pooled.first.map((_, k) => k).sort((a, b) => pooled.size[b] - pooled.size[a]).forEach((k) => {
      const circle = make("circle", { cx: spots[k][0], cy: spots[k][1], r: radius * Math.sqrt(pooled.size[k]), fill: nodeColour(k), "fill-opacity": 0.9, stroke: "var(--card)", "stroke-width": 1, "data-supernode": k });
      marks.push(highlightable(tip(circle, `supernode ${k}: ${pooled.size[k]} ${pooled.size[k] === 1 ? "node" : "nodes"}, the first is ${pooled.first[k]}`), k));
    });
    return [height, marks];
  });

  const redrawStrip = plot(strip, (width) => {
    const height = 104, pad = 40, bottom = height - 22, bins = 80, counts = new Array(bins).fill(0), marks = []; // pad: equals the margin of the slider
    for (const [, , score] of level.edges) counts[Math.max(0, Math.min(bins - 1, Math.floor(((score + 1) / 2) * bins)))]++;
    const most = Math.max(...counts, 1), x = (value) => pad + ((value + 1) / 2) * (width - 2 * pad), total = level.positions.length;
    const bar = (count) => bottom - (count / most) * (bottom - 18), y = (value) => bottom - (value / total) * (bottom - 18);
    const text = (content, x, y, anchor) => marks.push(make("text", { x, y, "text-anchor": anchor, class: "soft tick" }, content));
    for (const tick of [-1, -0.5, 0, 0.5, 1]) {
      marks.push(make("line", { x1: x(tick), x2: x(tick), y1: 18, y2: bottom, class: "axis" }));
      text(number(tick, tick % 1 ? 1 : 0), x(tick), height - 6, "middle");
    }
    text("edges", 0, 10, "start"); text("supernodes", width, 10, "end"); text("score", 0, height - 6, "start");
    for (const share of [0, 1]) { text(`${share * most}`, pad - 12, bar(share * most) + 4, "end"); text(`${share * total}`, width - pad + 12, y(share * total) + 4, "start"); }
    counts.forEach((count, bin) => {
      const left = -1 + (2 * bin) / bins, tall = count ? Math.max(1.5, bottom - bar(count)) : 0;
      marks.push(make("rect", { x: x(left) + 0.5, y: bottom - tall, width: Math.max(1, x(left + 2 / bins) - x(left) - 1), height: tall, fill: scoreColour(left + 1 / bins), "fill-opacity": own || left + 2 / bins > threshold ? 0.9 : 0.3 }));
    });
    let d = `M${x(1)} ${y(total)}`;
    for (const [score, left] of level.steps) d += `H${x(score).toFixed(1)}V${y(left).toFixed(1)}`;
    marks.push(make("path", { d: `${d}H${x(-1)}`, fill: "none", stroke: "var(--ink)", "stroke-width": 1.5, "stroke-opacity": 0.75 }));
    if (!own) marks.push(make("line", { x1: x(threshold), x2: x(threshold), y1: 14, y2: bottom, stroke: "var(--accent)", "stroke-width": 2 }));
    const hair = make("line", { y1: 18, y2: bottom, stroke: "var(--muted)", "stroke-dasharray": "3 3", visibility: "hidden" });
    const cover = make("rect", { x: x(-1), y: 0, width: x(1) - x(-1), height: bottom, fill: "transparent", class: "cover" });
    tip(cover, (event) => { // the score under the pointer
      const bounds = cover.getBoundingClientRect(), score = Math.max(-1, Math.min(1, -1 + (2 * (event.clientX - bounds.left)) / bounds.width));
      for (const end of ["x1", "x2"]) hair.setAttribute(end, x(score));
      hair.setAttribute("visibility", "visible");
      const above = level.edges.filter((edge) => edge[2] > score).length, merged = level.merges.filter((merge) => merge[2] > score).length;
      return `score ${number(score, 2)}\n${above} of ${level.edges.length} directed edges score higher\n${plural(total - merged, "supernode")} at this threshold`;
    });
    cover.addEventListener("pointerleave", () => hair.setAttribute("visibility", "hidden"));
    return [height, [...marks, hair, cover]];
  });

  function choose(next) {
    level = next;
    threshold = level.threshold;
    own = level.own;
    level.steps ||= level.merges.map(([, , score], merged) => [score, level.positions.length - merged - 1]);
    reset.textContent = `back to the network's ${own ? plural(firstMembers(own.cluster).length, "supernode") : number(level.threshold, 2)}`;
    compute();
  }

  function open(next) {
    graph = next;
    levels.replaceChildren(...(graph.levels.length < 2 ? [] : graph.levels.map((deeper, depth) => make("button", { type: "button", "data-level": depth, "aria-pressed": depth === 0, onclick: () => {
      for (const button of levels.children) button.setAttribute("aria-pressed", +button.dataset.level === depth);
      choose(deeper);
    } }, `level ${depth + 1}`))));
    for (const each of graph.levels) {
      const pairs = new Map();
      for (const [i, j, score] of each.edges) {
        const key = `${Math.min(i, j)} ${Math.max(i, j)}`, pair = pairs.get(key) || [Math.min(i, j), Math.max(i, j), null, null];
        pair[i <= j ? 2 : 3] = score;
        pairs.set(key, pair);
      }
      each.pairs = [...pairs.values()];
    }
    about.textContent = `Graph ${graph.index} of ${graph.dataset}: ${graph.verdict}. ${graph.about}` + (graph.levels.length > 1 ? " Deeper levels start from what the network's own threshold leaves." : "");
    const likeliest = graph.probabilities.map((share, label) => [share, label]).sort((a, b) => b[0] - a[0]).slice(0, 8).sort((a, b) => a[1] - b[1]);
    probabilities.replaceChildren(...likeliest.flatMap(([share, label]) => [
      make("span", {}, `class ${label}${label === graph.label ? " (true)" : ""}`), make("i", { style: `width: ${100 * share}%` }), make("span", { "data-class": label }, `${number(100 * share)} %`),
    ]));
    choose(graph.levels[0]);
  }

  slider.addEventListener("input", () => { threshold = +slider.value; own = null; compute(); });
  reset.addEventListener("click", () => choose(level));
  select.addEventListener("change", () => open(graphs[+select.value]));
  open(graph);
  return (position) => { select.value = position; open(graphs[position]); };
}

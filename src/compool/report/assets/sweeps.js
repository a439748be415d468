"use strict";
// The response of a sweep to each of its settings.

function responses(container, sweep) { // one panel per setting: validation metric against its value; the first point is the best
  for (const [key, means] of Object.entries(sweep.means)) {
    const area = make("div", { class: "plot", "data-label": `response to ${key}`, "data-setting": key });
    container.append(area);
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

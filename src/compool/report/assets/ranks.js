"use strict";
// Average ranks of methods over data sets.

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

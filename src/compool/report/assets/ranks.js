"use strict";
// Average ranks of methods over data sets.

function ranks(container, ranking) { // the critical-difference diagram
  plot(container, (width) => {
    const left = 20, right = width - 20, count = ranking.methods.length, top = 46;
    const x = (rank) => left + ((rank - 0.8) / (count - 0.6)) * (right - left), marks = [];
    marks.push(make("line", { x1: x(0.8), x2: x(count + 0.2), y1: top, y2: top, stroke: "var(--muted)" }));
    for (let rank = 1; rank <= count; rank++) marks.push(make("line", { x1: x(rank), x2: x(rank), y1: top - 5, y2: top, stroke: "var(--muted)" }), make("text", { x: x(rank), y: top - 9, "text-anchor": "middle", class: "soft" }, `${rank}`));
    marks.push(make("line", { x1: x(1), x2: x(1 + ranking.difference), y1: 18, y2: 18, stroke: "var(--ink)", "stroke-width": 2 }), make("text", { x: x(1), y: 11, class: "soft" }, `critical difference ${number(ranking.difference, 2)}`));
    const order = ranking.methods.map((_, method) => method).sort((a, b) => ranking.ranks[a] - ranking.ranks[b]);
    ranking.cliques.forEach(([first, last], line) => marks.push(make("line", { x1: x(first) - 4, x2: x(last) + 4, y1: top + 10 + 7 * line, y2: top + 10 + 7 * line, stroke: "var(--ink)", "stroke-width": 4, "stroke-linecap": "round" })));
    const start = top + 26 + 7 * ranking.cliques.length;
    order.forEach((method, line) => {
      const y = start + 20 * line, end = x(ranking.ranks[method]) > width * 0.6;
      marks.push(make("path", { d: `M${x(ranking.ranks[method])} ${top}V${y}`, stroke: colour(ranking.methods[method]), "stroke-width": 2 }));
      marks.push(make("text", { x: x(ranking.ranks[method]) + (end ? -7 : 7), y: y + 4, "text-anchor": end ? "end" : "start" }, `${ranking.methods[method]} ${number(ranking.ranks[method], 2)}`));
    });
    return [start + 20 * order.length, marks];
  });
}

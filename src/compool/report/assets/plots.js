"use strict";
// Plots as SVG, redrawn when the width of their container changes. Text is always inserted as text, never as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const hidden = new Set(); // methods that are hidden in the legends
const redraws = []; // called when `hidden` changes

function make(name, attributes = {}, ...children) {
  const svg = ["svg", "a", "g", "line", "path", "rect", "circle", "text"].includes(name);
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
const significant = (value) => `${+value.toPrecision(4)}`.replace("-", "−"); // as many digits as the data

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
  const values = [];
  for (let count = Math.ceil(low / step - 1e-9); count * step <= high + 1e-9 * step; count++) values.push(+(count * step).toPrecision(12));
  return values;
}

function plot(container, draw) { // draw(width) returns [height, elements]
  let width = 0;
  const redraw = () => {
    if (width < 50) return;
    const [height, elements] = draw(width);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": container.dataset.label || "plot" });
    svg.append(...elements);
    container.replaceChildren(svg);
  };
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now !== width) { width = now; redraw(); }
  }).observe(container);
  redraws.push(redraw);
  return redraw;
}

function legend(methods) {
  const buttons = methods.map((method) => {
    const button = make("button", { type: "button", "data-method": method, "aria-pressed": !hidden.has(method) });
    button.append(make("i", { style: `background: ${colour(method)}` }), method);
    button.addEventListener("click", () => {
      if (!hidden.delete(method)) hidden.add(method);
      for (const other of document.querySelectorAll(".legend button")) other.setAttribute("aria-pressed", !hidden.has(other.dataset.method));
      for (const redraw of redraws) redraw();
    });
    button.addEventListener("pointerenter", () => point(method));
    button.addEventListener("pointerleave", () => point(null));
    return button;
  });
  return make("div", { class: "legend" }, ...buttons);
}

function quantile(sorted, share) {
  const position = share * (sorted.length - 1), low = Math.floor(position);
  return sorted[low] + (position - low) * ((sorted[low + 1] ?? sorted[low]) - sorted[low]);
}

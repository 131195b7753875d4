/* What the chapters are made of: elements, controls, maps of weights. */

/** An element with attributes and children; `on...` attributes are listeners. */
function make(name, attributes = {}, ...children) {
  const element = name === "svg" || make.svg.has(name)
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
make.svg = new Set(["rect", "text", "title", "g"]);

const shown = (letter) => (letter === " " ? "␣" : letter);
const round = (number, digits = 2) => number.toFixed(digits);

/** A map of weights: a row for each query, a column for each key; the darker, the greater. */
function drawMap({ rows, columns, weights, label, caption = "" }) {
  const cell = 18;
  const longest = (labels) => Math.max(...labels.map((text) => (text === "end" ? 1 : [...text].length)));
  const isWords = Math.max(longest(rows), longest(columns)) > 1; // words of columns are turned
  const [left, top] = isWords ? [12 + 7.5 * Math.max(3, longest(rows)), 12 + 7.5 * Math.max(3, longest(columns))] : [34, 20];
  const [width, height] = [left + columns.length * cell + 2, top + rows.length * cell + 2];
  const text = (x, y, content, anchor) =>
    make("text", {
      x, y, "text-anchor": anchor === "middle" && isWords ? "start" : anchor,
      class: content.length > 1 && anchor === "middle" && !isWords ? "long" : null,
      transform: anchor === "middle" && isWords ? `rotate(-90 ${x} ${y}) translate(0 4)` : null,
    }, shown(content));
  const cells = weights.flatMap((line, t) =>
    [...line].map((weight, i) =>
      make("rect", {
        x: left + i * cell, y: top + t * cell, width: cell - 1, height: cell - 1,
        "fill-opacity": Math.min(1, 0.04 + 0.96 * weight).toFixed(4),
      }, make("title", {}, `${shown(rows[t])} attends to ${shown(columns[i])}: ${round(weight, 3)}`))));
  const best = weights.map((line, t) => {
    const i = argmax(line);
    return `${shown(rows[t])} attends to ${shown(columns[i])} ${round(line[i])}`;
  });
  const svg = make("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "map",
    "aria-label": `${label}. ${best.join(", ")}`,
  },
  ...columns.map((content, i) => text(left + (i + 0.5) * cell, top - 6, content, "middle")),
  ...rows.map((content, t) => text(left - 6, top + (t + 0.7) * cell, content, "end")), ...cells);
  svg.style.minWidth = `${left + columns.length * 8}px`; // smaller cells are no longer readable: the figure scrolls
  return make("figure", { class: "map-figure" }, svg, ...(caption ? [make("figcaption", {}, caption)] : []));
}

/** Bars of the most probable next tokens. */
function drawBars(logProbabilities, labels, count = 5) {
  const order = range(labels.length).sort((i, j) => logProbabilities[j] - logProbabilities[i]).slice(0, count);
  const bars = order.map((id) => {
    const probability = Math.exp(logProbabilities[id]);
    const bar = make("i", {});
    bar.style.width = `${100 * probability}%`;
    return make("li", {}, make("b", {}, shown(labels[id])), make("span", {}, bar), make("span", {}, round(probability, 3)));
  });
  const list = make("ol", {}, ...bars);
  list.style.setProperty("--label", `${Math.max(2, ...order.map((id) => labels[id].length)) + 1}ch`);
  return make("div", { class: "bars" }, make("p", {}, "The most probable characters at this step:"), list);
}

/** A slider with its value beside it; `title` is what is seen of a long label. */
function slider(label, { min, max, step = 1, value, show = String, title = label }, change) {
  const output = make("output", {}, show(value));
  const input = make("input", { type: "range", min, max, step, value, "aria-label": label });
  const say = () => {
    output.textContent = show(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => { say(); change(Number(input.value)); });
  say();
  const set = (number) => { input.value = number; say(); };
  return Object.assign(make("label", { class: "control" }, make("span", {}, title), input, output), { set });
}

/** Buttons of which one is chosen, as radio inputs; options are pairs of a value and its label. */
function choices(legend, options, value, change) {
  choices.count = (choices.count ?? 0) + 1;
  const name = `choice-${choices.count}`;
  return make("fieldset", { class: "choices" }, make("legend", {}, legend), ...options.map(([key, label]) =>
    make("label", {}, make("input", { type: "radio", name, value: key, checked: key === value, onchange: () => change(key) }), ` ${label}`)));
}

/** A box to tick; `title` is what is seen of a long label. */
const tick = (label, checked, change, title = label) =>
  make("label", { class: "tick" }, make("input", { type: "checkbox", checked, "aria-label": label, onchange: (event) => change(event.target.checked) }), ` ${title}`);

/** The sentence below a figure: what the model writes now, and whether that is what it wrote before. */
function drawAnswer(text, expected) {
  const same = text === expected;
  return make("p", { class: `answer ${same ? "same" : "changed"}` }, "The model writes ", make("b", {}, text || "nothing"),
    same ? ", as with all of its attention." : `; with all of its attention it writes ${expected || "nothing"}.`);
}

/** The map and the answer of an output. */
const drawOutput = (lesson, result) => [
  drawMap({ rows: result.rows, columns: result.columns ?? lesson.source, weights: result.weights, label: "Weights of the source for each character written" }),
  drawAnswer(result.answer, lesson.answer),
];

/* The seven chapters: what the reader changes, and what the model then computes.

   A chapter is { controls(lesson, redraw), compute(lesson), draw(lesson, result) }. `compute` returns
   the answer and every lookup behind it, as `attend` saw it, so that a test can repeat it. */

/** Decode with any way to look up; the lookups of all steps are joined to one. */
function decodeBy(lesson, lookUp, { first = lesson.states } = {}) {
  const contexts = [];
  const steps = lesson.model.decode(first, (query, t) => {
    const found = lookUp(query, t);
    contexts.push(found.context);
    return found;
  });
  return {
    steps,
    rows: lesson.model.labels(steps),
    weights: steps.map((step) => step.weights),
    queries: steps.map((step) => step.query),
    contexts,
    answer: lesson.model.text(steps),
  };
}

/** Decode with one lookup a step, with a score, an alignment and the keys that may be read. */
function decodeWith(lesson, { score, align, allowed = null, keys = lesson.states, values = keys, first = lesson.states, spec = {} }) {
  const options = { score: score ?? Scores.additive(lesson.model.additive), align };
  const result = decodeBy(lesson, (query, t) => {
    const found = attend([query], keys, values, { ...options, mask: allowed && [allowed], first: t });
    return { weights: found.weights[0], context: found.contexts[0] };
  }, { first });
  const { queries, weights, contexts } = result;
  return { ...result, lookups: [{ score: "additive", ...spec, queries, keys, values, weights, contexts, mask: allowed && queries.map(() => allowed) }] };
}

const chapters = {};

chapters.bottleneck = {
  start: () => ({ last: 1 }),
  controls: (lesson, state, change) => [
    slider("The decoder may attend to the last … states", { min: 1, max: lesson.source.length, value: Math.min(state.last, lesson.source.length) }, (last) => change({ last }, true)),
  ],
  compute: (lesson, { last }) => {
    const size = lesson.source.length;
    return decodeWith(lesson, { allowed: range(size).map((i) => i >= size - last) });
  },
  draw: drawOutput,
  /** The smallest number of last states from which on the answer stays right. */
  smallest: (lesson) => {
    const wrong = range(lesson.source.length).map((i) => i + 1)
      .filter((last) => chapters.bottleneck.compute(lesson, { last }).answer !== lesson.answer);
    return Math.max(0, ...wrong) + 1;
  },
};

/** The weights after one of them was set: the others shrink or grow, so that all add up to 1. */
function moveWeight(weights, i, weight) {
  const rest = 1 - weights[i];
  const even = (1 - weight) / Math.max(1, weights.length - 1);
  return weights.map((other, j) => (j === i ? weight : rest > 1e-9 ? (other * (1 - weight)) / rest : even));
}

chapters.mixture = {
  start: () => ({ step: 0, forced: null, cut: [] }),
  controls: (lesson, state, change, result) => {
    const step = Math.min(state.step, result.steps.length - 1);
    const weights = result.steps[step].weights;
    const options = result.rows.map((label, t) => make("option", { value: t, selected: t === step }, `${t + 1}: ${shown(lesson.full.rows[t] ?? label)}`));
    const select = make("select", { onchange: (event) => change({ step: Number(event.target.value), forced: null, cut: [] }) }, ...options);
    const drag = (i, weight) => change({ step, cut: [], forced: moveWeight(state.forced ?? weights, i, weight) }, true);
    const lines = lesson.source.map((letter, i) => make("li", {},
      slider(`Weight of ${shown(letter)}, character ${i + 1}`, { min: 0, max: 1, step: 0.01, value: weights[i], title: shown(letter), show: (value) => round(value) }, (weight) => drag(i, weight)),
      tick(`cut ${shown(letter)}, character ${i + 1}`, state.cut.includes(i), (on) =>
        change({ step, forced: null, cut: on ? [...state.cut, i] : state.cut.filter((j) => j !== i) }), "cut")));
    const list = make("ul", { class: "weights" }, ...lines);
    list.style.setProperty("--label", `${Math.max(...lesson.source.map((letter) => letter.length)) + 0.5}ch`);
    return [
      make("p", {}, make("label", {}, "Step: the character that is written ", select), " ",
        make("button", { type: "button", onclick: () => change({ step, forced: null, cut: [] }) }, "Weights of the model")),
      list,
    ];
  },
  compute: (lesson, { step, forced, cut }) => {
    const score = Scores.additive(lesson.model.additive);
    const allowed = lesson.source.map((_, i) => !cut.includes(i));
    const result = decodeBy(lesson, (query, t) => {
      if (t === step && forced) return { weights: forced, context: mix(forced, lesson.states) };
      const found = attend([query], lesson.states, lesson.states, { score, mask: t === step ? [allowed] : null });
      return { weights: found.weights[0], context: found.contexts[0] };
    });
    const keep = range(result.steps.length).filter((t) => t !== step || !forced);
    const pick = (list) => keep.map((t) => list[t]);
    const mask = keep.map((t) => (t === step ? allowed : allowed.map(() => true)));
    return { ...result, lookups: [{ score: "additive", queries: pick(result.queries), keys: lesson.states, values: lesson.states, weights: pick(result.weights), contexts: pick(result.contexts), mask }] };
  },
  draw: (lesson, result, { step }) => [
    drawBars(result.steps[Math.min(step, result.steps.length - 1)].logProbabilities, lesson.model.target),
    drawAnswer(result.answer, lesson.answer),
  ],
};

/** The scores that are swapped in. Dot, scaled dot and cosine compare sides of one width: the query and the forward half of each state. */
const swapped = {
  additive: ["additive", "v · tanh(W q + U k): what the model was trained with"],
  general: ["general", "q · W k: W was fitted to the trained weights afterwards"],
  dot: ["dot", "q · k: no weights; query and key must mean the same by the same number"],
  scaled: ["scaled dot", "q · k / √d: the same, divided by the root of the width d"],
  cosine: ["cosine", "8 · cos(q, k): the angle only, not the lengths; 8 makes it sharper"],
  location: ["location", "W q: from the query alone, whatever stands in the text; W was fitted, too"],
};

chapters.scores = {
  start: () => ({ name: "dot" }),
  controls: (lesson, { name }, change) => [
    choices("Score", Object.entries(swapped).map(([key, [label]]) => [key, label]), name, (key) => change({ name: key })),
    make("p", { class: "formula" }, swapped[name][1]),
  ],
  compute: (lesson, { name }) => {
    const { model, states } = lesson;
    const parameters = { additive: model.additive, general: model.general, location: model.location, cosine: { sharpness: 8 } };
    const halves = ["dot", "scaled", "cosine"].includes(name) ? states.map((state) => state.slice(0, model.width)) : states;
    return decodeWith(lesson, { score: Scores[name](parameters[name]), keys: halves, values: states, spec: { score: name, sharpness: 8 } });
  },
  draw: drawOutput,
};

chapters.local = {
  start: () => ({ kind: "soft", sharpness: 1, window: 4 }),
  controls: (lesson, { kind, sharpness, window }, change) => [
    choices("Alignment", [["soft", "soft"], ["hard", "hard"], ["monotonic", "local-m"], ["predictive", "local-p"]], kind, (key) => change({ kind: key })),
    kind === "soft"
      ? slider("Sharpness: scores are multiplied by", { min: 0, max: 4, step: 0.05, value: sharpness, show: (value) => round(value) }, (value) => change({ sharpness: value }, true))
      : kind === "hard" ? make("p", {}, "Each step takes the key with the greatest score and no other.")
        : slider("Window W: keys to the left and to the right", { min: 1, max: 20, value: window }, (value) => change({ window: value }, true)),
  ],
  compute: (lesson, { kind, sharpness, window }) => {
    const parameters = { sharpness, window, hidden: lesson.model.additive.queryWeight, place: lesson.model.place };
    return decodeWith(lesson, { align: Aligns[kind](parameters), spec: { align: kind, sharpness, window } });
  },
  draw: drawOutput,
  /** The smallest window with which local-p writes the right answer; null if none does. */
  smallest: (lesson) => range(20).map((i) => i + 1)
    .find((window) => chapters.local.compute(lesson, { kind: "predictive", window }).answer === lesson.answer) ?? null,
};

/** Which of the characters written a position may read. */
const masks = {
  strict: ["only earlier characters (j < t)", (t, j) => j < t],
  none: ["all characters (no mask)", () => true],
};

/** The decoder's states attend to each other, and the values are the characters that they write. */
function readOutput(lesson, isAllowed) {
  const { queries, rows, steps } = lesson.full;
  const letters = lesson.model.target;
  const values = steps.map(({ token }) => Float64Array.from(letters, (_, id) => (id === token ? 1 : 0)));
  const mask = queries.map((_, t) => queries.map((__, j) => isAllowed(t, j)));
  const found = attend(queries, queries, values, { score: Scores.scaled(), mask });
  const read = found.contexts.map((context) => (dot(context, context) ? letters[argmax(context)] : "–"));
  const labels = read.map((letter) => (letter === letters[lesson.model.special.end] ? "end" : letter));
  const right = labels.filter((label, t) => label === rows[t]).length;
  return { rows, weights: found.weights, labels, right, lookups: [{ score: "scaled", queries, keys: queries, values, mask, weights: found.weights, contexts: found.contexts }] };
}

const drawReading = (lesson, result) => [
  drawMap({ rows: result.rows, columns: result.rows, weights: result.weights, label: "Weights among the characters written" }),
  make("p", { class: "answer" }, "Found for the positions: ", make("b", {}, result.labels.map(shown).join(" ")), ` — right for ${result.right} of ${result.rows.length}.`),
];

chapters.masks = {
  start: () => ({ mask: "strict" }),
  controls: (lesson, { mask }, change) => [
    choices("Position t may attend to", Object.entries(masks).map(([key, [label]]) => [key, label]), mask, (key) => change({ mask: key })),
  ],
  compute: (lesson, { mask }) => readOutput(lesson, masks[mask][1]),
  draw: drawReading,
};

/** The states of a text and, behind them, those of padding: the text stands in a batch with a longer one. */
const pad = (lesson, count) => {
  const ids = [...lesson.ids, ...range(count).map(() => lesson.model.special.pad)];
  return [...lesson.states, ...lesson.model.encode(ids).slice(lesson.ids.length)];
};
const padded = (lesson, count) => [...lesson.source, ...range(count).map(() => "□")];

chapters.padding = {
  start: () => ({ count: 60, masked: true }),
  controls: (lesson, { count, masked }, change) => [
    slider("Padding □ behind the text", { min: 0, max: 100, value: count }, (value) => change({ count: value }, true)),
    tick("mask the padding", masked, (on) => change({ masked: on })),
  ],
  compute: (lesson, { count, masked }) => {
    const keys = pad(lesson, count);
    const allowed = keys.map((_, i) => !masked || i < lesson.source.length);
    const result = decodeWith(lesson, { keys, first: lesson.states, allowed });
    const ofPadding = result.weights.map((line) => line.slice(lesson.source.length).reduce((sum, weight) => sum + weight, 0));
    const share = ofPadding.reduce((sum, weight) => sum + weight, 0) / ofPadding.length;
    return { ...result, columns: padded(lesson, count), share };
  },
  draw: (lesson, result) => [...drawOutput(lesson, result), make("p", { class: "note" }, `On average □ has ${round(100 * result.share, 0)} % of the weight.`)],
};

/** One head of several: a part of the score's numbers with a softmax of its own, and a part of every value. */
function headParameters({ queryWeight, keyWeight, energy }, head, heads) {
  const [from, to] = part(energy.length, head, heads);
  const cut = (matrix) => ({ rows: matrix.rows, columns: to - from, data: join(...range(matrix.rows).map((i) => row(matrix, i).slice(from, to))) });
  return { queryWeight: cut(queryWeight), keyWeight: cut(keyWeight), energy: scale(energy.slice(from, to), heads) };
}

/** Where the share of one head begins and ends. */
const part = (size, head, heads) => [Math.floor((head * size) / heads), Math.floor(((head + 1) * size) / heads)];

chapters.heads = {
  start: () => ({ heads: 2, off: [] }),
  controls: (lesson, { heads, off }, change) => [
    choices("Heads", [1, 2, 4, 8].map((count) => [String(count), String(count)]), String(heads), (key) => change({ heads: Number(key), off: [] })),
    make("fieldset", { class: "choices" }, make("legend", {}, "Switched on"), ...range(heads).map((head) =>
      tick(`head ${head + 1}`, !off.includes(head), (on) => change({ off: on ? off.filter((other) => other !== head) : [...off, head] })))),
  ],
  compute: (lesson, { heads, off }) => {
    const size = lesson.states[0].length;
    const parts = range(heads).map((head) => ({
      score: Scores.additive(headParameters(lesson.model.additive, head, heads)),
      values: lesson.states.map((state) => state.slice(...part(size, head, heads))),
      weights: [],
      contexts: [],
    }));
    const result = decodeBy(lesson, (query) => {
      const contexts = parts.map(({ score, values, weights, contexts: own }, head) => {
        const found = attend([query], lesson.states, values, { score });
        weights.push(found.weights[0]);
        own.push(found.contexts[0]);
        return off.includes(head) ? scale(found.contexts[0], 0) : found.contexts[0];
      });
      return { weights: parts[0].weights.at(-1), context: join(...contexts) };
    });
    const lookups = parts.map(({ values, weights, contexts }, head) => ({ score: "additive", head, heads, queries: result.queries, keys: lesson.states, values, weights, contexts }));
    return { ...result, lookups };
  },
  draw: (lesson, result, { off }) => [
    make("div", { class: "maps" }, ...result.lookups.map(({ weights }, head) => drawMap({
      rows: result.rows, columns: lesson.source, weights, label: `Head ${head + 1}`,
      caption: `head ${head + 1}${off.includes(head) ? ", switched off" : ""}`,
    }))),
    drawAnswer(result.answer, lesson.answer),
  ],
};

/** The same permutation for the same length: steps of a number that shares no factor with it. */
function shuffle(size) {
  const stride = [7, 5, 3, 2, 1].find((number) => range(size).map((i) => (i * number) % size).every((place, i, all) => all.indexOf(place) === i));
  return range(size).map((i) => (i * stride + 2) % size);
}

chapters.order = {
  start: () => ({ what: "nothing" }),
  controls: (lesson, { what }, change) => [
    choices("Shuffle", [["nothing", "nothing"], ["states", "the states, after the encoder"], ["text", "the text, before the encoder"]], what, (key) => change({ what: key })),
  ],
  compute: (lesson, { what }) => {
    const last = lesson.letters.length;
    const order = { nothing: range(last + 1), states: shuffle(last + 1), text: [...shuffle(last), last] }[what];
    const columns = order.map((i) => lesson.source[i]);
    if (what === "text") {
      const states = lesson.model.encode(order.map((i) => lesson.ids[i]));
      return { ...decodeWith(lesson, { keys: states, first: states }), columns };
    }
    return { ...decodeWith(lesson, { keys: order.map((i) => lesson.states[i]) }), columns };
  },
  draw: drawOutput,
};

/** Ways to say where a character stands. */
const encodings = {
  none: ["nothing", () => new Float64Array(1)],
  share: ["its share of the length", (place, size) => Float64Array.of(place / size)],
  number: ["its number", (place) => Float64Array.of(place)],
  sinusoidal: ["sines and cosines", (place) => sinusoidal(place, 32)],
};

/** Each position looks for the position `offset` further on by the product of their encodings, and reads the character there. */
function readPositions(lesson, { encoding, offset = 0, sharpness = 2 }) {
  const size = lesson.letters.length;
  const encode = encodings[encoding][1];
  const keys = range(size).map((place) => encode(place, size));
  const queries = range(size).map((place) => encode(place + offset, size));
  const letters = [...new Set(lesson.letters)];
  const values = lesson.letters.map((letter) => Float64Array.from(letters, (other) => (other === letter ? 1 : 0)));
  const found = attend(queries, keys, values, { score: Scores.dot(), align: Aligns.soft({ sharpness }) });
  const text = found.contexts.map((context) => letters[argmax(context)]).join(lesson.model.blank);
  return { rows: lesson.letters, weights: found.weights, text, lookups: [{ score: "dot", sharpness, align: "soft", queries, keys, values, weights: found.weights, contexts: found.contexts }] };
}

const drawPositions = (lesson, result) => [
  drawMap({ rows: lesson.letters, columns: lesson.letters, weights: result.weights, label: "Weights of each position" }),
  make("p", { class: "answer" }, "The characters that are returned: ", make("b", {}, result.text)),
];

chapters.positions = {
  start: () => ({ encoding: "sinusoidal", offset: 0 }),
  controls: (lesson, { encoding, offset }, change) => [
    choices("A position is written as", Object.entries(encodings).map(([key, [label]]) => [key, label]), encoding, (key) => change({ encoding: key })),
    slider("Return the character this many places further on", { min: -5, max: 5, value: offset }, (value) => change({ offset: value }, true)),
  ],
  compute: (lesson, state) => readPositions(lesson, state),
  draw: drawPositions,
};

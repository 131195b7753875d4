/* The twelve tasks: six questions about the figures, and six planted bugs.

   A bug is { faulty, lines, run }: the numbers of the lines that count as found (from 1), the lines as
   they should be, and what the code computes, with the bug or without. Its code is in the page. */

/** A dictionary of trained vectors: a character of the source is the key, the same one of the target the value. */
function lookUpDictionary(lesson, isFixed) {
  const { model } = lesson;
  const letters = [...new Set(model.split(lesson.answer))].filter((letter) => model.sourceIds.has(letter));
  const ofSource = letters.map((letter) => model.embed(model.sourceTable, model.sourceIds.get(letter)));
  const ofTarget = letters.map((letter) => model.embed(model.targetTable, model.target.indexOf(letter)));
  const [keys, values] = isFixed ? [ofSource, ofTarget] : [ofTarget, ofSource];
  const found = attend(ofSource, keys, values, { score: Scores.cosine({ sharpness: 30 }) });
  const read = found.contexts.map((context) => letters[argmax(Scores.cosine({ sharpness: 1 })(context, ofTarget))]);
  return { rows: letters, columns: letters, weights: found.weights, says: `Looked up ${letters.join(" ")}, and found ${read.join(" ")}.`, good: read.join("") === letters.join("") };
}

const answered = (lesson, result, columns = lesson.source) =>
  ({ rows: result.rows, columns, weights: result.weights, says: `The output is ${result.answer || "nothing"}.`, good: result.answer === lesson.answer });

const bugs = {
  swapped: {
    faulty: [2, 3],
    lines: { 2: "keys = source_vectors[characters]", 3: "values = target_vectors[characters]" },
    run: lookUpDictionary,
  },
  scale: {
    faulty: [3],
    lines: { 3: "scores = [dot(q, k) / sqrt(len(q)) for k in keys]" },
    run: (lesson, isFixed) => {
      const result = chapters.scores.compute(lesson, { name: isFixed ? "scaled" : "dot" });
      const greatest = result.weights.map((line) => Math.max(...line));
      const mean = greatest.reduce((sum, weight) => sum + weight, 0) / greatest.length;
      return { rows: result.rows, columns: lesson.source, weights: result.weights, says: `The greatest weight of a row is ${round(mean)} on average.`, good: isFixed };
    },
  },
  axis: {
    faulty: [3],
    lines: { 3: "weights = softmax(scores, axis=keys)" },
    run: (lesson, isFixed) => {
      const { queries } = lesson.full;
      const score = Scores.additive(lesson.model.additive);
      const scores = queries.map((query) => score(query, lesson.states));
      const columns = lesson.states.map((_, i) => softmax(Float64Array.from(scores, (line) => line[i])));
      const weights = scores.map((line, t) => (isFixed ? softmax(line) : line.map((_, i) => columns[i][t])));
      const result = decodeBy(lesson, (_, t) => {
        const line = weights[Math.min(t, weights.length - 1)];
        return { weights: line, context: mix(line, lesson.states) };
      });
      const sums = weights.map((line) => line.reduce((sum, weight) => sum + weight, 0));
      return { ...answered(lesson, result), says: `The output is ${result.answer}. The rows add up to ${sums.map((sum) => round(sum)).join(", ")}.` };
    },
  },
  leak: {
    faulty: [4],
    lines: { 4: "allowed = [[j < t for j in steps] for t in steps]" },
    run: (lesson, isFixed) => {
      const result = readOutput(lesson, isFixed ? masks.strict[1] : (t, j) => j <= t);
      return { rows: result.rows, columns: result.rows, weights: result.weights, says: `Found: ${result.right} of the ${result.rows.length} characters that are to be written.`, good: isFixed };
    },
  },
  padding: {
    faulty: [3],
    lines: { 3: "allowed = [i < len(text) for i in range(len(states))]" },
    run: (lesson, isFixed) => {
      const result = chapters.padding.compute(lesson, { count: 60, masked: isFixed });
      const output = answered(lesson, result, result.columns);
      return { ...output, says: `${output.says} On average □ has ${round(100 * result.share, 0)} % of the weight.` };
    },
  },
  shifted: {
    faulty: [2],
    lines: { 2: "queries = [position(t) for t in range(len(text))]" },
    run: (lesson, isFixed) => {
      const result = readPositions(lesson, { encoding: "sinusoidal", offset: isFixed ? 0 : 1 });
      return { rows: lesson.letters, columns: lesson.letters, weights: result.weights, says: `The copy is ${result.text}`, good: result.text === lesson.text };
    },
  },
};

/** Questions: `kind` is number, state (the figure above must show it) or one of options; `check` returns whether and why. */
const questions = {
  bottleneck: {
    kind: "number",
    check: (lesson, number) => {
      const right = chapters.bottleneck.smallest(lesson);
      return [number === right, number === right ? `From ${right} states on the answer stays the same.` : "Not yet: move the slider, and look where the answer turns right and stays right."];
    },
  },
  mixture: {
    kind: "state",
    check: (lesson, { result, state }) => {
      const moved = state.step === 0 && (state.forced !== null || state.cut.length > 0);
      const right = moved && result.answer[0] !== lesson.answer[0];
      return [right, right ? `The mixture decides: now it begins with ${result.answer[0] ?? "nothing"}.` : "Not yet: choose step 1, and give one weight nearly everything. Try several characters."];
    },
  },
  scores: {
    kind: "number",
    check: (lesson, number) => {
      const right = Math.abs(number - 0.881) < 0.006;
      return [right, right ? "14 and 12 differ by 2, and 1 / (1 + exp(-2)) is 0.88; the other key has 0.12." : "Divide both by the root of 64, and put the two results through a softmax: 1 / (1 + exp(second - first))."];
    },
  },
  local: {
    kind: "number",
    check: (lesson, number) => {
      const least = chapters.local.smallest(lesson);
      const right = number === (least ?? 0);
      return [right, right ? (least ? `With W = ${least} the window is wide enough for every step.` : "Right: no window does.") : "Not yet: choose local-p, and move the window from 1 upwards until the answer is right. If no window does, enter 0."];
    },
  },
  heads: {
    kind: "options",
    options: ["head 1", "head 2", "either of them", "neither"],
    check: (lesson, option) => {
      const full = chapters.heads.compute(lesson, { heads: 2, off: [] }).answer;
      const [first, second] = [0, 1].map((head) => chapters.heads.compute(lesson, { heads: 2, off: [head] }).answer === full);
      const right = first && second ? "either of them" : first ? "head 1" : second ? "head 2" : "neither";
      return [option === right, option === right ? "You saw it: the heads do not carry the same." : "Try it: choose 2 heads, switch one off, look at the answer, then the other."];
    },
  },
  order: {
    kind: "options",
    options: ["shuffling the states", "shuffling the text", "both", "neither"],
    check: (lesson, option) => [option === "shuffling the states", option === "shuffling the states"
      ? "A sum has no order. What the model knows of order, the encoder has put into the states." : "Try both above, and compare what the model writes."],
  },
};

const pages = { solved: new Set() };

/** Write whether a task is solved, and how many are. */
function report(element, name, [right, message]) {
  element.className = `verdict ${right ? "right" : "wrong"}`;
  element.textContent = `${right ? "Right." : "Wrong."} ${message}`;
  if (right) pages.solved.add(name);
  document.getElementById("solved").textContent = `${pages.solved.size} of 12 tasks solved`;
}

/** A question below its text, with a field or options and a button. */
function mountQuestion(root, name, getLesson, getFigure) {
  const { kind, options, check } = questions[name];
  const verdict = make("p", { class: "verdict", role: "status" });
  const label = `Answer to task ${root.dataset.number}`;
  const field = kind === "number" ? make("input", { type: "number", step: "any", "aria-label": label }) : null;
  let chosen = null;
  const controls = kind === "options" ? choices(label, options.map((option) => [option, option]), null, (option) => { chosen = option; }) : field;
  root.append(make("form", {
    onsubmit: (event) => {
      event.preventDefault();
      if (!getLesson()) return;
      const value = kind === "number" ? (field.value.trim() === "" ? NaN : Number(field.value)) : kind === "options" ? chosen : getFigure();
      report(verdict, name, check(getLesson(), value));
    },
  }, ...(controls ? [controls, " "] : []), make("button", {}, kind === "state" ? "Check the figure" : "Check")), verdict);
}

/** A planted bug: what its code computes, and the lines to choose from. */
function mountBug(root, name, getLesson) {
  const { faulty, lines, run } = bugs[name];
  const verdict = make("p", { class: "verdict", role: "status" });
  const list = root.querySelector("ol");
  const picture = make("div", { class: "drawn" });
  const codes = [...list.querySelectorAll("code")];
  let isFixed = false;
  const draw = () => {
    const lesson = getLesson();
    if (!lesson) return picture.replaceChildren();
    const result = run(lesson, isFixed);
    picture.replaceChildren(drawMap({ ...result, label: "Weights" }), make("p", { class: `answer ${isFixed ? "same" : "changed"}` }, result.says));
  };
  codes.forEach((code, i) => {
    const input = make("input", { type: "radio", name: `bug-${name}`, value: i + 1 });
    const item = code.parentElement;
    item.append(make("label", {}, input, " ", code));
  });
  const form = make("form", {
    onsubmit: (event) => {
      event.preventDefault();
      const line = Number(new FormData(form).get(`bug-${name}`));
      const right = faulty.includes(line);
      if (right) {
        isFixed = true;
        for (const [number, text] of Object.entries(lines)) {
          codes[number - 1].textContent = text;
          codes[number - 1].classList.add("mended");
        }
        draw();
      }
      report(verdict, name, [right, right ? root.dataset.why : line ? "That line does what it should. Look at the map again: which query attends to which key?" : "Choose a line."]);
    },
  });
  list.replaceWith(form);
  form.append(list, make("button", {}, "This line has the bug"));
  root.insertBefore(picture, form);
  root.append(verdict);
  return draw;
}

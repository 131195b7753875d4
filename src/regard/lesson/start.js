/* The page comes alive: each figure of the text becomes one that computes. */

/** Everything that the chapters share about a text. */
function readText(model, text) {
  const ids = model.encodeText(text);
  const letters = model.split(text);
  const lesson = { model, text: letters.join(model.blank), ids, letters, source: [...letters, "end"], states: model.encode(ids) };
  lesson.full = decodeWith(lesson, {});
  lesson.answer = lesson.full.answer;
  return lesson;
}

/** A figure of a chapter: controls, drawing, and a line that is read aloud. */
function mountFigure(root, chapter, getLesson) {
  const controls = make("div", { class: "controls" });
  const drawn = make("div", { class: "drawn" });
  const said = make("p", { class: "said", role: "status" });
  const figure = { state: chapter.start(), result: null };
  const draw = () => {
    const lesson = getLesson();
    figure.result = lesson && chapter.compute(lesson, figure.state);
    drawn.replaceChildren(...(lesson ? chapter.draw(lesson, figure.result, figure.state) : []));
    said.textContent = drawn.querySelector(".answer")?.textContent ?? "";
  };
  const change = (patch, isSlider = false) => {
    Object.assign(figure.state, patch);
    draw();
    if (!isSlider) return build();
    // other sliders follow, the one that is dragged stays
    const weights = figure.state.forced;
    if (weights) controls.querySelectorAll(".weights .control").forEach((control, i) => {
      if (!control.contains(document.activeElement)) control.set(weights[i]);
    });
  };
  const build = () => {
    const inputs = () => [...controls.querySelectorAll("input, select, button")];
    const place = inputs().indexOf(document.activeElement);
    const lesson = getLesson();
    controls.replaceChildren(...(lesson ? chapter.controls(lesson, figure.state, change, figure.result) : []));
    if (place >= 0) inputs()[place]?.focus();
  };
  root.replaceChildren(controls, drawn, said);
  figure.update = () => { draw(); build(); };
  figure.set = change;
  return figure;
}

const lessonPage = { figures: {}, lesson: null };

function startLesson() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const model = new Model(data);
  const getLesson = () => lessonPage.lesson;
  const field = document.getElementById("text");
  const note = document.getElementById("note");
  for (const root of document.querySelectorAll("[data-figure]")) {
    lessonPage.figures[root.dataset.figure] = mountFigure(root, chapters[root.dataset.figure], getLesson);
  }
  const draws = [...document.querySelectorAll("[data-bug]")].map((root) => mountBug(root, root.dataset.bug, getLesson));
  for (const root of document.querySelectorAll("[data-question]")) {
    mountQuestion(root, root.dataset.question, getLesson, () => lessonPage.figures[root.dataset.question]);
  }
  const read = () => {
    const letters = model.split(field.value);
    const unknown = letters.filter((letter) => !model.sourceIds.has(letter));
    lessonPage.lesson = letters.length ? readText(model, field.value) : null;
    const output = lessonPage.lesson?.answer;
    note.textContent = !letters.length ? "Type a text."
      : `${output || "nothing"}${unknown.length ? ` (the model never saw ${[...new Set(unknown)].join(" ")})` : ""}`;
    for (const figure of Object.values(lessonPage.figures)) {
      Object.assign(figure.state, figure.state.forced === undefined ? {} : { step: 0, forced: null, cut: [] });
      figure.update();
    }
    for (const draw of draws) draw();
  };
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(read, 150);
  });
  document.getElementById("examples").addEventListener("change", (event) => {
    field.value = event.target.value;
    read();
  });
  document.getElementById("bar").hidden = false;
  read();
}

// a browser without these shows the page as it is written: text and pictures
if (Array.prototype.toReversed && Array.prototype.at && "replaceChildren" in document.body) startLesson();
else document.getElementById("old").hidden = false;

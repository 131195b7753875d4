// The page: a request to a run, and its answer.
import { lines, request, runs, secret } from "./client.js";
import { Answer, element } from "./answer.js";
import { Cuts } from "./cuts.js";

const byId = (id) => document.getElementById(id);
const CANDIDATES = 8;
const LONGEST_LINK = 100000; // characters of a request, images and recordings included

const FIELDS = {
  text: [["text", "Text", "textarea", 2]],
  prompt: [["text", "Beginning of the text", "textarea", 3]],
  document: [["text", "Text", "textarea", 6]],
  pair: [["text", "First text", "textarea", 2], ["second", "Second text", "textarea", 2]],
  question: [["question", "Question", "textarea", 1], ["context", "Context", "textarea", 6]],
  image: [["image", "Image", "file", "image/*"]],
  audio: [["audio", "Recording", "file", "audio/*"]],
};
// A kind without a form of its own has a field for each of its inputs.
const fields = () => FIELDS[run.kind]
  || Object.entries(run.inputs).map(([name, kind]) => [name, name[0].toUpperCase() + name.slice(1), ...(kind === "file" ? ["file", "*"] : ["textarea", 3])]);
const NUMBERS = {
  temperature: ["Temperature (empty = greedy)", { min: 0, max: 100, step: "any" }],
  seed: ["Seed", { min: 0, step: 1, value: 1 }],
  tokens: ["Tokens", { min: 1, max: 2000, step: 1, value: 50 }],
};

const KINDS = { gradient: "gradient × input", integrated: "integrated gradients", norms: "norms", rollout: "rollout", effect: "effect of cutting" };

let known = [], run = null, pending = null, again = null;
// What a link to cuts of the present output stores beside them; null where there is no link.
let stored = null;
const answer = new Answer((place, choice) => change(place, choice));

const report = (text, bad = false) => {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", bad);
};

const can = (operation) => run.operations.includes(operation);

// The chosen kinds of maps: none for the run's own; or the weights, where there are any, and others.
const ticked = () => [...byId("kinds").querySelectorAll("input:checked")].map((each) => each.value);
const kinds = () => (ticked().length ? { kinds: [...run.kinds.filter((each) => each === "weights"), ...ticked()] } : {});

const showKinds = () => {
  const seen = can("attention") || can("stream"), others = seen ? (run.kinds || []).filter((each) => each in KINDS) : [], former = ticked();
  const box = (each) => element("label", {}, element("input", { type: "checkbox", value: each, checked: former.includes(each), onchange: () => again && again() }), ` ${KINDS[each]}`);
  byId("kinds").hidden = others.length === 0;
  byId("kinds").replaceChildren(element("span", {}, "Also compute:"), ...others.map(box));
};

// `size` is the rows of a text, or the types of a file.
const field = ([name, label, kind, size]) => {
  const attributes = kind === "file" ? { type: "file", accept: size } : { rows: size, dir: "auto", spellcheck: false };
  const input = element(kind === "file" ? "input" : kind, { id: name, required: kind === "file", ...attributes });
  return element("label", { className: "field" }, element("span", {}, label), input);
};

const number = (name) => {
  const [label, attributes] = NUMBERS[name];
  return element("label", {}, `${label} `, element("input", { id: `write-${name}`, type: "number", ...attributes }));
};

const choose = (name) => {
  stop();
  const kept = Object.fromEntries([...byId("fields").querySelectorAll("textarea")].map((each) => [each.id, each.value]));
  run = known.find((each) => each.name === name);
  byId("about").textContent = [run.task, run.model, ...(run.classes ? [`${run.classes.length} classes`] : [])].join(" · ");
  byId("does").textContent = `${run.does} Type or choose an input and press Predict${can("attention") || can("stream") ? "; below the output you see what the model attends to" : ""}.`;
  byId("does").hidden = !run.does;
  byId("fields").replaceChildren(...fields().map(field));
  for (const each of byId("fields").querySelectorAll("textarea")) each.value = kept[each.id] || "";
  byId("choices").replaceChildren(...["temperature", "seed", ...(run.kind === "prompt" ? ["tokens"] : [])].map(number));
  byId("settings").hidden = !can("stream");
  byId("write-temperature").value = run.temperature ?? "";
  byId("others").hidden = true;
  byId("list").replaceChildren();
  again = null;
  showExample();
  showKinds();
  answer.clear();
  cuts.end();
  cuts.base = null;
  report("");
};

// An example to click, the first that the run was trained on: its texts, its image or its recording.
const showExample = () => {
  const found = run.example || {}, hidden = !Object.keys(found).length || fields().some(([name]) => !(name in found));
  const file = fields().find(([name]) => run.inputs[name] === "file"), shown = fields().filter(([name]) => run.inputs[name] === "text");
  const [audio, what] = file && file[0] === "audio" ? [found.audio, "recording"] : [null, "image"], text = file ? `the first training ${what}` : shown.map(([name]) => found[name]).join("  |  ");
  const inside = file && !hidden && !audio ? element("img", { src: `data:image/png;base64,${found[file[0]]}`, alt: text }) : element("bdi", {}, text);
  const played = audio ? [element("audio", { controls: true, src: `data:audio/wav;base64,${audio}` })] : [];
  byId("example").hidden = hidden;
  byId("example").replaceChildren(...(hidden ? [] : ["Examples: ", element("button", { id: "try", type: "button", title: text, onclick: useExample }, inside), ...played]));
};

const useExample = () => {
  for (const [name, text] of Object.entries(run.example)) {
    if (run.inputs[name] === "file") byId(name).files = fileOf(text);
    else byId(name).value = text;
  }
  byId("request").requestSubmit();
};

const fileOf = (content) => {
  const chosen = new DataTransfer();
  chosen.items.add(new File([Uint8Array.from(atob(content), (each) => each.charCodeAt(0))], "example"));
  return chosen.files;
};

const base64 = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

const example = async () => {
  const values = fields().map(async ([name, , kind]) => {
    if (kind !== "file") return [name, run.inputs[name] === "json" ? JSON.parse(byId(name).value) : byId(name).value];
    const [file] = byId(name).files;
    if (!file) throw new Error(`There is no ${name}; choose one.`);
    return [name, await base64(file)];
  });
  return Object.fromEntries(await Promise.all(values));
};

const sampling = () => {
  const found = {};
  for (const name of ["temperature", "seed", "tokens"]) {
    const input = byId(`write-${name}`);
    if (input && input.value !== "" && (name !== "seed" || found.temperature !== undefined)) found[name] = Number(input.value);
  }
  return found;
};

const score = (value) => (value === null ? "-∞" : Math.abs(value) < 0.005 ? value.toExponential(1) : value.toFixed(2));

const stop = () => {
  if (pending) pending.abort();
};

// Runs one request at a time.
const during = async (what, work) => {
  stop();
  const mine = new AbortController();
  pending = mine;
  byId("stop").hidden = false;
  report(what);
  try {
    report(await work(mine.signal));
  } catch (error) {
    if (mine.signal.aborted) {
      if (pending === mine) report("Stopped.");
    } else report(error.message, true);
  }
  if (pending === mine) {
    pending = null;
    byId("stop").hidden = true;
  }
};

// Offer cuts of the output in the view, and return what those that it has change. A link stores the request and the output.
const offerCuts = async (asked, output, base, signal, link = null, search = "") => {
  stored = run.cuts && answer.view ? { run: run.name, ...asked, output } : null;
  if (!stored) return cuts.end();
  const cut = cuts.begin(base, answer.view, link && link.cuts, search);
  keep();
  if (!cut) return null;
  const changed = link && link.output !== output ? " The output is not the one of the link, so its cuts may concern something else." : "";
  return cuts.compare(await request(run.name, "attention", cut, signal)) + changed;
};

const streamBody = async (chosen = {}) => ({ ...await example(), ...sampling(), candidates: CANDIDATES, ...chosen });

// Unless it continues a prompt an answer ends with the whole view, its breakdown included.
// A `link` has cuts for the answer, and the text that it had.
const stream = (makeBody, before = [], link = null) => during("Generating ...", async (signal) => {
  const body = await makeBody();
  again = () => stream(() => body, before);
  byId("list").replaceChildren();
  answer.clear(before);
  cuts.end();
  for await (const event of lines(run.name, "stream", { ...body, ...kinds(), view: run.kind !== "prompt" || run.cuts || ticked().length > 0 }, signal)) {
    if (event.event === "start") {
      answer.begin(event.forced, run.end);
      await answer.mount(event.view);
    } else if (event.event === "token") answer.add(event, run.kind === "prompt");
    else {
      answer.end();
      answer.warn(event.warnings);
      if (event.view) await answer.mount(event.view);
      byId("others").hidden = false;
      const { candidates: _, ...asked } = body;
      const inputs = Object.fromEntries(fields().map(([name]) => [name, body[name]]));
      const base = { ...inputs, target_tokens: answer.tokens.map((each) => each.token), forced: answer.forced, ...(run.kind === "prompt" ? {} : { beam: 1 }) };
      const cut = event.view && await offerCuts({ request: JSON.stringify(asked) }, event.text, base, signal, link, "greedy");
      if (cut) return cut;
      return `${answer.tokens.length} tokens, log-probability ${score(event.score)}${event.finished ? "" : "; stopped at the length limit"}.`;
    }
  }
  throw new Error("the connection was lost");
});

// At least one token follows the one that is chosen in the last place.
const change = (place, { token, prefix }) => {
  const before = answer.tokens, { tokens } = sampling();
  if (prefix !== undefined) return stream(() => streamBody({ prefix }), before);
  const prefix_tokens = [...before.slice(0, place).map((each) => each.token), token];
  const most = tokens ? { tokens: Math.max(tokens, prefix_tokens.length + 1) } : {};
  return stream(() => streamBody({ prefix_tokens, ...most }), before);
};

const classes = (probabilities) => element("div", { className: "classes", role: "list" }, ...Object.entries(probabilities).slice(0, 10).flatMap(([label, value]) => [
  element("bdi", {}, label), element("meter", { min: 0, max: 1, value, ariaLabel: label }), element("span", {}, value.toFixed(3)),
]));

const spanned = (found, context) => {
  if (found.text === "") return ["(no answer in this context)"];
  return [context.slice(0, found.start), element("mark", {}, found.text), context.slice(found.end)];
};

// A text whose spans are marked, each with its label behind it. Places count characters, as Python does.
const tagged = (spans, text) => {
  const characters = [...text], parts = [];
  let last = 0;
  for (const { start, end, label, text: words } of spans) {
    parts.push(characters.slice(last, start).join(""), element("mark", {}, words, element("small", {}, ` ${label}`)));
    last = end;
  }
  return [...parts, characters.slice(last).join("")];
};

// A prediction that is not streamed; one without a text of its own as its values.
const plain = ({ view, warnings, ...found }) => found.text ?? found.prediction ?? JSON.stringify(found);
const content = (found, body) => (found.spans ? tagged(found.spans, body.text) : found.probabilities ? [classes(found.probabilities)] : run.kind === "question" ? spanned(found, body.context) : [plain(found)]);

const show = async (parts, view, warnings) => {
  answer.clear();
  answer.begin(0);
  byId("plain").replaceChildren(...parts);
  answer.warn(warnings);
  byId("plain").setAttribute("aria-busy", "false");
  await answer.mount(view);
};

const predict = (makeBody = example, link = null) => during("Predicting ...", async (signal) => {
  again = () => predict();
  const body = await makeBody(), seen = can("attention") ? ["attention", { ...body, ...kinds() }] : ["predict", body];
  const found = await request(run.name, ...seen, signal);
  await show(content(found, body), found.view || null, found.warnings);
  const cut = await offerCuts({ request: JSON.stringify(body) }, found.label ?? plain(found), body, signal, link);
  return cut ?? (found.label ? `${found.label}.` : "Done.");
});

// A prompt has the same limit of tokens as its stream.
const search = () => during("Searching ...", async (signal) => {
  const beam = Number(byId("width").value), body = await example(), { tokens } = sampling();
  const more = { text: { attention: false }, prompt: tokens ? { tokens } : {} }[run.kind];
  const { alternatives, ...best } = await request(run.name, "predict", { ...body, beam, n_best: beam, ...more }, signal);
  const button = (each) => element("button", { type: "button", ariaPressed: "false", onclick: (event) => attribute(event.currentTarget, body, each) },
    element("bdi", {}, each.text || "(nothing)"), " ", element("small", {}, score(each.score)));
  const texts = [best, ...alternatives].filter((each, place, all) => all.findIndex(({ text }) => text.trim() === each.text.trim()) === place);
  byId("list").replaceChildren(...texts.map((each) => element("li", {}, button(each))));
  const fewer = texts.length < beam ? `; the beam of ${beam} has no other text` : "";
  return `${texts.length} ${texts.length === 1 ? "hypothesis" : "hypotheses"}, best first (log-probability)${fewer}.`;
});

const attribute = (button, body, { text: target, finished }, link = null) => during("Predicting ...", async (signal) => {
  again = () => attribute(button, body, { text: target, finished });
  for (const each of byId("list").querySelectorAll("button")) each.ariaPressed = String(each === button);
  if (!can("attention")) return "This model has no attention to display.";
  const forced = { ...body, target, finished }, view = await request(run.name, "attention", { ...forced, ...kinds() }, signal);
  if (link) await show([target], view);
  else await answer.mount(view);
  const search = run.kind === "prompt" ? "greedy" : run.temperature ? "sampled" : run.beam > 1 ? `beam of ${run.beam}` : "greedy";
  const cut = await offerCuts({ request: JSON.stringify(body), finished }, target, forced, signal, link, search);
  return cut ?? "Attention of the alternative.";
});

const cutAgain = (body) => during("Predicting with the cuts ...", async (signal) => {
  keep();
  return body ? cuts.compare(await request(run.name, "attention", body, signal)) : "All cuts are undone.";
});

const fragment = (list) => (stored && list.length && stored.request.length <= LONGEST_LINK ? String(new URLSearchParams({ ...stored, cuts: JSON.stringify(list) })) : "");
const cuts = new Cuts(cutAgain, fragment);

// Keep the cuts in the address, which has the secret too, as the link of the page has not.
const keep = () => history.replaceState(null, "", `#${[secret === null ? "" : `token=${encodeURIComponent(secret)}`, fragment(cuts.list)].filter((each) => each).join("&")}`);

// Predict again what a link stores, with its cuts.
const open = () => {
  const link = new URLSearchParams(location.hash.slice(1));
  if (!link.has("cuts")) return;
  try {
    const body = JSON.parse(link.get("request")), list = JSON.parse(link.get("cuts"));
    if (!known.some(({ name }) => name === link.get("run"))) throw new Error(`this server has no run ${link.get("run")}`);
    byId("run").value = link.get("run");
    choose(byId("run").value);
    for (const [name, , kind] of fields()) Object.assign(byId(name), kind === "file" ? { files: fileOf(body[name]) } : { value: body[name] });
    const stores = { cuts: list, output: link.get("output") };
    if (link.has("finished")) attribute(null, body, { text: stores.output, finished: link.get("finished") === "true" }, stores);
    else if (can("stream")) stream(() => ({ ...body, candidates: CANDIDATES }), [], stores);
    else predict(() => body, stores);
  } catch (error) {
    report(`The link cannot be opened: ${error.message}`, true);
  }
};

byId("request").addEventListener("submit", (event) => {
  event.preventDefault();
  return can("stream") ? stream(() => streamBody()) : predict();
});
byId("request").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "TEXTAREA" && (event.ctrlKey || event.metaKey || (run.kind === "text" && !event.shiftKey))) {
    event.preventDefault();
    byId("request").requestSubmit();
  }
});
byId("stop").addEventListener("click", stop);
addEventListener("hashchange", open);
byId("search").addEventListener("click", search);
byId("run").addEventListener("change", () => choose(byId("run").value));
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && byId("editor").hidden) stop(); });

try {
  known = (await runs()).runs;
  byId("run").replaceChildren(...known.map(({ name }) => element("option", { value: name }, name)));
  choose(known[0].name);
  open();
} catch (error) {
  report(error.message, true);
}

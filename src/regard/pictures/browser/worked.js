// One lookup worked out: scores, softmax, and what each value has of what is read.
regard.worked = (() => {
  const { element, number, colour, css } = regard.page, SHOWN = 8;

  const vector = ({ numbers, step, width }, heads, [layer, head], place, count) => {
    const first = ((layer * heads + head) * count + place) * width;
    return Float32Array.from(numbers.subarray(first, first + width), (each) => each * step);
  };
  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);

  // A line for each key: its score, scaled, its weight, and its share of the read: of c = sum of w v, w v . c / c . c.
  const lookup = (vectors, at, target, targets, sources) => {
    const { heads, query, key, value, scale, allowed } = vectors, places = [...Array(sources).keys()];
    const q = vector(query, heads, at, target, targets);
    const keys = places.map((s) => vector(key, heads, at, s, sources)), values = places.map((s) => vector(value, heads, at, s, sources));
    const scores = keys.map((k) => dot(q, k)), open = places.filter((s) => !allowed || allowed[target * sources + s]);
    const most = Math.max(...open.map((s) => scores[s] * scale)), sum = open.reduce((all, s) => all + Math.exp(scores[s] * scale - most), 0);
    const weights = new Float32Array(sources);
    open.forEach((s) => { weights[s] = Math.exp(scores[s] * scale - most) / sum; });
    const read = new Float32Array(value.width);
    open.forEach((s) => values[s].forEach((each, i) => { read[i] += weights[s] * each; }));
    const length = dot(read, read) || 1;
    const lines = open.map((s) => ({
      source: s, score: scores[s], scaled: scores[s] * scale, weight: weights[s],
      value: Math.sqrt(dot(values[s], values[s])), share: (weights[s] * dot(values[s], read)) / length,
    }));
    return { q, keys, lines };
  };

  const strip = (name, numbers, most) => {
    const cells = Array.from(numbers, (each) => {
      const cell = element("i", { title: number(each) });
      cell.style.background = css(colour(each / (most || 1)));
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", { className: "regard-strip" }, ...cells));
  };

  const strips = (q, k) => {
    const product = q.map((each, i) => each * k[i]), most = (numbers) => numbers.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const both = Math.max(most(q), most(k));
    return element("table", { className: "regard-strips" }, strip("query q", q, both), strip("key k", k, both), strip("q × k", product, most(product)));
  };

  const show = (panel, target, source) => {
    const { lookup: one, map, table } = panel, { layer, head } = panel.choice;
    const at = [layer ?? (map.layers.length === 1 ? 0 : null), head ?? (map.heads === 1 ? 0 : null)];
    if (at.includes(null) || panel.choice.words) return [element("p", {}, "Choose one layer and one head, and no words, to work a lookup out.")];
    const { q, keys, lines } = lookup(one.vectors, at, target, one.target.length, one.source.length);
    const first = [...lines].sort((a, b) => b.weight - a.weight).slice(0, SHOWN);
    const picked = lines.find((each) => each.source === source);
    if (picked && !first.includes(picked)) first.push(picked);
    const names = ["source", "q · k", `× ${number(one.vectors.scale)}`, "softmax", "|value|", "share of the read"];
    const row = (each) => element("tr", { className: each === picked ? "regard-on" : "" }, element("th", { scope: "row", dir: "auto" }, table.source[each.source]),
      ...[each.score, each.scaled, each.weight, each.value, each.share].map((value) => element("td", {}, number(value))));
    const body = element("tbody", {}, ...first.map(row));
    const rest = lines.length - first.length, left = lines.reduce((sum, each) => sum + (first.includes(each) ? 0 : each.weight), 0);
    const heading = element("h2", {}, "What ", element("bdi", {}, table.target[target]), ` reads in ${map.layers[at[0]]}, head ${at[1]}`);
    const parts = [heading];
    if (picked) parts.push(strips(q, keys[source]));
    parts.push(element("table", { className: "regard-numbers" }, element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))), body));
    if (rest > 0) parts.push(element("p", { className: "regard-key" }, `and ${rest} more, which share a weight of ${number(left)}`));
    return parts;
  };

  return { show, lookup };
})();

// The breakdown of one lookup: scores, weights, the share of each value in the mixture, and the terms of one score.
regard.breakdown = (() => {
  const { element, number, colour, css } = regard.page, SHOWN = 8, TERMS = 5, STRIP = 96;

  const vector = ({ numbers, step, width }, heads, [layer, head], place, count) => {
    const first = ((layer * heads + head) * count + place) * width;
    return Float32Array.from(numbers.subarray(first, first + width), (each) => each * step);
  };
  const total = (numbers) => numbers.reduce((sum, each) => sum + each, 0);
  const dot = (a, b) => a.reduce((sum, each, i) => sum + each * b[i], 0);

  // The terms of a score: q_i k_i, or with an energy v, v_i tanh(q_i + k_i).
  const termsOf = ({ q, k, v }) => q.map((each, i) => (v ? v[i] * Math.tanh(each + k[i]) : each * k[i]));
  const names = ({ energy, query }) => (energy ? ["v · tanh(q + k)", "v × tanh(q + k)"] : query ? ["q · k", "q × k"] : ["score"]);

  // The query and key of one score, if they were recorded.
  const sides = ({ heads, query, key, energy }, at, [target, targets], [source, sources]) => query && {
    q: vector(query, heads, at, target, targets), k: vector(key, heads, at, source, sources), v: energy && vector(energy, heads, at, 0, 1),
  };

  const softmax = (scores, open) => {
    const most = Math.max(...open.map((s) => scores[s])), found = new Float32Array(scores.length);
    const sum = open.reduce((all, s) => all + Math.exp(scores[s] - most), 0);
    open.forEach((s) => { found[s] = Math.exp(scores[s] - most) / sum; });
    return found;
  };

  // One line per key: its score, the scaled score, its weight, and its share of the context c = sum of w v: w v . c / c . c.
  // If the weights are no softmax of the scores, they are the recorded ones.
  const lookup = (breakdown, at, target, targets, sources, recorded) => {
    const { heads, value, scale, allowed } = breakdown, places = [...Array(sources).keys()];
    const open = places.filter((s) => !allowed || allowed[target * sources + s]), values = places.map((s) => vector(value, heads, at, s, sources));
    const sum = (s) => total(termsOf(sides(breakdown, at, [target, targets], [s, sources])));
    const scores = breakdown.query ? Float32Array.from(places, sum) : vector(breakdown.plain, heads, at, target, targets);
    const weights = breakdown.softmax ? softmax(scores.map((each) => each * scale), open) : recorded;
    const read = new Float32Array(value.width);
    open.forEach((s) => values[s].forEach((each, i) => { read[i] += weights[s] * each; }));
    const length = dot(read, read) || 1;
    return open.map((s) => {
      const size = Math.sqrt(dot(values[s], values[s]));
      const share = (weights[s] * dot(values[s], read)) / length;
      return { source: s, score: scores[s], scaled: scores[s] * scale, weight: weights[s], value: size, written: weights[s] * size, share };
    });
  };

  const row = (name, numbers, className = "") => element("tr", { className }, element("th", { scope: "row", dir: "auto" }, name), ...numbers.map((each) => element("td", {}, number(each))));
  const head = (columns) => element("thead", {}, element("tr", {}, ...columns.map((name) => element("th", { scope: "col" }, name))));

  const strip = (name, numbers, most) => {
    const cells = Array.from(numbers, (each) => {
      const cell = element("i", { title: number(each) });
      cell.style.background = css(colour(each / (most || 1)));
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, name), element("td", { className: "regard-strip" }, ...cells));
  };

  // One score as a sum: query and key as strips (of many dimensions the largest terms), and the largest terms as numbers.
  const summed = ({ q, k, v }, product) => {
    const terms = termsOf({ q, k, v }), order = [...terms.keys()].sort((a, b) => Math.abs(terms[b]) - Math.abs(terms[a]) || a - b);
    const seen = terms.length > STRIP ? order.slice(0, STRIP) : [...terms.keys()], most = (...all) => Math.max(...all.flatMap((numbers) => seen.map((i) => Math.abs(numbers[i]))));
    const lines = [["query q", q, most(q, k)], ["key k", k, most(q, k)], ...(v ? [["energy v", v, most(v)]] : []), [product, terms, most(terms)]];
    const first = order.slice(0, TERMS), rest = total(terms) - total(first.map((i) => terms[i]));
    const body = first.map((i) => row(`${i + 1}`, [q, k, ...(v ? [v] : []), terms].map((numbers) => numbers[i])));
    const last = (name, value) => element("tr", {}, element("th", { scope: "row" }, name), ...[...Array(v ? 3 : 2)].map(() => element("td")), element("td", {}, number(value)));
    if (order.length > TERMS) body.push(last(`${order.length - TERMS} more`, rest));
    body.push(last("sum", total(terms)));
    const left = terms.length > STRIP ? element("p", { className: "regard-key" }, `The ${STRIP} of ${terms.length} dimensions that give most, first the greatest.`) : null;
    const columns = ["dimension", "q", "k", ...(v ? ["v"] : []), product];
    return [element("table", { className: "regard-strips" }, ...lines.map(([name, numbers, most]) => strip(name, seen.map((i) => numbers[i]), most))), ...(left ? [left] : []),
      element("table", { className: "regard-terms" }, head(columns), element("tbody", {}, ...body))];
  };

  const show = (panel, target, source) => {
    const { lookup: one, map, table } = panel, { layer, head: chosen } = panel.choice, { breakdown } = one;
    if (!breakdown) return [element("p", {}, one.noBreakdown)];
    const at = [layer ?? (map.layers.length === 1 ? 0 : null), chosen ?? (map.heads === 1 ? 0 : null)];
    if (at.includes(null) || panel.choice.words) return [element("p", {}, "Choose one layer and one head, without whole words, to see the computation.")];
    const [targets, sources] = [one.target.length, one.source.length], [name, product] = names(breakdown), scaled = breakdown.scale !== 1;
    const lines = lookup(breakdown, at, target, targets, sources, map.row(...at, target));
    const first = [...lines].sort((a, b) => b.weight - a.weight).slice(0, SHOWN), picked = lines.find((each) => each.source === source);
    if (picked && !first.includes(picked)) first.push(picked);
    const columns = ["source", name, ...(scaled ? [`× ${number(breakdown.scale)}`] : []), breakdown.softmax ? "softmax" : "weight", "|value|", "|weight × value|", "contribution to the output"];
    const cells = ({ score, scaled: times, weight, value, written, share }) => [score, ...(scaled ? [times] : []), weight, value, written, share];
    const body = element("tbody", {}, ...first.map((each) => row(table.source[each.source], cells(each), each === picked ? "regard-on" : "")));
    const rest = lines.length - first.length, left = lines.reduce((sum, each) => sum + (first.includes(each) ? 0 : each.weight), 0);
    const label = (text) => element("bdi", {}, text);
    const parts = [element("h2", {}, "Attention of ", label(table.target[target]), `, ${map.layers[at[0]]}, head ${at[1]}`),
      element("table", { className: "regard-numbers" }, head(columns), body)];
    if (rest > 0) parts.push(element("p", { className: "regard-key" }, `${rest} more keys, total weight ${number(left)}`));
    const both = picked && sides(breakdown, at, [target, targets], [source, sources]);
    if (both) parts.push(element("h2", {}, "How ", label(table.source[source]), ` gets its ${name}`), ...summed(both, product));
    return parts;
  };

  return { show, lookup };
})();

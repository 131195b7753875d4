// Lookups from Python: unpacked once; averaged and joined to words on demand.
regard.data = (() => {
  const unpacked = async (text) => {
    const packed = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).arrayBuffer();
  };

  const mean = (rows) => {
    const sum = new Float32Array(Math.max(0, ...rows.map((row) => row.length)));
    for (const row of rows) for (let i = 0; i < row.length; i++) sum[i] += row[i];
    return sum.map((each) => each / rows.length);
  };

  // One map with its layers and heads; a null layer or head means the mean over all. It may have its own labels.
  class Weights {
    constructor({ name, scale, signed, amounts, source = null, target = null, verbs = null, ...about }, buffer, shape) {
      Object.assign(this, { name, scale, signed, amounts: Boolean(amounts), source, target, verbs, ...shape, more: [], kept: new Map() });
      this.levels = about.levels && Float32Array.from(about.levels);
      this.codes = this.levels ? new Uint8Array(buffer) : new Float32Array(buffer);
    }

    row(layer, head, target) {
      if (target >= this.targets) return Float32Array.from(this.more[target - this.targets][layer][head]);
      const first = ((layer * this.heads + head) * this.targets + target) * this.sources;
      const codes = this.codes.subarray(first, first + this.sources);
      if (!this.levels) return codes;
      const found = new Float32Array(this.sources);
      for (let s = 0; s < found.length; s++) found[s] = this.levels[codes[s]];
      return found;
    }

    // The row of one target; a null layer or head means the mean over all.
    mean(layer, head, target) {
      const layers = layer === null ? [...this.layers.keys()] : [layer];
      const heads = head === null ? [...Array(this.heads).keys()] : [head];
      if (layers.length * heads.length === 1) return this.row(layers[0], heads[0], target);
      if (target >= this.targets) return mean(layers.flatMap((one) => heads.map((other) => this.row(one, other, target))));
      return this.meanOfPacked(layers, heads, target);
    }

    // The same without a row per layer and head, because with many of them this delays the first display.
    meanOfPacked(layers, heads, target) {
      const found = new Float32Array(this.sources), { codes, levels } = this, share = 1 / (layers.length * heads.length);
      for (const layer of layers) {
        for (const head of heads) {
          const first = ((layer * this.heads + head) * this.targets + target) * this.sources;
          if (levels) for (let s = 0; s < found.length; s++) found[s] += levels[codes[first + s]] * share;
          else for (let s = 0; s < found.length; s++) found[s] += codes[first + s] * share;
        }
      }
      return found;
    }

    rows(layer, head) {
      const key = `${layer} ${head}`;
      if (!this.kept.has(key)) this.kept.set(key, []);
      const found = this.kept.get(key);
      for (let target = found.length; target < this.targets + this.more.length; target++) {
        found.push(this.mean(layer, head, target));
      }
      return found;
    }

    append(weights) {
      this.more.push(weights);
    }
  }

  // Sum over the source labels of a word, mean over its target labels.
  const joined = (rows, source, target) => {
    const across = rows.map((row) => {
      const found = new Float32Array(source.labels.length);
      row.forEach((weight, place) => { found[source.index[place]] += weight; });
      return found;
    });
    return target.labels.map((_, word) => mean(across.filter((_, place) => target.index[place] === word)));
  };

  const same = (some, others) => some.length === others.length && some.every((label, i) => label === others[i]);
  const alone = (labels) => ({ index: labels.map((_, place) => place), labels });

  class Lookups {
    constructor(about, maps, breakdown, pixels, images) {
      const { name, source, target, sourceWords, targetWords, sentences, notes, patches, recording, verbs, noBreakdown } = about;
      Object.assign(this, { name, recording, source: [...source], target: [...target], sentences, patches, maps, breakdown, noBreakdown, pixels, images });
      this.shown = Math.max(0, maps.findIndex((each) => each.name === about.first));
      this.notes = notes ? [...notes] : [];
      this.verbs = verbs || ["attends to", "is attended to"];
      this.words = sourceWords || targetWords ? { source: sourceWords, target: targetWords } : null;
    }

    // The labels of a map: its own, or those of the lookups.
    labels(map) {
      return { source: map.source || this.source, target: map.target || this.target };
    }

    // The words of a side of a map, if they are chosen and there are any.
    wordsOf({ map, words }, side) {
      return words && this.words && !this.maps[map][side] ? this.words[side] : null;
    }

    // The chosen matrix with its labels.
    table(choice) {
      const { map, layer, head } = choice, weights = this.maps[map], rows = weights.rows(layer, head), { source, target } = this.labels(weights);
      const { name, scale, signed, amounts } = weights, about = { name, scale, signed, amounts, notes: weights.target ? [] : this.notes };
      const across = this.wordsOf(choice, "source"), down = this.wordsOf(choice, "target"), sentences = weights.source ? null : this.sentences;
      if (!across && !down) return { source, target, rows, ...about, sentences, within: same(source, target) };
      const [read, reads] = [across || alone(source), down || alone(target)];
      const first = sentences && read.labels.map((_, word) => sentences[read.index.indexOf(word)]);
      const found = { source: read.labels, target: reads.labels, rows: joined(rows, read, reads), ...about, sentences: first };
      const most = amounts ? found.rows.reduce((sum, row) => row.reduce((one, each) => Math.max(one, each), sum), scale) : scale;
      return { ...found, scale: most, within: same(found.source, found.target) };
    }

    // row: { target, weights: [layer][head][source] }, optionally source (a new source label), note and
    // others: { name: weights }.
    append({ target, weights, source, note, others = {} }) {
      const add = (side, label) => {
        this[side].push(label);
        const words = this.words && this.words[side];
        if (words) words.index.push(words.labels.push(label) - 1);
      };
      if (source !== undefined) add("source", source);
      add("target", target);
      if (note !== undefined) this.notes[this.target.length - 1] = note;
      for (const map of this.maps) map.append(map === this.maps[0] ? weights : others[map.name]);
    }
  }

  const breakdownOf = async (about, heads) => {
    if (!about) return null;
    const { scale, softmax, allowed } = about, numbers = async ([name, { step, width, data }]) => [name, { step, width, numbers: new Int16Array(await unpacked(data)) }];
    const named = Object.fromEntries(await Promise.all(Object.entries(about.numbers).map(numbers)));
    return { scale, softmax, heads, allowed: allowed && new Uint8Array(await unpacked(allowed)), ...named };
  };

  const lookups = async (about) => {
    const shape = ({ layers, heads, source, target }) => ({ layers, heads, targets: target.length, sources: source.length });
    const maps = await Promise.all(about.maps.map(async (each) => new Weights(each, await unpacked(each.data), shape({ ...about, ...each }))));
    const pixels = about.patches ? new Uint8Array(await unpacked(about.patches.data)) : null;
    const images = about.images ? { ...about.images, pixels: new Uint8Array(await unpacked(about.images.data)) } : null;
    return new Lookups(about, maps, await breakdownOf(about.breakdown, about.heads), pixels, images);
  };

  // The index of the same label among others; repeated labels match by their order.
  const counterpart = (place, labels, others) => {
    if (place === null) return null;
    const before = labels.slice(0, place).filter((each) => each === labels[place]).length;
    return [...others.keys()].filter((other) => others[other] === labels[place])[before] ?? null;
  };

  // Whether the source labels of a map are the patches of an image, whose names say less than their places.
  const onPatches = (lookup, map) => Boolean(lookup.patches) && !map.source;

  return { lookups, mean, counterpart, onPatches };
})();

/* The trained model and its attention in plain JavaScript, in double precision.

   A vector is a Float64Array, a matrix is { rows, columns, data } with its rows one after
   another, and a list of states is an array of vectors. Nothing here touches the page. */

const dot = (x, y) => {
  let sum = 0;
  for (let i = 0; i < x.length; i++) sum += x[i] * y[i];
  return sum;
};
const add = (x, y) => x.map((number, i) => number + y[i]);
const scale = (x, factor) => x.map((number) => number * factor);
const join = (...parts) => Float64Array.from(parts.flatMap((part) => [...part]));
const range = (count) => Array.from({ length: count }, (_, i) => i);
const argmax = (x) => x.reduce((best, number, i) => (number > x[best] ? i : best), 0);
const sigmoid = (number) => 1 / (1 + Math.exp(-number));
const tanh = (x) => x.map(Math.tanh);

const row = (matrix, i) => matrix.data.subarray(i * matrix.columns, (i + 1) * matrix.columns);

/** matrix x, as in a linear layer of PyTorch: one dot product for each row. */
function multiply(matrix, x) {
  const result = new Float64Array(matrix.rows);
  for (let i = 0; i < matrix.rows; i++) result[i] = dot(row(matrix, i), x);
  return result;
}

/** x matrix: the rows of the matrix, weighted by x. */
const project = (x, matrix) => mix(x, range(matrix.rows).map((i) => row(matrix, i)));

/** sum_i a_i v_i: the mixture of values, and the whole of what attention returns. */
function mix(weights, values) {
  const sum = new Float64Array(values[0].length);
  for (let i = 0; i < weights.length; i++) {
    const value = values[i];
    for (let d = 0; d < sum.length; d++) sum[d] += weights[i] * value[d];
  }
  return sum;
}

/** exp(e_i) / sum_j exp(e_j) over the allowed keys; zeros where none is allowed. */
function softmax(scores, allowed = null) {
  const inside = scores.map((score, i) => (allowed === null || allowed[i] ? score : -Infinity));
  const greatest = Math.max(...inside);
  if (greatest === -Infinity) return scores.map(() => 0);
  const powers = inside.map((score) => Math.exp(score - greatest));
  return scale(powers, 1 / powers.reduce((sum, power) => sum + power, 0));
}

const logSoftmax = (scores) => {
  const greatest = Math.max(...scores);
  const sum = scores.reduce((total, score) => total + Math.exp(score - greatest), 0);
  return scores.map((score) => score - greatest - Math.log(sum));
};

/** Scores: each turns a query and a list of keys into a number for each key. */
const Scores = {
  dot: () => (query, keys) => Float64Array.from(keys, (key) => dot(query, key)),
  scaled: () => (query, keys) => scale(Scores.dot()(query, keys), 1 / Math.sqrt(query.length)),
  cosine: ({ sharpness }) => (query, keys) => {
    const unit = (x) => scale(x, 1 / Math.sqrt(dot(x, x)));
    return scale(Scores.dot()(unit(query), keys.map(unit)), sharpness);
  },
  general: ({ weight }) => (query, keys) => Scores.dot()(project(query, weight), keys),
  location: ({ weight }) => (query, keys) => multiply(weight, query).slice(0, keys.length),
  /** v . tanh(q W_q + k W_k); the keys' side is computed once for a list of keys. */
  additive: ({ queryWeight, keyWeight, energy }) => {
    let last = null;
    let sides = [];
    return (query, keys) => {
      if (keys !== last) [last, sides] = [keys, keys.map((key) => project(key, keyWeight))];
      const side = project(query, queryWeight);
      return Float64Array.from(sides, (key) => {
        let score = 0;
        for (let d = 0; d < energy.length; d++) score += energy[d] * Math.tanh(side[d] + key[d]);
        return score;
      });
    };
  },
};

/** Alignments: each turns the scores of a query into weights. */
const Aligns = {
  soft: ({ sharpness = 1 } = {}) => (scores, allowed) => softmax(scale(scores, sharpness), allowed),
  hard: () => (scores, allowed) => {
    const best = argmax(softmax(scores, allowed));
    return scores.map((_, i) => (i === best ? 1 : 0));
  },
  /** Luong's local-m: softmax inside t - W .. t + W. */
  monotonic: ({ window }) => (scores, allowed, query, t) => {
    const center = Math.min(t, scores.length - 1);
    return softmax(scores, range(scores.length).map((i) => Math.abs(i - center) <= window));
  },
  /** Luong's local-p: a predicted center p, a window around it, and a Gaussian on top. */
  predictive: ({ window, hidden, place }) => (scores, allowed, query) => {
    const center = scores.length * sigmoid(dot(place, tanh(project(query, hidden))));
    const inside = softmax(scores, range(scores.length).map((i) => Math.abs(i - center) <= window));
    return inside.map((weight, i) => weight * Math.exp(-2 * ((i - center) / window) ** 2));
  },
};

/** The lookup: scores, weights, mixture. `mask[t][i]` says whether query t may read key i. */
function attend(queries, keys, values, { score, align = Aligns.soft(), mask = null, first = 0 }) {
  const scores = queries.map((query) => score(query, keys));
  const weights = scores.map((line, t) => align(line, mask && mask[t], queries[t], first + t));
  const contexts = weights.map((line) => mix(line, values));
  return { scores, weights, contexts };
}

/** Sines and cosines of many wavelengths (Vaswani 2017). */
const sinusoidal = (position, width) =>
  Float64Array.from(range(width), (i) => {
    const angle = position / 10000 ** ((i - (i % 2)) / width);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });

/** One step of a gated unit. Bahdanau's: s~ = tanh(W x + U (r * s)), s' = s + z (s~ - s). PyTorch's resets
    after the product, s~ = tanh(W x + r * (U s + b)), and its z keeps the old state. */
function stepCell(cell, inputs, state) {
  const width = state.length;
  const projected = add(multiply(cell.inputs, inputs), cell.bias);
  if (cell.states) {
    const own = add(multiply(cell.states, state), cell.stateBias);
    return state.map((number, i) => {
      const [reset, update] = [i, width + i].map((place) => sigmoid(projected[place] + own[place]));
      const candidate = Math.tanh(projected[2 * width + i] + reset * own[2 * width + i]);
      return candidate + update * (number - candidate);
    });
  }
  const gates = multiply(cell.gates, state).map((number, i) => sigmoid(projected[i] + number));
  const reset = state.map((number, i) => gates[i] * number);
  const candidate = multiply(cell.candidate, reset).map((number, i) => Math.tanh(projected[2 * width + i] + number));
  return state.map((number, i) => number + gates[width + i] * (candidate[i] - number));
}

/** The model of a page's data: an encoder in both directions and a decoder that looks things up. */
class Model {
  constructor({ tensors, weights, source, target, special, limit, blank }) {
    const bytes = Uint8Array.from(atob(weights), (letter) => letter.charCodeAt(0));
    const numbers = Float64Array.from(new Float32Array(bytes.buffer));
    const get = (name) => {
      const [start, rows, columns] = tensors[name];
      return { rows, columns, data: numbers.subarray(start, start + rows * columns) };
    };
    const cell = (prefix, ending = "_l0") => (`${prefix}.weight_ih${ending}` in tensors ? {
      inputs: get(`${prefix}.weight_ih${ending}`),
      bias: get(`${prefix}.bias_ih${ending}`).data,
      states: get(`${prefix}.weight_hh${ending}`),
      stateBias: get(`${prefix}.bias_hh${ending}`).data,
    } : {
      inputs: get(`${prefix}.inputs.weight`),
      bias: get(`${prefix}.inputs.bias`).data,
      gates: get(`${prefix}.gates.weight`),
      candidate: get(`${prefix}.candidate.weight`),
    });
    const isTorch = "decoder.stack.cells.0.cell.weight_ih" in tensors;
    this.forwards = cell(`encoder.reader.forwards.0${isTorch ? "" : ".cell"}`);
    this.backwards = cell(`encoder.reader.backwards.0${isTorch ? "" : ".cell"}`);
    this.cell = isTorch ? cell("decoder.stack.cells.0.cell", "") : cell("decoder.stack.cells.0");
    this.sourceTable = get("encoder.embedding.table.weight");
    this.targetTable = get("decoder.embedding.table.weight");
    this.initial = get("decoder.initial.linear.weight");
    this.readout = { weight: get("decoder.readout.linear.weight"), bias: get("decoder.readout.linear.bias").data };
    this.output = { weight: get("decoder.output.weight"), bias: get("decoder.output.bias").data };
    this.additive = {
      queryWeight: get("decoder.attend.score.query_weight"),
      keyWeight: get("decoder.attend.score.key_weight"),
      energy: get("decoder.attend.score.energy").data,
    };
    this.general = { weight: get("general") };
    this.location = { weight: get("location") };
    this.place = get("place").data;
    this.width = this.additive.queryWeight.rows;
    this.sourceIds = new Map(source.map((piece, id) => [piece, id]));
    this.target = target;
    this.special = special;
    this.limit = limit;
    this.blank = blank;
  }

  /** The tokens of a text: its characters, or the words between blanks. */
  split(text) {
    return this.blank ? text.split(/\s+/).filter((word) => word) : [...text];
  }

  /** The ids of a text, one for each token, and one for its end. */
  encodeText(text) {
    return [...this.split(text).map((letter) => this.sourceIds.get(letter) ?? this.special.unknown), this.special.sourceEnd];
  }

  /** The vector of a token. */
  embed(table, id) {
    return scale(row(table, id), Math.sqrt(table.columns));
  }

  /** The encoder's state at each token: [forward; backward]. */
  encode(ids) {
    const inputs = ids.map((id) => this.embed(this.sourceTable, id));
    const read = (cell, list) => {
      let state = new Float64Array(this.width);
      return list.map((input) => (state = stepCell(cell, input, state)));
    };
    const backwards = read(this.backwards, inputs.toReversed()).reverse();
    return read(this.forwards, inputs).map((state, i) => join(state, backwards[i]));
  }

  /** The decoder's first state, from the backward half of the first state of the encoder. */
  begin(states) {
    return tanh(multiply(this.initial, states[0].slice(this.width)));
  }

  /** One step: log-probabilities of the next token, and the state after it. */
  step(state, token, context) {
    const embedded = this.embed(this.targetTable, token);
    const pairs = add(multiply(this.readout.weight, join(state, embedded, context)), this.readout.bias);
    const maxout = Float64Array.from(range(pairs.length / 2), (i) => Math.max(pairs[2 * i], pairs[2 * i + 1]));
    const logits = add(multiply(this.output.weight, maxout), this.output.bias);
    return { logProbabilities: logSoftmax(logits), after: stepCell(this.cell, join(embedded, context), state) };
  }

  /** Write the output token by token, always the most probable one.

      `read(query, t)` returns the weights and the context of step t. `first` are the states that
      the decoder starts from; what it reads afterwards is up to `read`. */
  decode(first, read) {
    let state = this.begin(first);
    let token = this.special.start;
    const steps = [];
    const most = Math.floor(first.length * this.limit.ratio) + this.limit.extra;
    while (steps.length < most && token !== this.special.end) {
      const { weights, context } = read(state, steps.length);
      const { logProbabilities, after } = this.step(state, token, context);
      const scores = logProbabilities.map((number, id) => (this.special.unwritten.includes(id) ? -Infinity : number));
      token = argmax(scores);
      steps.push({ query: state, weights, context, logProbabilities, token });
      state = after;
    }
    return steps;
  }

  /** The tokens of an output, with a sign for its end. */
  labels(steps) {
    return steps.map(({ token }) => (token === this.special.end ? "end" : this.target[token]));
  }

  /** The text of an output. */
  text(steps) {
    return steps.filter(({ token }) => token !== this.special.end).map(({ token }) => this.target[token]).join(this.blank);
  }
}

// Ranks guide and tasks above lists and generated pages, which Sphinx would sort by their titles.
const FIRST = { "guide/training": 4, "guide/your-data": 3, "guide/installing": 3, "guide/seeing": 3, "guide/decoding": 3 };
var Scorer = {
  score: ([page, , , , score]) =>
    score + (FIRST[page] ?? (/^(guide|tasks)\//.test(page) ? 2 : /^(glossary|faq|gallery)/.test(page) ? 1 : 0)),
  objNameMatch: 11,
  objPartialMatch: 4,
  objPrio: { 0: 1, 1: 0, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

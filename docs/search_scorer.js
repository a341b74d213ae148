// The order of search results: pages with all searched words in their title, then sections, then Python names with
// that very name, then titles that are a part of the searched words, then the rest. Sphinx alone puts Python names first.
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,

  words: (text) => {
    const stemmer = new Stemmer();
    return (text.toLowerCase().match(/[\p{L}\p{N}]+/gu) || []).map((word) => stemmer.stemWord(word));
  },

  score: ([docname, title, , , score, , kind]) => {
    const query = Scorer.words(new URLSearchParams(window.location.search).get("q") || "");
    const parts = title.split(kind === "object" ? "." : " > ");
    const heading = Scorer.words(parts[parts.length - 1]);
    if (!query.every((word) => heading.includes(word)))
      return heading.every((word) => query.includes(word)) ? score + 50 : score;
    const share = (100 * query.length) / heading.length;
    if (kind === "object") return score + share;
    const page = parts.length === 1 ? 100 : 0;
    const guide = docname.startsWith("reference/") ? 0 : 50;
    return score + 100 + share + page + guide;
  },
};

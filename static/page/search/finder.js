// The entries of the search, their ranking, and the actions that open them. Loaded when the search is first opened.
import { named, open as openGlossary } from "../../guide/glossary.js";
import { allLessons, openLearn } from "../../guide/learn_item.js";
import { go } from "../address/places.js";
import { entriesOf, lessonEntries } from "./entries.js";
import { search } from "./ranking.js";
import { act, actions, openSetting, openStrategy } from "./ways.js";

const OPEN = {
  tab: go,
  view: go,
  strategy: openStrategy,
  action: act,
  term: openGlossary,
  lesson: openLearn,
  setting: openSetting,
  option: openSetting,
};

// `listed`: the server's entries; `groups`: groups of the navigation; `words`: words of the search.
// Returns { views(), find(query, most), open(entry), lessons() }. lessons() adds the lessons when the server has sent
// them, and resolves to whether any were added.
export function finderOf(listed, groups, words) {
  const entries = entriesOf({ groups, listed, terms: named(), actions: actions(words), words });
  return {
    views: () => entries.filter(({ kind }) => kind === "view").map((entry) => ({ entry, via: "" })),
    find: (query, most) => search(entries, query, most),
    open: ({ kind, way }) => OPEN[kind](...way),
    async lessons() {
      const path = await allLessons().catch(() => null); // null if the server is unreachable
      if (path) entries.push(...lessonEntries(path, listed));
      return Boolean(path);
    },
  };
}

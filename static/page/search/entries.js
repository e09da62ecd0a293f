// The search entries as plain objects: { target, kind, name, term, about, shown, where, also, way }.
//
// target: the name in viz/page/search.py and in the synonym files; also: alternative names; shown: the displayed line
// if `about` is longer; way: the data needed to open the entry, by kind (finder.js).

const OPTIONS = 5; // maximum number of a setting's options listed in its line

// Collect for each tab its words, its group, and a line that names both.
function placesOf(groups) {
  const places = {};
  for (const { label: group, tabs } of groups)
    for (const { key, label, question } of tabs)
      places[key] = { label, question, group, where: group === label ? label : `${group} › ${label}` };
  return places;
}

const formEntries = ({ settings, ...form }, where, words) =>
  settings.flatMap((each) => settingEntries({ ...form, ...each }, where, words));

function settingEntries(setting, where, words) {
  const { key, name, label, about = "", options = [], also = [] } = setting,
    target = `setting.${key}.${name}`,
    named = options.slice(0, OPTIONS).map(([, text]) => text);
  const choices = named.join(" · ") + (options.length > OPTIONS ? " · …" : "");
  return [
    { target, kind: "setting", name: label, about: about || choices, where, also, way: [setting] },
    ...options.map(([value, text, also]) => ({
      target: `${target}.${value}`,
      kind: "option",
      name: text,
      term: label,
      shown: words.option_about,
      where,
      also,
      way: [setting, value],
    })),
  ];
}

const withSynonyms = (entries, synonyms) => {
  const all = new Map(synonyms);
  return entries.map((entry) => {
    const also = new Set([...(entry.also ?? []), ...(all.get(entry.target) ?? [])]);
    for (const text of [entry.name, entry.term]) also.delete(text);
    return also.size ? { ...entry, also: [...also] } : entry;
  });
};

// `groups`: groups of the navigation; `listed`: the server's entries; `terms`: terms of the glossary; `actions`: the
// available actions; `words`: words of the search.
export function entriesOf({ groups, listed, terms, actions, words }) {
  const { views, forms, strategies, synonyms } = listed,
    places = placesOf(groups),
    names = new Map(views.map(({ tab, view, name }) => [`${tab} ${view}`, name]));
  const pathOf = ({ tab, view }) =>
      [places[tab].where, view && names.get(`${tab} ${view}`)].filter(Boolean).join(" › "),
    alone = new Set(views.filter(({ view }) => !view).map(({ tab }) => tab));
  const tabs = Object.entries(places).filter(([key]) => !alone.has(key));
  const entries = [
    ...tabs.map(([key, { label, question, group }]) => ({
      target: `tab.${key}`,
      kind: "tab",
      name: label,
      about: question,
      where: group === label ? words.tab : group,
      way: [key],
    })),
    ...views.map(({ key, tab, view, name, term, about, also }) => ({
      target: `view.${key}`,
      kind: "view",
      name,
      term,
      about: `${about} ${places[tab].question}`,
      shown: about,
      where: places[tab].where,
      also,
      way: [tab, view],
    })),
    ...strategies.map(([key, name]) => ({
      target: `strategy.${key}`,
      kind: "strategy",
      name,
      shown: words.strategy_about,
      where: pathOf({ tab: "sampling", view: "side_by_side" }),
      way: [key],
    })),
    ...actions.map((action) => ({ ...action, kind: "action", where: words.action })),
    ...terms.map(({ id, name, about, forms }) => ({
      target: `term.${id}`,
      kind: "term",
      name,
      about,
      also: forms,
      where: words.term,
      way: [id],
    })),
    ...forms.flatMap((form) => formEntries(form, pathOf(form), words)),
  ];
  return withSynonyms(entries, synonyms);
}

// Build the entries of the lessons from their titles and learning goals.
export function lessonEntries({ lessons, words }, { synonyms }) {
  const entries = lessons.map(({ key, title, goals, part }) => ({
    target: `lesson.${key}`,
    kind: "lesson",
    name: title,
    about: goals.join(" "),
    where: `${words.title} › ${words[`part_${part}`]}`,
    way: [key],
  }));
  return withSynonyms(entries, synonyms);
}

// Where a step of the tour points: its control, its tab, its view. Nothing here changes the page.

export const shown = (node) => Boolean(node?.getClientRects().length);
export const first = (selectors) =>
  selectors.map((each) => [...document.querySelectorAll(each)].find(shown)).find(Boolean) ?? null;
export const tabButton = (key) => first([`button[role=tab][data-tab-id="${CSS.escape(key)}"]`]);
export const tabOpen = ({ tab }) =>
  !tab ||
  document.querySelector(`button[role=tab][data-tab-id="${CSS.escape(tab)}"][aria-selected=true]`) !== null ||
  (!tabButton(tab) && first([`#pg-${tab}_question`, `#pg-${tab}_view`]) !== null);
export const viewButton = ({ view }) => view && first([`#pg-${view[0]} button[data-key="${view[1]}"]`]);
export const viewOpen = (step) => !step.view || viewButton(step)?.getAttribute("aria-selected") === "true";
// A narrow page keeps the tabs that do not fit in a menu, where they have only their names.
export const menuButton = ({ label }) =>
  [...document.querySelectorAll(".overflow-dropdown button")].find((button) => button.textContent.trim() === label);

// What a step points at now: its control, or the way there.
export function target(step) {
  if (!tabOpen(step)) return tabButton(step.tab) ?? first([".overflow-menu > button"]);
  return (viewOpen(step) ? null : viewButton(step)) ?? first(step.at);
}

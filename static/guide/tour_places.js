import { currentTab } from "../page/address/places.js";

// The target of a tour step: its control, its tab, its view. This module only reads the page.

export const shown = (node) => Boolean(node?.getClientRects().length);
export const first = (selectors) =>
  selectors.map((each) => [...document.querySelectorAll(each)].find(shown)).find(Boolean) ?? null;
// Return the tab's button, or the group's button if another group is open.
export const tabButton = (key) => {
  const button = document.querySelector(`.pg-nav [data-tab="${CSS.escape(key)}"]`);
  return shown(button) ? button : first([`.pg-nav .pg-group[data-group="${CSS.escape(button?.dataset.group ?? "")}"]`]);
};
export const tabOpen = ({ tab }) => !tab || currentTab() === tab;
export const viewButton = ({ view }) => view && first([`#pg-${view[0]} button[data-key="${view[1]}"]`]);
export const viewOpen = (step) => !step.view || viewButton(step)?.getAttribute("aria-selected") === "true";

// Return the current target of a step: its control, or the next element on the way there.
export function target(step) {
  if (!tabOpen(step)) return tabButton(step.tab);
  return (viewOpen(step) ? null : viewButton(step)) ?? first(step.at);
}

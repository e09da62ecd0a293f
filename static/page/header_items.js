// Controls in the page's header: each is a function make(words) -> element, and their numbers determine the order.
const items = [];

export function headerItem(order, make) {
  items.push([order, make]);
  items.sort(([a], [b]) => a - b);
}

// Controls before the tabs of a group: each is a function make(words) -> button.
const grouped = new Map();
export const groupItem = (group, make) => grouped.set(group, make);
export const groupItems = (group, words) => (grouped.has(group) ? [grouped.get(group)(words)] : []);

export const headerItems = (words) => items.map(([, make]) => make(words));

// Controls in the page's header: make(words) -> element, ordered by their numbers.
const items = [];

export function headerItem(order, make) {
  items.push([order, make]);
  items.sort(([a], [b]) => a - b);
}

export const headerItems = (words) => items.map(([, make]) => make(words));

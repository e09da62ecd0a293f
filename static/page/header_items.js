// Controls in the page's head: make(words) -> element, in the order of the numbers.
const items = [];

export function headerItem(order, make) {
  items.push([order, make]);
  items.sort(([a], [b]) => a - b);
}

export const headerItems = (words) => items.map(([, make]) => make(words));

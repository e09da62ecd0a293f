// Controls in the page's header: each is a function make(words) -> element, and their numbers determine the order.
const items = [];

export function headerItem(order, make) {
  items.push([order, make]);
  items.sort(([a], [b]) => a - b);
}

export const headerItems = (words) => items.map(([, make]) => make(words));

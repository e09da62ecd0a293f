// What the page does while the server cannot be reached.

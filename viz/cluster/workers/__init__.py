"""The page on several processes behind one address."""

"""Everything that touches names which Gradio keeps to itself: they may change with any release of it."""

"""Serve the page: `python -m attention_playground`, the same as the command `attention-playground`."""

from attention_playground.app import main

if __name__ == "__main__":
    main()

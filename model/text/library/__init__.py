"""Tokenizers that the `tokenizers` library runs: every tokenizer.json that tiktoken's engine cannot express."""

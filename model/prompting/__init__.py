"""Prompts as programs: question sets, strategies that make prompts of them, tools, and how many answers are right."""

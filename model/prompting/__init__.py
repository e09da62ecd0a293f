"""Prompts as programs: question sets, strategies that build prompts from them, tools, and the accuracy of the
answers.
"""

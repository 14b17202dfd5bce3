"""Answers worded for the eye. Each function takes the object that `--json` prints and returns lines of text."""

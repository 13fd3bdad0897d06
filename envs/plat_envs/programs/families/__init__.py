"""The families of problems of the chat rendering of `deepcoder`, by theme."""

"""The task `deepcoder`: write a program that passes all tests."""

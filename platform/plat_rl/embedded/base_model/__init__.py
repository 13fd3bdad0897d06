"""The model a run starts from: its recipe, its supervised training, the shipped bases and their comparison."""

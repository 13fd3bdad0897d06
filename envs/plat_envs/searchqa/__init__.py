"""The task `searchqa`: answer a question with a search engine."""

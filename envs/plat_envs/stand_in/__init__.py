"""What stand-ins need of a task: words, templates, demonstrations, scripted policies."""

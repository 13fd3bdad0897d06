"""The vocabulary: names of metrics, tables, states and outcomes. All other modules import them from here."""

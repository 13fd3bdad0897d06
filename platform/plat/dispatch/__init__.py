"""Execute runs: one protocol (`plat.dispatch.dispatcher`), one driver, and one folder for each dispatcher."""

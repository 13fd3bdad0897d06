"""Where runs are executed: one protocol (`plat.dispatch.api`), one driver, and one folder for each dispatcher."""

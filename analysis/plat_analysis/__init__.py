"""Tables, figures, claims and the report of an experiment, from frames of the store; writes nothing into the store.

    report = plat_analysis.report.build_report(frames, experiment)
    report.print(console); report.write(folder)

Report builders and claim checks are found through the entry-point groups `plat.reports` and `plat.claims`.
"""

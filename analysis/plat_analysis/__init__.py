"""Tables, figures, claims and the report of an experiment, from frames of the store; writes nothing into the store.

    report = plat_analysis.report.build.build_report(frames, experiment)
    plat_analysis.report.report_files.write_report(report, folder)

Report builders and claim checks are found through the entry-point groups `plat.reports` and `plat.claims`.
"""

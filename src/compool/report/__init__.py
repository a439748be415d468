"""Reports of the runs of a study: results, statistics, tables, figures, and a page to explore them."""

"""What the runs of a study show: results, statistics, tables, figures, and a page to explore them."""

"""The report of `fastens explain`: one page of HTML that needs nothing else."""

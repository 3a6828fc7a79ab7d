"""Case files: recorded inputs with the values they must give, run by kind (``scripts/cases``)."""

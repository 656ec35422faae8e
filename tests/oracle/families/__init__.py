"""One module per family of operators; each offers `cases()`."""

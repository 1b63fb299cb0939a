"""Tables of numbers in files, read and written in pieces: CSV, Parquet, npz and JSONL, by the ending of the name."""

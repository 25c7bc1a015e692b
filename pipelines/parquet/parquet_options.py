"""The options of the jobs that write Parquet files and keep their position with them: archive and table."""

import argparse

from barnabas.pipelines.shared import options

COMPRESSIONS = ("zstd", "snappy", "gzip", "lz4_raw", "none")


def parquet_parser(name: str, about: str) -> argparse.ArgumentParser:
    made = options.parser(name, about, streaming=True, every="1m", own_position=True)
    made.add_argument(
        "--output", required=True, metavar="DIR", help=f"the {name}, on any file system that Spark can write to"
    )
    made.add_argument(
        "--compression", choices=COMPRESSIONS, default="zstd", help="compression of the files (default: %(default)s)"
    )
    return made

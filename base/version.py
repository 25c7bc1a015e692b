"""The version of this software, as packages and peers know it."""

VERSION = "0.1.0"

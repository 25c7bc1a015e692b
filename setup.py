"""Maps the top-level folders onto the `barnabas` namespace; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

LINKED = ("broker", "pipelines", "protocol", "replication", "storage")

# The links inside barnabas/ are for type checkers and editors: packages come from the folders themselves, once.
folders = {
    f"barnabas.{name}": f"barnabas/{name}" for name in find_packages("barnabas") if name.split(".")[0] not in LINKED
}
for top in LINKED:
    folders |= {f"barnabas.{top}": top} | {f"barnabas.{top}.{name}": f"{top}/{name}" for name in find_packages(top)}
folders = {package: folder.replace(".", "/") for package, folder in folders.items()}

setup(
    packages=["barnabas", *folders],
    package_dir={"barnabas": "barnabas", **folders},
    package_data={"barnabas.pipelines.shared": ["*.properties"]},
)

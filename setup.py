"""Maps the top-level folders onto the `barnabas` namespace; everything else is in pyproject.toml."""

from setuptools import find_packages, setup

LINKED = ("base", "broker", "pipelines", "protocol", "replication", "storage")

# An editable install puts the checkout on the path, and Python imports through the links inside barnabas/. A wheel has
# no links: its packages come from the folders themselves, once.
folders = {
    f"barnabas.{name}": f"barnabas/{name}" for name in find_packages("barnabas") if name.split(".")[0] not in LINKED
}
for top in LINKED:
    folders |= {f"barnabas.{top}": top} | {f"barnabas.{top}.{name}": f"{top}/{name}" for name in find_packages(top)}
folders = {package: folder.replace(".", "/") for package, folder in folders.items()}

setup(
    packages=["barnabas", *folders],
    package_dir={"barnabas": "barnabas", **folders},
    package_data={"barnabas.pipelines.shared.spark": ["*.properties"]},
)

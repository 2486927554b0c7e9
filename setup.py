"""What pyproject.toml cannot say: a wheel brings folders along that are no packages, as data of `controller.shipped`.

`controller/process/paths.py` finds them there. The files of the operators' page are data of `controller.ui`.
"""

from __future__ import annotations

from setuptools import find_packages, setup

SHIPPED = {
    "conf": ["*.yaml", "*.lock", "*.txt"],
    "conf/deploy/container": ["Containerfile"],
    "conf/deploy/databricks": ["*.yml", "*.yaml"],
    "conf/deploy/kubernetes": ["*.yaml"],
    "conf/observability": ["*.yml"],
    "conf/observability/dashboards": ["*.json"],
    "conf/profiles": ["*.yaml"],
    "conf/spark": ["*.conf", "*.xml"],
    "conf/systemd": ["*.service", "*.timer"],
    "conf/sysusers": ["*.conf"],
    "docs": ["sql*.md"],
    "docs/sql": ["*.sql"],
    "docs/sql/views": ["*.sql"],
    "notebooks": ["*.py"],
}
FOLDERS = {f"controller.shipped.{folder.replace('/', '.')}": folder for folder in SHIPPED}

setup(
    packages=[*find_packages(include=["controller*", "jobs*", "schemas*"]), *FOLDERS],
    package_dir=FOLDERS,
    package_data={
        "controller.ui": ["static/*.*", "static/views/*.js"],
        **{package: SHIPPED[folder] for package, folder in FOLDERS.items()},
    },
)

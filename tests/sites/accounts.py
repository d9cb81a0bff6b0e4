"""Accounts of the test Slurm: who may have what, kept by slurmdbd in MariaDB, where these can be had."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGES = ["slurmdbd", "slurm-wlm-mysql-plugin", "mariadb-server-core", "mariadb-client-core"]
PROGRAMS = ["slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db", "my_print_defaults"]

NONE = "AccountingStorageType=accounting_storage/none"
ENFORCED = """
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=login
AccountingStoragePass={home}/munge.sock
AccountingStorageEnforce=associations,limits,qos
"""
SLURMDBD = """
AuthType=auth/munge
AuthInfo=socket={home}/munge.sock
DbdHost=login
SlurmUser=root
PidFile={home}/slurmdbd.pid
LogFile={home}/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=root
"""
# In `one_runs` a user has one running job, in `one_waits` one job at all.
KNOWN = """\
add qos one_runs MaxJobsPerUser=1
add qos one_waits MaxSubmitJobsPerUser=1
add account science qos=normal,one_runs,one_waits
add user root account=science
quit
"""

# Settings of a site, and what Slurm says of them.
REFUSED = {
    "{account: science, qos: nowhere}": "Invalid qos specification",
    "{account: nobody}": "Invalid account or account/partition combination specified",
}


def can_be_had() -> bool:
    return all(map(shutil.which, PROGRAMS))


def configuration(home: Path) -> str:
    """Lines of slurm.conf; writes slurmdbd's own."""
    if not can_be_had():
        return NONE
    file = home / "etc" / "slurmdbd.conf"
    file.write_text(SLURMDBD.format(home=home))
    file.chmod(0o600)  # it asks for this
    return ENFORCED.format(home=home)


def daemons(home: Path) -> dict[str, str]:
    """Shell lines that are to run on the login host, by name: a database in memory, and slurmdbd on it."""
    if not can_be_had():
        return {}
    at = f"--no-defaults --user=root --datadir={home}/mysql"
    serve = f"--skip-grant-tables --bind-address=127.0.0.1 --socket={home}/mysql.sock --pid-file={home}/mysql.pid"
    mariadbd = f"""
        mkdir {home}/mysql
        mount -t tmpfs tmpfs {home}/mysql
        mariadb-install-db {at} && exec mariadbd {at} {serve}
    """
    slurmdbd = f"""
        until [ -S {home}/mysql.sock ]; do sleep 0.1; done
        exec slurmdbd -D
    """
    return {"mariadbd": mariadbd, "slurmdbd": slurmdbd}

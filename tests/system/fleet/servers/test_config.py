"""Configurations: a real server reads them, and they say why they are so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bullpen.fleet.servers.config import Ports, ServerNode, loopback_config
from bullpen.fleet.servers.production import AUTH_FILE, production_configs
from bullpen.fleet.servers.server_binary import find_binary

HOSTS = ("a.example.com", "b.example.com", "c.example.com")


def accepted(path: Path) -> subprocess.CompletedProcess[str]:
    """What nats-server says about a configuration without starting."""
    return subprocess.run(
        [str(find_binary(os.environ)), "-t", "-c", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )


def written(directory: Path, text: str) -> Path:
    path = directory / "nats-server.conf"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("hosts", [HOSTS, HOSTS[:1]])
def test_a_real_server_accepts_what_is_printed(tmp_path: Path, hosts: tuple[str, ...]) -> None:
    (tmp_path / AUTH_FILE).write_text('authorization { token: "x" }\n', encoding="utf-8")
    for text in production_configs(hosts, auth="./keys").values():
        done = accepted(written(tmp_path, text))
        assert (done.returncode, "is valid" in done.stdout + done.stderr) == (0, True), done


def test_the_file_with_who_may_do_what_is_really_read(tmp_path: Path) -> None:
    (text,) = production_configs(HOSTS[:1], auth="./keys").values()
    assert AUTH_FILE in accepted(written(tmp_path, text)).stderr


def test_a_real_server_accepts_certificates_for_clients_and_servers(tmp_path: Path) -> None:
    for host in HOSTS:
        made = subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "ec", "-nodes", "-days", "2"),
                *("-pkeyopt", "ec_paramgen_curve:prime256v1", "-subj", f"/CN={host}"),
                *("-keyout", str(tmp_path / f"{host}.key"), "-out", str(tmp_path / f"{host}.pem")),
            ],
            capture_output=True,
            check=False,
        )
        if made.returncode != 0:
            pytest.skip(f"openssl makes no certificate here: {made.stderr!r}")
    (tmp_path / "ca.pem").write_bytes((tmp_path / f"{HOSTS[0]}.pem").read_bytes())
    for text in production_configs(HOSTS, tls=str(tmp_path)).values():
        done = accepted(written(tmp_path, text))
        assert done.returncode == 0, done
        assert text.count("verify: true") == 1
        assert "nats://" not in text


def test_a_path_cannot_leave_its_quotes(tmp_path: Path) -> None:
    directory = tmp_path / 'odd" } name $HOME'
    directory.mkdir()
    node = ServerNode("n1", Ports(1, 2, 3), directory)
    done = accepted(written(tmp_path, loopback_config(node, [node])))
    assert done.returncode == 0, done

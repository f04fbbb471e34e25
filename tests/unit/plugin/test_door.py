"""Who may fetch the address that holds a token: the same user, told by the kernel's table of sockets."""

from pathlib import Path

from fleetagent.plugin.opening import is_ours

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 0100007F:C002 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 3 1
   3: 0100007F:1F90 0100007F:C002 01 00000000:00000000 00:00000000 00000000  1000        0 4 1
"""


def test_only_a_socket_of_the_same_user_is_let_in(tmp_path: Path) -> None:
    table = tmp_path / "tcp"
    table.write_text(TABLE)

    assert is_ours(0xC001, 0x1F90, table, user=1000)
    assert not is_ours(0xC002, 0x1F90, table, user=1000)
    assert not is_ours(0xC003, 0x1F90, table, user=1000)


def test_where_the_system_has_no_such_table_the_secret_path_must_do(tmp_path: Path) -> None:
    assert is_ours(0xC002, 0x1F90, tmp_path / "absent", user=1000)

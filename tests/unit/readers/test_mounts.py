"""Which file system a path lies on, by the kernel's list alone."""

from postmortem.readers.mounts import Mount, mount_of, mountinfo, mounts_in

TEXT = (
    "22 1 0:1 / / rw - ext4 /dev/sda rw\n"
    "23 22 0:2 / /mnt rw shared:1 - nfs4 server:/x rw\n"
    "24 23 0:3 /of\\040us /mnt/my\\040data rw,nosuid - lustre mds:/y rw,flock\n"
    "25 22 0:4 / /mnt rw - beegfs nodev rw\n"
    "broken line\n"
)


def type_of(name: str, text: str = TEXT) -> str | None:
    mount = mount_of(name, text)
    return None if mount is None else mount.type


def test_the_deepest_and_last_mount_is_the_one() -> None:
    assert type_of("/home/me/x") == "ext4"
    assert type_of("/mnt/x") == "beegfs"
    assert type_of("/mnt/my data/x") == "lustre"
    assert type_of("/mntx") == "ext4"
    assert type_of("/x", "") is None


def test_all_that_a_line_tells() -> None:
    lustre = Mount("/mnt/my data", "/of us", ("rw", "nosuid"), "lustre", ("rw", "flock"))
    assert [*mounts_in(TEXT)][2] == lustre
    assert len([*mounts_in(TEXT)]) == 4


def test_half_a_line_ends_nothing() -> None:
    text = "1 0 0:1 / /a rw\n2 0 0:1 / /b rw - ext4"
    assert [*mounts_in(text)] == [Mount("/b", "/", ("rw",), "ext4", ("",))]
    assert type_of("/proc/self", mountinfo()) == "proc"

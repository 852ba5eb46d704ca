//! The file system that a cell sees: the system's programs and libraries, the script's interpreter, and one folder to write in.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive, mount_change, mount_remount, unmount};
use rustix::process::pivot_root;

use super::Cell;

/// Where the new root is put together: every machine has this folder, and no cell sees anything of it.
const ROOT: &str = "/sys";
/// What a cell sees of the system, folders and links.
const SYSTEM: [&str; 8] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"];
/// What it sees of the settings: what programs need to find libraries, names, times and certificates.
const SETTINGS: [&str; 26] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "passwd",
    "pki",
    "protocols",
    "resolv.conf",
    "services",
    "ssl",
    "terminfo",
    "timezone",
    "debian_version",
];
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
/// Shared memory is the other place that can be written; nobody else sees it, and it is gone with the worker.
pub(super) const SHARED: &str = "/dev/shm";

/// Makes the calling process see the cell's file system and nothing else.
pub(super) fn build(cell: &Cell) -> Result<(), String> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(|error| format!("mounts cannot be made private: {error}"))?;
    tmpfs(Path::new(ROOT), c"mode=0755,size=4m").map_err(|error| format!("a file system in memory cannot be mounted: {error}"))?;
    let mut root = Root::default();
    let home = Path::new(&cell.home);
    for path in SYSTEM.iter().map(Path::new).chain(cell.read.iter().map(Path::new).filter(|path| !path.starts_with(home))) {
        root.place(path).map_err(|error| format!("{} cannot be mounted: {error}", path.display()))?;
    }
    if let Some(doors) = &cell.doors {
        let file = inside(Path::new("/etc/hosts"));
        let made = fs::create_dir_all(inside(Path::new("/etc"))).and_then(|()| fs::write(&file, doors.hosts_file()));
        made.map_err(|error| format!("/etc/hosts cannot be written: {error}"))?;
    }
    for name in SETTINGS.iter().filter(|name| **name != "hosts" || cell.doors.is_none()) {
        root.place_file(&Path::new("/etc").join(name)).map_err(|error| format!("/etc/{name} cannot be mounted: {error}"))?;
    }
    devices().map_err(|error| format!("/dev cannot be made: {error}"))?;
    let of_home: Vec<&Path> = cell.read.iter().map(Path::new).filter(|path| path.starts_with(home)).collect();
    root.hide(home, &of_home, cell.scratch()).map_err(|error| format!("the home cannot be hidden: {error}"))?;
    fs::create_dir_all(inside(Path::new("/tmp"))).map_err(|error| error.to_string())?;
    processes().map_err(|error| format!("/proc cannot be mounted: {error}"))?;
    seal(cell).map_err(|error| format!("the cell cannot be made read-only: {error}"))?;
    enter(cell).map_err(|error| format!("the cell cannot be entered: {error}"))
}

/// Where a path of the cell lies while it is put together.
fn inside(path: &Path) -> PathBuf {
    Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

fn tmpfs(target: &Path, data: &std::ffi::CStr) -> rustix::io::Result<()> {
    mount("tmpfs", target, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, Some(data))
}

/// What is in the new root so far.
#[derive(Default)]
struct Root {
    placed: Vec<PathBuf>,
}

impl Root {
    /// A folder as it is, a link as a link; what is not there is not missed.
    fn place(&mut self, path: &Path) -> io::Result<()> {
        let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
        if self.placed.iter().any(|placed| path.starts_with(placed)) {
            return Ok(());
        }
        let target = inside(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        if found.is_symlink() {
            let to = fs::read_link(path)?;
            if fs::symlink_metadata(&target).is_err() {
                symlink(&to, &target)?;
            }
            let real = fs::canonicalize(path)?;
            return self.place(&real);
        }
        fs::create_dir_all(&target)?;
        mount_bind_recursive(path, &target)?;
        self.placed.push(path.to_path_buf());
        Ok(())
    }

    /// The same for what may be a file; a link to one becomes the file.
    fn place_file(&mut self, path: &Path) -> io::Result<()> {
        let Ok(real) = fs::canonicalize(path) else { return Ok(()) };
        if real.is_dir() {
            return self.place(path);
        }
        let target = inside(path);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::File::create(&target)?;
        Ok(mount_bind(&real, &target)?)
    }

    /// An empty folder in the home's place, and in it what the cell may see of the home.
    fn hide(&mut self, home: &Path, of_home: &[&Path], scratch: &Path) -> io::Result<()> {
        // a home that is reached by a link lies somewhere else as well
        let real = fs::canonicalize(home)?;
        if real != home && self.placed.iter().any(|placed| real.starts_with(placed)) {
            tmpfs(&inside(&real), c"mode=0755,size=1m")?;
        }
        let target = inside(home);
        fs::create_dir_all(&target)?;
        tmpfs(&target, c"mode=0755,size=1m")?;
        for path in of_home.iter().copied().chain([scratch]) {
            let target = inside(path);
            fs::create_dir_all(&target)?;
            mount_bind(path, &target)?;
        }
        Ok(())
    }
}

fn devices() -> io::Result<()> {
    let folder = inside(Path::new("/dev"));
    fs::create_dir_all(&folder)?;
    for name in DEVICES {
        let target = folder.join(name);
        fs::File::create(&target)?;
        mount_bind(Path::new("/dev").join(name), &target)?;
    }
    for (name, to) in [("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"), ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")] {
        symlink(to, folder.join(name))?;
    }
    let shared = inside(Path::new(SHARED));
    fs::create_dir_all(&shared)?;
    Ok(tmpfs(&shared, c"mode=1777,size=64m")?)
}

fn processes() -> io::Result<()> {
    let folder = inside(Path::new("/proc"));
    fs::create_dir_all(&folder)?;
    Ok(mount("proc", &folder, "proc", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, None)?)
}

/// Makes every mount of the cell read-only but those that are there to be written.
fn seal(cell: &Cell) -> io::Result<()> {
    let open = [inside(cell.scratch()), inside(Path::new(SHARED))];
    let text = fs::read("/proc/self/mountinfo")?;
    // the deepest first: a mount above another hides nothing that way, and the root is last
    let mut mounts: Vec<(PathBuf, MountFlags)> = text.split(|byte| *byte == b'\n').filter_map(mount_of).filter(|(path, _)| path.starts_with(ROOT)).collect();
    mounts.reverse();
    for (path, flags) in mounts {
        // the machine's own mounts below the folder are covered by the new root
        if fs::symlink_metadata(&path).is_err() {
            continue;
        }
        let add = if open.contains(&path) { MountFlags::NOSUID | MountFlags::NODEV } else { MountFlags::NOSUID | MountFlags::RDONLY };
        match mount_remount(&path, MountFlags::BIND | flags | add, c"") {
            Ok(()) => {}
            // a folder of the same name that is no mount: what was mounted on it is covered
            Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(io::Error::new(io::Error::from(error).kind(), format!("{}: {error}", path.display()))),
        }
    }
    Ok(())
}

/// A line of mountinfo as place and the flags that are set there.
fn mount_of(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let path = PathBuf::from(OsStr::from_bytes(&unescaped(fields.next()?)));
    let mut flags = MountFlags::empty();
    for option in fields.next()?.split(|byte| *byte == b',') {
        flags |= match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            b"noatime" => MountFlags::NOATIME,
            b"nodiratime" => MountFlags::NODIRATIME,
            b"relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some((path, flags))
}

/// `\040` and the like as the bytes they stand for.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let (mut rest, mut out) = (text, Vec::new());
    while let Some((first, after)) = rest.split_first() {
        let octal = after.first_chunk::<3>().filter(|_| *first == b'\\').and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &after[3..];
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

fn enter(cell: &Cell) -> io::Result<()> {
    std::env::set_current_dir(ROOT)?;
    // the old root lies on top of the new one, and goes
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    std::env::set_current_dir(cell.scratch())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo() {
        let line = b"36 35 98:0 /mnt1 /sys/a\\040b rw,nosuid,noexec,relatime master:1 - ext3 /dev/root rw,errors=continue";
        let (path, flags) = mount_of(line).unwrap();
        assert_eq!(path, Path::new("/sys/a b"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RELATIME);
    }
}

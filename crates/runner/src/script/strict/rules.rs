//! What is forbidden to a cell's processes besides what they cannot see: by Landlock, and by a filter on system calls.

use std::collections::BTreeMap;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, Scope,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch, apply_filter, sock_filter,
};

use super::{Cell, tree};

/// The newest Landlock whose rights are known here; the kernel gives what it has of them.
const KNOWN: ABI = ABI::V6;

/// Rules that are made and not yet in force.
pub(super) struct Rules {
    landlock: RulesetCreated,
    filters: [BpfProgram; 2],
}

impl Rules {
    /// The rules of a cell, made where its file system is in place.
    pub(super) fn of(cell: &Cell) -> Result<Rules, String> {
        let landlock = landlock(Path::new(&cell.scratch)).map_err(|error| format!("Landlock: {error}"))?;
        let filters = filters().map_err(|error| format!("the filter on system calls: {error}"))?;
        Ok(Rules { landlock, filters })
    }

    /// Puts them in force for the calling thread and what it starts.
    pub(super) fn apply(self) -> Result<(), String> {
        self.landlock.restrict_self().map_err(|error| format!("Landlock: {error}"))?;
        self.filters.iter().try_for_each(|filter| apply_filter(filter)).map_err(|error| format!("the filter on system calls: {error}"))
    }
}

/// The version of the kernel's Landlock; asked by one more rule for the calling thread, which is about to end.
pub(super) fn landlock_version() -> Option<u32> {
    let rules = Ruleset::default().handle_access(AccessFs::MakeBlock).and_then(Ruleset::create);
    match rules.and_then(RulesetCreated::restrict_self).ok()?.landlock {
        LandlockStatus::Available { effective_abi, kernel_abi } => u32::try_from(kernel_abi.unwrap_or(effective_abi as i32)).ok(),
        _ => None,
    }
}

fn landlock(scratch: &Path) -> Result<RulesetCreated, Box<dyn std::error::Error>> {
    let all = AccessFs::from_all(KNOWN);
    let read = AccessFs::from_read(KNOWN);
    // the file system that the cell sees is made so already; where the kernel has Landlock, this is the second lock
    let mut rules =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(all)?.scope(Scope::AbstractUnixSocket | Scope::Signal)?.create()?;
    rules = rules.add_rule(PathBeneath::new(PathFd::new("/")?, read))?;
    // the workers that are built in are this binary, which has no name in the cell
    rules = rules.add_rule(PathBeneath::new(PathFd::new("/proc/self/exe")?, AccessFs::Execute | AccessFs::ReadFile))?;
    for writable in [scratch, Path::new(tree::SHARED)] {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(writable)?, all))?;
    }
    for device in ["null", "zero", "full", "random", "urandom"] {
        rules = rules.add_rule(PathBeneath::new(PathFd::new(Path::new("/dev").join(device))?, AccessFs::ReadFile | AccessFs::WriteFile))?;
    }
    Ok(rules)
}

/// What no script needs and what gives rights away: refused as what is not permitted.
const REFUSED: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_fanotify_init,
];
/// What programs do without when it is not there: its work could not be looked at by a filter.
const ABSENT: &[i64] = &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
/// Calls newer than this program: not there.
const NEWEST: u32 = 480;

fn filters() -> Result<[BpfProgram; 2], Box<dyn std::error::Error>> {
    let arch: TargetArch = std::env::consts::ARCH.try_into()?;
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    refused.insert(libc::SYS_clone, namespaces()?);
    refused.insert(libc::SYS_socket, families()?);
    refused.insert(libc::SYS_ioctl, vec![when(1, SeccompCmpOp::Eq, 0x5412)?, when(1, SeccompCmpOp::Eq, 0x541c)?]); // TIOCSTI, TIOCLINUX
    let refuse = |calls, errno: i32| SeccompFilter::new(calls, SeccompAction::Allow, SeccompAction::Errno(errno.cast_unsigned()), arch);
    let refused: BpfProgram = refuse(refused, libc::EPERM)?.try_into()?;
    let absent: BpfProgram = refuse(ABSENT.iter().map(|call| (*call, Vec::new())).collect(), libc::ENOSYS)?.try_into()?;
    Ok([refused, bounded(absent)])
}

/// Says "not there" to every call beyond those that are known, before anything else: another way of counting calls (x32) begins there too.
fn bounded(program: BpfProgram) -> BpfProgram {
    let load = sock_filter { code: 0x20, jt: 0, jf: 0, k: 0 }; // the call's number
    let above = sock_filter { code: 0x35, jt: 0, jf: 1, k: NEWEST };
    let refuse = sock_filter { code: 0x06, jt: 0, jf: 0, k: u32::from(SeccompAction::Errno(libc::ENOSYS.cast_unsigned())) };
    [load, above, refuse].into_iter().chain(program).collect()
}

fn when(arg: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(arg, SeccompCmpArgLen::Dword, operator, value)?])
}

/// A clone that would make a namespace.
fn namespaces() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flags = [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_NEWNET, libc::CLONE_NEWIPC, libc::CLONE_NEWUTS, libc::CLONE_NEWCGROUP];
    flags.into_iter().map(|flag| u64::from(flag.cast_unsigned())).map(|flag| when(0, SeccompCmpOp::MaskedEq(flag), flag)).collect()
}

/// A socket that is neither local, nor TCP or UDP, nor for asking about the network: others reach what no namespace holds.
fn families() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let allowed = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let other = allowed.into_iter().map(|family| SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())));
    Ok(vec![SeccompRule::new(other.collect::<Result<_, _>>()?)?])
}

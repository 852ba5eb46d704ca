//! How far a server keeps scripts from its machine, and whether the machine can.

use viat_runner::script::{InForce, Profile, probe_strict};

use super::error::CliError;
use crate::wiring::{Home, profile_of_environment};

/// What each mechanism needs, for whoever is missing one.
pub const HOW: &str = "strict needs user, mount, pid, network and ipc namespaces, a /proc that is all there, and seccomp: \
    sysctl user.max_user_namespaces must not be 0; on Ubuntu sysctl kernel.apparmor_restrict_unprivileged_userns=0 (or a profile for viat that has userns); \
    in a container seccomp and masked paths must let viat make namespaces (docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined)";

/// The home as a server works on it: under the profile that was asked for, else the one that fits who may put scripts there.
///
/// # Errors
/// The machine cannot do what the profile needs.
pub fn choose(asked: Option<Profile>, serves_tokens: bool, home: &Home) -> Result<Home, CliError> {
    let of_environment = if asked.is_some() { None } else { profile_of_environment()? };
    let profile = asked.or(of_environment).unwrap_or(Profile::default_for(serves_tokens));
    let home = home.with_profile(profile);
    if profile == Profile::Strict {
        in_force(&home).map_err(|problem| {
            CliError::usage(format!("scripts cannot be run under the strict profile here: {problem}"))
                .help(format!("{HOW}; if all scripts of this home are your own: --profile trusted"))
        })?;
    }
    Ok(home)
}

/// What holds a strict script here, tried.
pub fn in_force(home: &Home) -> Result<InForce, String> {
    let config = home.scripts().map_err(|error| error.message().to_owned())?;
    let found = probe_strict(&config)?;
    let missing = [
        (!found.seccomp, "the filter on system calls is not in force"),
        (!found.no_new_privs, "programs could give new privileges"),
        (found.foreign_processes > 0, "processes of the machine are seen"),
        (found.networks > 0, "networks of the machine are seen"),
    ];
    match missing.into_iter().find(|(missing, _)| *missing) {
        Some((_, sentence)) => Err(sentence.to_owned()),
        None => Ok(found),
    }
}

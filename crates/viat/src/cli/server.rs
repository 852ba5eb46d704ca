//! `viat server`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::Args;
use viat_runner::script::Profile;

use super::error::CliError;
use super::isolation;
use super::output::Output;
use super::test::warn_of_deadline;
use crate::wiring::Home;

/// What `server` takes.
#[derive(Args)]
pub struct ServerArgs {
    /// The port of the HTTP API; 0 takes a free one.
    #[arg(long, default_value_t = 8427)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    host: IpAddr,
    /// How far scripts are kept from this machine: `trusted` ones run as the server's user, `strict` ones see nothing but the
    /// system's programs, a folder of their own and the hosts they declare [env: VIAT_PROFILE].
    #[arg(long, value_parser = profile)]
    profile: Option<Profile>,
}

fn profile(text: &str) -> Result<Profile, String> {
    Profile::of(text).ok_or_else(|| "it is trusted or strict".to_owned())
}

/// Serves until it is told to end.
pub fn run(args: &ServerArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    warn_of_deadline(output);
    let home = &isolation::choose(args.profile, false, home)?;
    crate::api::serve(home, SocketAddr::new(args.host, args.port), output)?;
    Ok(ExitCode::SUCCESS)
}

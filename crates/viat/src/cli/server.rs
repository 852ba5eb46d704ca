//! `viat server`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::Args;

use super::error::CliError;
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
}

/// Serves until it is told to end.
pub fn run(args: &ServerArgs, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    warn_of_deadline(output);
    crate::api::serve(home, SocketAddr::new(args.host, args.port), output)?;
    Ok(ExitCode::SUCCESS)
}

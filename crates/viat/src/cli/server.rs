//! `viat server`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use clap::Args;
use viat_runner::script::Profile;

use super::error::CliError;
use super::isolation;
use super::output::Output;
use super::test::warn_of_deadline;
use crate::api::{self, Door, Wanted};
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
    /// Ask for an access token on a loopback address too; elsewhere one is always asked for.
    #[arg(long, env = "VIAT_REQUIRE_TOKEN", value_parser = clap::builder::BoolishValueParser::new(), num_args = 0, default_missing_value = "true", default_value = "false")]
    require_token: bool,
    /// How many requests a second one client may make, a token or else an address; 0: any number [default: 100 where tokens are asked
    /// for, else 0].
    #[arg(long, value_name = "N")]
    rate_limit: Option<u32>,
    /// The largest body of a request, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    max_body: usize,
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
    let wanted =
        Wanted { address: SocketAddr::new(args.host, args.port), require_token: args.require_token, rate_limit: args.rate_limit, max_body: args.max_body };
    let door = api::door(home, &wanted)?;
    // Who has a token may put scripts here: they are not the owner's own.
    let home = &isolation::choose(args.profile, door == Door::Tokens, home)?;
    api::serve(home, &wanted, door, output)?;
    Ok(ExitCode::SUCCESS)
}

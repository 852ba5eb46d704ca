//! Which commands a server runs for callers elsewhere, and what each of them needs.

use clap::Parser;

use super::environments::EnvCommand;
use super::error::CliError;
use super::resource::{ResourceCommand, SecretCommand};
use super::review::ReviewCommand;
use super::run::RunCommand;
use super::schedule::ScheduleCommand;
use super::script::ScriptCommand;
use super::workflow::WorkflowCommand;
use super::{Cli, Command, endpoint};
use crate::tokens::Scope;

/// Whether a command works where it is typed, whatever `VIAT_URL` says.
pub fn is_local(command: &Command) -> bool {
    matches!(
        command,
        Command::Server(_)
            | Command::Init(_)
            | Command::Demo(_)
            | Command::Completions { .. }
            | Command::Store(_)
            | Command::Doctor
            | Command::Env(EnvCommand::Work { .. })
    )
}

/// The scopes of which a caller needs one, besides admin, for a command that was typed elsewhere.
///
/// # Errors
/// It is no command, or one that works where it is typed only.
pub fn remotely(args: &[String]) -> Result<&'static [Scope], CliError> {
    // Which home it is is not for the caller to say.
    let options = args.iter().take_while(|word| *word != "--");
    if options.clone().any(|word| word == "--home" || word.starts_with("--home=")) {
        return Err(CliError::usage("--home means nothing on a server: it has one"));
    }
    let words = std::iter::once("viat").chain(args.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words).map_err(|error| CliError::usage(error.to_string().trim_end().to_owned()))?;
    if is_local(&cli.command) {
        return Err(CliError::usage("this command works where it is typed, not on a server"));
    }
    Ok(needs(&cli.command))
}

fn needs(command: &Command) -> &'static [Scope] {
    match command {
        Command::Script(ScriptCommand::List | ScriptCommand::Show { .. } | ScriptCommand::Logs { .. })
        | Command::Workflow(
            WorkflowCommand::List
            | WorkflowCommand::Show { .. }
            | WorkflowCommand::Versions { .. }
            | WorkflowCommand::Diff { .. }
            | WorkflowCommand::Validate { .. },
        )
        | Command::Endpoint(endpoint::EndpointCommand::List)
        | Command::Env(EnvCommand::List | EnvCommand::Show { .. })
        | Command::Schedule(ScheduleCommand::List | ScheduleCommand::Show { .. })
        | Command::Resource(ResourceCommand::List { .. } | ResourceCommand::Show { .. } | ResourceCommand::Versions { .. })
        | Command::Secret(SecretCommand::List | SecretCommand::Show { .. } | SecretCommand::Versions { .. }) => &[Scope::Read],
        Command::Run(
            RunCommand::List(_)
            | RunCommand::Show { .. }
            | RunCommand::Watch { .. }
            | RunCommand::Logs { .. }
            | RunCommand::Ledger { .. }
            | RunCommand::Transitions { .. },
        ) => &[Scope::Read, Scope::Run],
        Command::Run(_) | Command::Event(_) => &[Scope::Run],
        Command::Review(ReviewCommand::List { .. } | ReviewCommand::Show { .. }) => &[Scope::Read, Scope::Review],
        Command::Review(_) => &[Scope::Review],
        // What is not thought of here needs the most.
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_needs_what_its_route_does() {
        let of = |text: &str| remotely(&text.split(' ').map(str::to_owned).collect::<Vec<_>>()).ok();
        assert_eq!(of("workflow list"), Some([Scope::Read].as_slice()));
        assert_eq!(of("run show x --json"), Some([Scope::Read, Scope::Run].as_slice()));
        assert_eq!(of("run start w"), Some([Scope::Run].as_slice()));
        assert_eq!(of("review decide x --decision approved"), Some([Scope::Review].as_slice()));
        for admin in ["workflow test w", "script delete s", "token list", "audit list", "apply .", "endpoint delete /x", "secret rekey", "schedule pause x"] {
            assert_eq!(of(admin), Some([].as_slice()), "{admin}");
        }
        for refused in
            ["server", "init x", "demo", "doctor", "env work k", "completions bash", "run list --home /tmp", "--home=/ run list", "nothing", "--help"]
        {
            assert_eq!(of(refused), None, "{refused}");
        }
    }
}

//! The command line: what can be typed, and which function does it.

mod demo;
mod doctor;
pub mod error;
mod inputs;
mod output;
mod progress;
mod run;
mod script;
mod test;
mod watch;
mod workflow;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use error::CliError;
use output::Output;

/// A workflow engine that knows what failed, what is done and what happens next.
#[derive(Parser)]
#[command(name = "viat", version, about, propagate_version = true, max_term_width = 110)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone)]
struct Global {
    /// The folder that holds everything: runs, scripts, workflows, logs.
    #[arg(long, global = true, env = "VIAT_HOME", default_value = "./.viat", value_name = "DIR")]
    home: PathBuf,
    /// Print JSON on stdout instead of text.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Scripts: what steps run.
    #[command(subcommand)]
    Script(script::ScriptCommand),
    /// Workflows: which steps run, in which order, and what happens when one fails.
    #[command(subcommand)]
    Workflow(workflow::WorkflowCommand),
    /// Runs: what happened, attempt by attempt.
    #[command(subcommand)]
    Run(run::RunCommand),
    /// The flagship example, end to end: what failed, what was retried, what was not repeated.
    #[command(after_help = "Example:\n  viat demo\n  viat demo /tmp/content")]
    Demo(demo::DemoArgs),
    /// Checks what viat needs on this machine and says how to fix what is missing.
    #[command(after_help = "Example:\n  viat doctor")]
    Doctor,
}

/// Parses the command line and does what it says.
pub fn run() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors; everything else is a usage error, exit 2.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let output = Output::new(cli.global.json);
    match dispatch(&cli, &output) {
        Ok(code) => code,
        Err(error) => {
            error.print(&output);
            ExitCode::from(error.code())
        }
    }
}

fn dispatch(cli: &Cli, output: &Output) -> Result<ExitCode, CliError> {
    let home = || crate::wiring::Home::open(&cli.global.home);
    match &cli.command {
        Command::Script(command) => script::run(command, &home()?, output),
        Command::Workflow(workflow::WorkflowCommand::Test(args)) => test::test(args, &home()?, output),
        Command::Workflow(command) => workflow::run(command, &home()?, output),
        Command::Run(command) => run::run(command, &home()?, output),
        Command::Demo(args) => demo::run_demo(args, output),
        Command::Doctor => doctor::run(&cli.global.home, output),
    }
}

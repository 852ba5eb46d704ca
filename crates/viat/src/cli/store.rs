//! `viat store`: check, backup, restore.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde_json::json;
use viat_store::SqliteStore;

use super::error::CliError;
use super::output::Output;
use crate::wiring::Home;

/// What can be done with what a home remembers.
#[derive(Subcommand)]
pub enum StoreCommand {
    /// Reads the whole database and says whether it is damaged.
    #[command(after_help = "Example:\n  viat store check")]
    Check,
    /// Writes a copy of the database into a new file, while it is in use. Logs and keys are not in it.
    #[command(after_help = "Example:\n  viat store backup /backups/viat-2026-12-01.db")]
    Backup {
        /// The file; it must not be there yet.
        file: PathBuf,
    },
    /// Puts a copy in the place of a database that is gone.
    #[command(after_help = "Example:\n  viat --home /srv/viat store restore /backups/viat-2026-12-01.db")]
    Restore {
        /// The file that `backup` wrote.
        file: PathBuf,
    },
}

/// Does what the command says.
pub fn run(command: &StoreCommand, folder: &Path, output: &Output) -> Result<ExitCode, CliError> {
    // A copy of the wrong home would be believed to be one of the server's.
    if std::env::var_os("VIAT_URL").is_some_and(|url| !url.is_empty()) {
        return Err(CliError::usage("VIAT_URL names a server elsewhere, and `viat store` works on a home of this machine")
            .help("run it on the server's machine: viat --home DIR store backup FILE; or unset VIAT_URL"));
    }
    match command {
        StoreCommand::Check => check(&Home::open(folder)?, output)?,
        StoreCommand::Backup { file } => backup(file, &Home::open(folder)?, output)?,
        StoreCommand::Restore { file } => restore(file, folder, output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn check(home: &Home, output: &Output) -> Result<(), CliError> {
    home.store.check().map_err(CliError::store)?;
    if output.json { output.value(&json!({"whole": true})) } else { output.line("the database is whole") }
}

fn backup(file: &Path, home: &Home, output: &Output) -> Result<(), CliError> {
    home.store.backup(file).map_err(CliError::store)?;
    let bytes = std::fs::metadata(file).map(|found| found.len()).unwrap_or(0);
    if output.json {
        return output.value(&json!({"file": file, "bytes": bytes}));
    }
    output.line(&format!("{} has a copy of the database, {bytes} bytes", file.display()))?;
    output.note("not in it: what attempts printed (logs/), and the keys of the home (secrets.key, links.key): keep those apart");
    Ok(())
}

fn restore(file: &Path, folder: &Path, output: &Output) -> Result<(), CliError> {
    SqliteStore::restore(file, folder).map_err(|error| {
        CliError::store(error).help("restore takes a file that `viat store backup` wrote, into a home whose viat.db and viat.db-wal are not there")
    })?;
    if output.json {
        return output.value(&json!({"home": folder}));
    }
    output.line(&format!("{} is as it was when the copy was made", folder.display()))?;
    output.note("runs that had not ended then go on from there: what they did since is done again. Look at them first: viat run list");
    Ok(())
}

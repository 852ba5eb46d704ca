//! What a command reads that somebody typed elsewhere: it asks the server, which asks them.

use std::path::Path;

use serde::de::DeserializeOwned;

use super::client::Client;
use super::error::CliError;
use crate::api::{Kind, Want};

/// The variable that says that this command was typed elsewhere: its id in the server.
pub const COMMAND: &str = "VIAT_COMMAND";

/// What lies there, where it was typed; `None` if this command was typed here.
pub fn read(kind: Kind, path: &Path, limit: u64) -> Option<Result<Vec<u8>, CliError>> {
    let id = std::env::var(COMMAND).ok().filter(|id| !id.is_empty())?;
    Some(ask(&id, Want { kind, path: path.to_string_lossy().into_owned(), limit }))
}

/// The names in a folder, where it was typed; see [`read`].
pub fn folder<T: DeserializeOwned>(path: &Path) -> Option<Result<T, CliError>> {
    let names = read(Kind::Folder, path, 1 << 20)?;
    Some(names.and_then(|names| serde_json::from_slice(&names).map_err(|error| CliError::failed(format!("{} cannot be read: {error}", path.display())))))
}

fn ask(id: &str, want: Want) -> Result<Vec<u8>, CliError> {
    let home = std::env::args_os().skip_while(|word| word != "--home").nth(1).unwrap_or_default();
    let client = Client::find(Path::new(&home))?.ok_or_else(|| CliError::failed("the server that runs this command is gone"))?;
    client.post_for_bytes(&format!("/api/v1/commands/{id}/wants"), &want)
}

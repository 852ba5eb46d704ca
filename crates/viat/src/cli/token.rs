//! `viat token`: create, list, revoke.

use std::process::ExitCode;

use clap::Subcommand;
use serde_json::{Value, json};

use super::error::CliError;
use super::output::{Output, printable};
use crate::tokens::{self, Scope, Token, TokenBody};
use crate::wiring::Home;

/// What can be done with access tokens.
#[derive(Subcommand)]
pub enum TokenCommand {
    /// Makes an access token and prints it, this once: only a hash of it is kept.
    #[command(
        after_help = "Example:\n  viat token create --name ci --scope read --scope run --expires P90D\n  export VIAT_TOKEN=$(viat token create --name me --scope admin)"
    )]
    Create {
        /// Whom or what it is for.
        #[arg(long)]
        name: String,
        /// What it permits: read (look at everything), run (start runs, tell them something), review (decide), admin (everything).
        #[arg(long = "scope", value_enum, required = true, value_delimiter = ',')]
        scopes: Vec<Scope>,
        /// For how long it can be used; for ever, if it is not given.
        #[arg(long, value_name = "DURATION")]
        expires: Option<String>,
    },
    /// Lists tokens: what they permit, when they expire, when they were last used.
    #[command(after_help = "Example:\n  viat token list")]
    List,
    /// Makes a token worthless, at once and for good.
    #[command(alias = "delete", after_help = "Example:\n  viat token revoke ci")]
    Revoke {
        /// Its id, the beginning of it, or its name.
        token: String,
    },
}

/// Does what the command says.
pub fn run(command: &TokenCommand, home: &Home, output: &Output) -> Result<ExitCode, CliError> {
    let store = home.store.as_ref();
    match command {
        TokenCommand::Create { name, scopes, expires } => {
            super::inputs::duration(expires.as_deref(), "--expires")?;
            let body = TokenBody { name: name.clone(), scopes: scopes.clone(), expires: expires.clone() };
            let (token, text) = tokens::create(store, &home.actor, body)?;
            show_created(&created(&token, &text), output)?;
        }
        TokenCommand::List => show_list(&json!(tokens::list(store)?), output)?,
        TokenCommand::Revoke { token } => show_revoked(&json!(tokens::revoke(store, &home.actor, token)?), output)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A token that has just been made, with its text.
pub fn created(token: &Token, text: &str) -> Value {
    let mut value = json!(token);
    if let Some(map) = value.as_object_mut() {
        map.insert("token".to_owned(), text.into());
    }
    value
}

fn show_created(token: &Value, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.value(token);
    }
    output.note(&format!("token {} ({}) is shown this once; keep it where secrets are kept", text(token, "id"), printable(text(token, "name"))));
    output.line(text(token, "token"))
}

fn show_list(tokens: &Value, output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.value(tokens);
    }
    let row = |token: &Value| {
        let scopes: Vec<&str> = token["scopes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let cell = |key: &str| text(token, key).to_owned();
        vec![cell("id"), printable(&cell("name")), scopes.join(","), cell("status"), cell("created_at"), cell("expires_at"), cell("last_used_at")]
    };
    let rows: Vec<Vec<String>> = tokens.as_array().into_iter().flatten().map(row).collect();
    output.table(&["TOKEN", "NAME", "SCOPES", "STATUS", "CREATED", "EXPIRES", "LAST USED"], &rows, "no tokens yet: viat token create --name N --scope admin")
}

fn show_revoked(token: &Value, output: &Output) -> Result<(), CliError> {
    if output.json { output.value(token) } else { output.line(&format!("token {} ({}) is revoked", text(token, "id"), printable(text(token, "name")))) }
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

//! What a command ends with when it cannot do what it was asked: a sentence, what to do, and an exit code.

use viat_runner::assets::AssetError;
use viat_runner::driver::DriverError;
use viat_store::StoreError;

use super::output::Output;

/// Usage or definition error.
const USAGE: u8 = 2;
/// Not found, or refused because something else holds it.
const REFUSED: u8 = 3;
/// The store or the server failed.
const STORE: u8 = 4;

/// The command was interrupted before the run ended.
const INTERRUPTED: u8 = 1;

/// A command's failure.
#[derive(Debug)]
pub struct CliError {
    code: u8,
    message: String,
    help: Option<String>,
    /// Diagnostics and the like, already drawn; replaces the message in text output.
    drawn: Option<String>,
    data: Option<serde_json::Value>,
    missing: bool,
    held: bool,
}

impl CliError {
    fn new(code: u8, message: impl Into<String>) -> CliError {
        CliError { code, message: message.into(), help: None, drawn: None, data: None, missing: false, held: false }
    }

    /// The command, a file or an input is wrong.
    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::new(USAGE, message)
    }

    /// What was asked for is not there, or something forbids it.
    pub fn refused(message: impl Into<String>) -> CliError {
        CliError::new(REFUSED, message)
    }

    /// The server or the machine failed.
    pub fn failed(message: impl Into<String>) -> CliError {
        CliError::new(STORE, message)
    }

    /// What was asked for is not there.
    pub fn not_found(message: impl Into<String>) -> CliError {
        CliError { missing: true, ..CliError::new(REFUSED, message) }
    }

    /// A person stopped the command, not the run.
    pub fn interrupted(message: impl Into<String>) -> CliError {
        CliError::new(INTERRUPTED, message)
    }

    /// The store refused or failed.
    pub fn store(error: StoreError) -> CliError {
        if matches!(error, StoreError::Fenced { .. }) {
            return CliError::held();
        }
        let code = if error.is_refusal() { REFUSED } else { STORE };
        CliError::new(code, error.to_string())
    }

    /// What is stored is missing or unreadable.
    pub fn assets(error: AssetError) -> CliError {
        match error {
            AssetError::Store(error) => CliError::store(error),
            AssetError::Missing(what) => CliError::not_found(format!("there is no {what}")),
            AssetError::Unreadable(what) => CliError::new(STORE, what),
        }
    }

    /// The engine did not do as it was asked.
    pub fn driver(error: DriverError) -> CliError {
        match error {
            DriverError::Store(error) => CliError::store(error),
            DriverError::Assets(error) => CliError::assets(error),
            DriverError::Owned(_) => CliError::held(),
            DriverError::Ended | DriverError::Refused(_) | DriverError::NotHere => CliError::refused(error.to_string()),
            DriverError::TooDeep | DriverError::TooBig(_) => CliError::usage(error.to_string()),
            DriverError::Io(_) | DriverError::Closed | DriverError::Crowded => CliError::new(STORE, error.to_string()),
        }
    }

    /// Another process has the run.
    fn held() -> CliError {
        let error = CliError::refused("another viat process on this home has the run, and that process is alive")
            .help("wait until that process is through, or tell it from here: run cancel, event send, review decide and run settle reach it by themselves");
        CliError { held: true, ..error }
    }

    /// Whether another process has the run; it may let go of it soon.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The same, with what to do instead.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> CliError {
        self.help = Some(help.into());
        self
    }

    /// The same, drawn at length, and as data.
    #[must_use]
    pub fn drawn(mut self, text: String, data: serde_json::Value) -> CliError {
        self.drawn = Some(text);
        self.data = Some(data);
        self
    }

    /// Whether what was asked for is not there.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// Whether the command, a file or an input is wrong.
    pub fn is_usage(&self) -> bool {
        self.code == USAGE
    }

    /// What to do instead.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether all that was found is of this code.
    pub fn is_only(&self, code: &str) -> bool {
        let found = self.data.as_ref().and_then(serde_json::Value::as_array);
        found.is_some_and(|found| found.iter().all(|one| one.get("code").and_then(serde_json::Value::as_str) == Some(code)))
    }

    /// What was found, as data.
    pub fn data(&self) -> Option<&serde_json::Value> {
        self.data.as_ref()
    }

    /// Whether the store, not the caller, is at fault: the same may succeed later.
    pub fn is_of_the_store(&self) -> bool {
        self.code == STORE
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Prints it: text on stderr, or with `--json` an object on stderr too, for stdout holds results only.
    pub fn print(&self, output: &Output) {
        if output.json {
            let mut error = serde_json::json!({"error": {"message": self.message, "help": self.help, "exit": self.code}});
            if self.missing {
                error["error"]["missing"] = true.into();
            }
            if let (Some(data), Some(map)) = (&self.data, error.as_object_mut()) {
                map.insert("diagnostics".into(), data.clone());
            }
            return output.note(&error.to_string());
        }
        if let Some(drawn) = &self.drawn {
            output.note(drawn);
            output.note("");
        }
        output.note(&format!("{} {}", output.paint("31;1", "error:"), self.message));
        if let Some(help) = &self.help {
            output.note(&format!("{} {help}", output.paint("36", "help:")));
        }
    }
}

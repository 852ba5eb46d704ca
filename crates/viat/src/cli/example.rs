//! `viat init`: a project folder from an example that the binary carries.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::error::CliError;
use super::output::Output;

/// What `init` takes.
#[derive(Args)]
pub struct InitArgs {
    /// The folder to make.
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// The example to begin with.
    #[arg(long, value_enum, default_value_t = Example::Recover)]
    example: Example,
}

/// The examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Example {
    /// A refusal that a catch recovers from.
    Recover,
    /// Check, generate, stage, ask a person, save, tell.
    Content,
    /// A retry, a refusal, an effect that is undone once.
    Ledger,
}

macro_rules! files {
    ($example:literal: $($file:literal),+ $(,)?) => {
        &[$(($file, include_str!(concat!("../../../../examples/", $example, "/", $file)))),+]
    };
}

impl Example {
    /// Its files: path in the project, text.
    pub fn files(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Example::Recover => files!("recover": "README.md", "scripts/wf_fail.py", "scripts/wf_echo.py", "workflows/recover.yaml"),
            Example::Content => files!("content":
                "README.md",
                "scripts/check_input.py",
                "scripts/generate_draft.py",
                "scripts/stage_draft.py",
                "scripts/discard_draft.py",
                "scripts/save_result.py",
                "scripts/notify.py",
                "scripts/find_notification.py",
                "workflows/content.yaml",
            ),
            Example::Ledger => files!("ledger": "README.md", "scripts/prepare.py", "scripts/notify.py", "scripts/release.py", "workflows/ledger.yaml"),
        }
    }
}

/// Makes the folder; files that are there already are kept.
pub fn init(args: &InitArgs, output: &Output) -> Result<ExitCode, CliError> {
    let written = write(&args.dir, args.example)?;
    if output.json {
        output.value(&json!({"dir": args.dir, "written": written}))?;
    } else {
        for file in &written {
            output.line(&format!("wrote {}", args.dir.join(file).display()))?;
        }
        let kept = args.example.files().len() - written.len();
        if kept > 0 {
            output.line(&format!("kept {kept} files that were there"))?;
        }
        output.line(&format!("next: viat apply {}", args.dir.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the files of an example that are not there yet; gives their names.
pub fn write(dir: &Path, example: Example) -> Result<Vec<&'static str>, CliError> {
    let mut written = Vec::new();
    for (file, text) in example.files() {
        let path = dir.join(file);
        if path.exists() {
            continue;
        }
        let done = path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&path, text));
        done.map_err(|error| CliError::usage(format!("{} cannot be written: {error}", path.display())))?;
        written.push(*file);
    }
    Ok(written)
}

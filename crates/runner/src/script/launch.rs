//! How a worker of each language is started, and the first frame that it reads.

use std::ffi::OsString;
use std::path::PathBuf;

use super::config::{Language, RunnerConfig, ScriptCode};
use super::ends::frame;
use super::fault::Fault;
use super::settings::Isolation;
use super::{guardian, javascript, python};

/// A worker's command line.
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    /// The folder of its environment, if it has one.
    pub(crate) environment: Option<PathBuf>,
}

impl Launch {
    /// The command line for a script; the fault says what is missing.
    pub(crate) fn of(config: &RunnerConfig, code: &ScriptCode) -> Result<Launch, Fault> {
        let folder = match &code.environment {
            Some(key) => Some(config.environments.ready(key, &code.name)?),
            None => None,
        };
        let missing = |what: &str| Fault::no_worker(format!("no worker process could be started for script {}: {what}", code.name));
        let words = |words: &[&str]| words.iter().map(OsString::from).collect();
        let launch = match code.language {
            Language::Python => {
                let base = config.interpreter.as_ref().ok_or_else(|| missing("there is no python3 (viat doctor)"))?;
                let program = folder.as_ref().map_or_else(|| base.path.clone(), |folder| folder.join("bin/python"));
                // -S: the worker looks for site packages when an import misses (python/viat/worker.py)
                Launch { program, args: words(&["-I", "-S", "-X", "utf8", "-c", python::LOADER]), environment: folder }
            }
            Language::JavaScript => {
                let node = config.node.find().map_err(missing)?;
                let mut args = Vec::new();
                if let Some(memory) = config.limits_of(code).memory {
                    args.push(OsString::from(format!("--max-old-space-size={}", (memory >> 20).max(1))));
                }
                args.extend([OsString::from("-e"), OsString::from(javascript::WORKER), OsString::from("--")]);
                Launch { program: node.path.clone(), args, environment: folder }
            }
            Language::Shell | Language::Http => {
                // the guardian is this very binary, whatever lies at its path by now
                let args = words(&[guardian::ARGUMENT, guardian::WORKER, code.language.name()]);
                Launch { program: PathBuf::from("/proc/self/exe"), args, environment: folder }
            }
        };
        Ok(launch)
    }
}

/// The first frame: parts, each behind its little-endian u32 length; every worker takes it apart alike.
pub(crate) fn init_frame(config: &RunnerConfig, code: &ScriptCode) -> Vec<u8> {
    let limit = config.value_limit_of(code).to_string();
    let mut parts: Vec<Vec<u8>> = vec![code.name.clone().into(), code.source.as_bytes().to_vec(), limit.into()];
    match code.language {
        Language::Python => {
            let bundle = config.interpreter.as_ref().and_then(|interpreter| interpreter.bundle.clone()).unwrap_or_default();
            // an environment may have another Python, which cannot read what ours compiled
            let sources = if bundle.is_empty() || code.environment.is_some() { python::sources() } else { String::new() };
            let mode = if code.settings.isolation == Isolation::Fresh { "fresh" } else { "warm" };
            parts.extend([bundle.to_vec(), sources.into(), mode.into()]);
        }
        Language::JavaScript => {
            let modules = code.environment.as_ref().and_then(|key| config.environments.ready(key, &code.name).ok());
            parts.push(modules.map(|folder| folder.join("node_modules").to_string_lossy().into_owned()).unwrap_or_default().into());
        }
        Language::Shell => {}
        Language::Http => parts.push(serde_json::to_vec(&config.hosts_for(code)).unwrap_or_default()),
    }
    let sized: Vec<u8> =
        parts.iter().flat_map(|part| u32::try_from(part.len()).unwrap_or(u32::MAX).to_le_bytes().into_iter().chain(part.iter().copied())).collect();
    frame(b'i', &[&sized])
}

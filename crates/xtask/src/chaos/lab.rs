//! The folder that a chaos run lives in: the home under test, the scripts and workflows, and what scripts leave behind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::ChaosArgs;
use super::clock::Clock;
use super::disk::Disk;
use crate::shell::Done;

/// Where everything is.
pub struct Lab {
    base: PathBuf,
    binary: PathBuf,
    /// The home that is tested.
    pub home: PathBuf,
    /// Every begin, effect and end of a script, a line each.
    pub effects: PathBuf,
    /// What the flagship writes to.
    pub outbox: PathBuf,
    /// The workflows, for who wants to know their rules.
    pub workflows: PathBuf,
    /// The small disk under the home, if that is part of the test.
    pub disk: Option<Disk>,
    /// The server's clock, if that is part of the test.
    pub clock: Option<Clock>,
}

impl Lab {
    /// Makes the folder and applies the scripts and workflows to a new home.
    pub fn open(args: &ChaosArgs, binary: PathBuf) -> Done<Lab> {
        // Until everything is ready it goes by itself.
        let folder = tempfile::Builder::new().prefix("viat-chaos-").tempdir()?;
        let base = folder.path().to_path_buf();
        let project = base.join("project");
        let disk = args.disk_full.then(|| Disk::mount(&base.join("disk"))).transpose()?;
        let clock = args.clock.then(|| Clock::new(&base, &binary)).transpose()?;
        let home = if disk.is_some() { base.join("disk/home") } else { base.join("home") };
        let (effects, outbox, workflows) = (base.join("effects"), base.join("outbox"), project.join("workflows"));
        let lab = Lab { base, binary, home, effects, outbox, workflows, disk, clock };
        std::fs::create_dir_all(&lab.outbox)?;
        std::fs::write(&lab.effects, "")?;
        assemble(&project)?;
        lab.viat(&["apply", &project.to_string_lossy(), "--publish"])?;
        let _kept = folder.keep();
        Ok(lab)
    }

    /// The binary under test on the home, with nothing of the caller's settings.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("VIAT_") && name != "VIAT_PYTHON") {
            command.env_remove(name);
        }
        command.args(args).current_dir(&self.base).stdin(Stdio::null());
        command.env("VIAT_HOME", &self.home).env("NO_COLOR", "1").env("CHAOS_EFFECTS", &self.effects).env("VIAT_SCRIPT_ENV", "CHAOS_EFFECTS");
        command
    }

    /// What a command prints.
    ///
    /// # Errors
    /// It does not exit with 0.
    pub fn viat(&self, args: &[&str]) -> Done<String> {
        let done = self.command(args).output()?;
        if !done.status.success() {
            return Err(format!("viat {}: {}: {}", args.join(" "), done.status, String::from_utf8_lossy(&done.stderr).trim()).into());
        }
        Ok(String::from_utf8(done.stdout)?)
    }

    /// As [`Lab::viat`], as JSON.
    pub fn json(&self, args: &[&str]) -> Done<Value> {
        Ok(serde_json::from_str(&self.viat(args)?)?)
    }

    /// Where the server's stderr goes.
    pub fn log(&self) -> PathBuf {
        self.base.join("server.log")
    }

    /// Removes everything.
    pub fn remove(&self) -> Done {
        if let Some(disk) = &self.disk {
            disk.unmount()?;
        }
        Ok(std::fs::remove_dir_all(&self.base)?)
    }

    /// Keeps everything; says where.
    pub fn keep(&self) -> Done<&Path> {
        if let Some(disk) = &self.disk {
            copy(&self.home, &self.base.join("home"))?;
            disk.unmount()?;
        }
        Ok(&self.base)
    }
}

/// The project: each script has the helper in front of it, and records its own beginning and end.
fn assemble(project: &Path) -> Done {
    let (ours, flagship) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("chaos"), crate::root().join("examples/content"));
    let helper = std::fs::read_to_string(ours.join("effects.py"))?;
    std::fs::create_dir_all(project.join("scripts"))?;
    std::fs::create_dir_all(project.join("workflows"))?;
    for from in [&ours, &flagship] {
        for script in std::fs::read_dir(from.join("scripts"))? {
            let script = script?;
            let text = format!("{helper}{}\n\nmain = recorded(main)\n", std::fs::read_to_string(script.path())?);
            std::fs::write(project.join("scripts").join(script.file_name()), text)?;
        }
        copy(&from.join("workflows"), &project.join("workflows"))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Done {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, to) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &to)?;
        } else if kind.is_file() {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

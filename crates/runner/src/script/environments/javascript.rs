//! Environments of JavaScript: `npm` finds the versions and installs them into `node_modules`.

use std::fs;
use std::process::Command;

use super::build::Site;
use super::tools::{Chosen, Trouble, run};

/// The Node that scripts run in.
pub(super) fn interpreter(site: &Site<'_>) -> Result<Chosen, Trouble> {
    let path = site.tools.node.clone().ok_or_else(|| Trouble::Said("there is no node (viat doctor)".to_owned()))?;
    let identity = run(site, "node", Command::new(&path).args(["-p", "`node ${process.versions.modules} ${process.platform} ${process.arch}`"]))?;
    Ok(Chosen { path, identity: identity.trim().to_owned() })
}

/// The versions that fit, with the hashes of their files.
pub(super) fn lock(site: &Site<'_>) -> Result<String, Trouble> {
    write_package(site)?;
    run(site, "npm", npm(site)?.args(["install", "--package-lock-only"]))?;
    Ok(fs::read_to_string(site.draft.join("package-lock.json"))?)
}

/// Installs a lock; npm checks the hashes in it.
pub(super) fn install(site: &Site<'_>, lock: &str) -> Result<(), Trouble> {
    write_package(site)?;
    fs::write(site.draft.join("package-lock.json"), lock)?;
    run(site, "npm", npm(site)?.arg("ci"))?;
    // a script without packages has an environment all the same
    fs::create_dir_all(site.draft.join("node_modules"))?;
    Ok(())
}

fn write_package(site: &Site<'_>) -> Result<(), Trouble> {
    let split = |text: &String| match text.rfind('@').filter(|at| *at > 0) {
        Some(at) => (text[..at].to_owned(), text[at + 1..].to_owned()),
        None => (text.clone(), "*".to_owned()),
    };
    let dependencies: std::collections::BTreeMap<String, String> = site.request.dependencies().iter().map(split).collect();
    let package = serde_json::json!({"name": "script", "version": "0.0.0", "private": true, "dependencies": dependencies});
    Ok(fs::write(site.draft.join("package.json"), package.to_string())?)
}

fn npm(site: &Site<'_>) -> Result<Command, Trouble> {
    let npm = site.tools.npm.as_ref().ok_or_else(|| {
        Trouble::Said(
            "there is no npm, which installs what scripts in javascript need; install it (Debian: apt-get install npm), or name one in VIAT_NPM".to_owned(),
        )
    })?;
    let mut command = Command::new(npm);
    // scripts of packages are code that nobody asked to run
    command.args(["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]).current_dir(&site.draft).env("NO_COLOR", "1");
    Ok(command)
}

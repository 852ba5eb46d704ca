//! Environments of Python scripts: `uv` finds the versions and installs them into a virtual environment.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::build::Site;
use super::tools::{Chosen, Trouble, run};

/// What says of a Python all that decides which packages fit it.
const IDENTITY: &str = "import sys, sysconfig; print(sys.implementation.name, '%d.%d.%d' % sys.version_info[:3], sysconfig.get_platform())";

/// The Python for a request: the home's own if it is one that the request takes, else another one of the machine.
pub(super) fn interpreter(site: &Site<'_>) -> Result<Chosen, Trouble> {
    let own = site.tools.python.as_ref().ok_or_else(|| Trouble::Said("there is no python3 (viat doctor)".to_owned()))?;
    let path = match site.request.requires_python() {
        None => own.clone(),
        Some(wanted) => find(site, own, wanted)?,
    };
    let identity = run(site, "python", Command::new(&path).args(["-I", "-S", "-c", IDENTITY]))?;
    Ok(Chosen { path, identity: identity.trim().to_owned() })
}

fn find(site: &Site<'_>, own: &Path, wanted: &str) -> Result<PathBuf, Trouble> {
    // in the order of PATH, so that the home's own comes first
    let folders = own.parent().map(Path::to_path_buf).into_iter();
    let others = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>()).unwrap_or_default();
    let path = std::env::join_paths(folders.chain(others)).map_err(|error| Trouble::Said(format!("PATH cannot be used: {error}")))?;
    let mut command = uv(site)?;
    command.args(["python", "find", "--no-project", "--python-preference", "only-system", wanted]).env("PATH", path);
    Ok(PathBuf::from(run(site, "uv", &mut command)?.trim()))
}

/// The versions that fit, with the hashes of their files.
pub(super) fn lock(site: &Site<'_>, python: &Path) -> Result<String, Trouble> {
    if site.request.dependencies().is_empty() {
        return Ok(String::new());
    }
    // as a project file: there a dependency can be nothing but a dependency
    let list = serde_json::to_string(site.request.dependencies()).map_err(std::io::Error::other)?;
    let project = site.draft.join("pyproject.toml");
    fs::write(&project, format!("[project]\nname = \"script\"\nversion = \"0\"\ndependencies = {list}\n"))?;
    let mut command = uv(site)?;
    command.args(["pip", "compile", "--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--python"]).arg(python).arg(&project);
    let lock = run(site, "uv", &mut command)?;
    fs::remove_file(project)?;
    Ok(lock)
}

/// Installs a lock; whatever has a hash in it is checked against that.
pub(super) fn install(site: &Site<'_>, python: &Path, lock: &str) -> Result<(), Trouble> {
    fs::remove_dir_all(&site.draft)?;
    let mut make = uv(site)?;
    make.args(["venv", "--quiet", "--no-project", "--relocatable", "--python"]).arg(python).arg(&site.draft);
    run(site, "uv", &mut make)?;
    if lock.is_empty() {
        return Ok(());
    }
    let file = site.draft.join("requirements.txt");
    fs::write(&file, lock)?;
    let mut install = uv(site)?;
    install.args(["pip", "install", "--quiet", "--no-deps", "--compile-bytecode", "--python"]).arg(site.draft.join("bin/python")).arg("-r").arg(file);
    run(site, "uv", &mut install).map(drop)
}

fn uv(site: &Site<'_>) -> Result<Command, Trouble> {
    let uv = site.tools.uv.as_ref().ok_or_else(|| {
        Trouble::Said("there is no uv, which installs what scripts in python need; install it (pip install uv), or name one in VIAT_UV".to_owned())
    })?;
    let mut command = Command::new(uv);
    // nothing of the shell that happened to start this, and no interpreter from the network
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME", "PYTHONPATH", "UV_PYTHON", "UV_PROJECT"] {
        command.env_remove(name);
    }
    command.envs([("UV_PYTHON_DOWNLOADS", "never"), ("UV_NO_PROGRESS", "1"), ("NO_COLOR", "1")]);
    if site.tools.build_nothing {
        command.env("UV_NO_BUILD", "1");
    }
    Ok(command)
}

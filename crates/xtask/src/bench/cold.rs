//! How long the binary takes from nothing: its version, and a whole workflow with a refusal and its recovery.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::samples::{Spread, spread};
use crate::setup;
use crate::shell::Done;

const FAIL: &str = "from viat import ViatError\n\ndef main():\n    raise ViatError(status=409, code=\"fixture_conflict\", message=\"fixture refusal\")\n";
const ECHO: &str = "def main(value):\n    return value\n";
const PACKAGED: &str = "# /// script\n# dependencies = [\"iniconfig\"]\n# ///\nimport iniconfig\n\ndef main():\n    return iniconfig.__name__\n";
const PACKAGED_FLOW: &str = "steps:\n  - {id: packaged, script: packaged}\noutputs: {v: $packaged.output}\n";
const WORKFLOW: &str = "inputs: {}
steps:
  - id: request
    script: wf_fail
    on_error:
      catch:
        - id: recovery
          script: wf_echo
          args:
            value:
              recovered: true
              code: $_error.code
outputs:
  result: $request.output
";

/// Processes from their start to their end.
#[derive(Clone, Debug, Serialize)]
pub struct Cold {
    /// `viat --version`.
    pub version: Spread,
    /// `viat workflow test recover --input '{}'`, each with new workers.
    pub test: Spread,
    /// `viat workflow test` of one step whose script has an environment that is built: the first call of its worker. `None` if the
    /// environment could not be built, as without a network.
    pub packaged: Option<Spread>,
}

/// Starts the binary again and again.
pub fn starts(viat: &Path, dir: &Path, count: usize) -> Done<Cold> {
    let lab = Shelf { viat: viat.to_path_buf(), folder: dir.join("cold"), uv: setup::uv() };
    std::fs::create_dir_all(&lab.folder)?;
    for (name, text) in [("wf_fail", FAIL), ("wf_echo", ECHO)] {
        std::fs::write(lab.folder.join(format!("{name}.py")), text)?;
        lab.run(&["script", "create", "--name", name, "--language", "python", "--file", &format!("{name}.py")])?;
    }
    std::fs::write(lab.folder.join("recover.yaml"), WORKFLOW)?;
    lab.run(&["workflow", "create", "recover", "--file", "recover.yaml"])?;
    let (mut version, mut test) = (Vec::new(), Vec::new());
    for _ in 0..count {
        version.push(lab.run(&["--version"])?);
        test.push(lab.run(&["workflow", "test", "recover", "--input", "{}"])?);
    }
    Ok(Cold { version: spread(version), test: spread(test), packaged: lab.packaged(count)? })
}

struct Shelf {
    viat: PathBuf,
    folder: PathBuf,
    uv: Option<PathBuf>,
}

impl Shelf {
    /// The first call of a script that has packages of its own, again and again.
    fn packaged(&self, count: usize) -> Done<Option<Spread>> {
        std::fs::write(self.folder.join("packaged.py"), PACKAGED)?;
        let create = ["script", "create", "--name", "packaged", "--language", "python", "--file", "packaged.py", "--wait"];
        if let Err(problem) = self.run(&create) {
            crate::output::note(&format!("no environment to measure: {problem}"));
            return Ok(None);
        }
        std::fs::write(self.folder.join("packaged.yaml"), PACKAGED_FLOW)?;
        self.run(&["workflow", "create", "packaged", "--file", "packaged.yaml"])?;
        let took = (0..count).map(|_| self.run(&["workflow", "test", "packaged"])).collect::<Done<Vec<_>>>()?;
        Ok(Some(spread(took)))
    }

    fn run(&self, args: &[&str]) -> Done<Duration> {
        let mut command = Command::new(&self.viat);
        command.args(args).current_dir(&self.folder).env("VIAT_HOME", self.folder.join("home")).stdin(Stdio::null());
        command.envs(self.uv.iter().map(|uv| ("VIAT_UV", uv)));
        let start = Instant::now();
        let ended = command.output()?;
        let took = start.elapsed();
        if ended.status.success() { Ok(took) } else { Err(format!("viat {}: {}", args.join(" "), String::from_utf8_lossy(&ended.stderr)).into()) }
    }
}

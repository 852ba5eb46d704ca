//! What a script says of itself: the `script` block in its comments, with `dependencies` and the table `[tool.viat]`.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use super::config::{Language, PoolConfig};
use super::limits::Limits;

/// Dependencies of one script at most.
const MAX_DEPENDENCIES: usize = 200;
/// Secrets of one script at most.
const MAX_SECRETS: usize = 32;
/// Workers, waiting attempts and the like at most.
const MAX_COUNT: i64 = 1_000_000;

/// How attempts are kept from one another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// One process serves many attempts.
    #[default]
    Warm,
    /// Each attempt has a process of its own.
    Fresh,
}

/// What `[tool.viat]` says of the pool; what it does not say has its default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PoolSettings {
    /// Workers kept alive.
    pub min: Option<usize>,
    /// Workers at most.
    pub max: Option<usize>,
    /// Attempts that may wait.
    pub queue: Option<usize>,
    /// How long each may wait, in milliseconds.
    pub queue_wait_ms: Option<u64>,
    /// Attempts after which a worker is replaced.
    pub recycle_after: Option<u64>,
    /// Bytes that a worker may grow by before it is replaced.
    pub recycle_growth: Option<u64>,
    /// How long a worker above `min` stays idle, in milliseconds.
    pub idle_after_ms: Option<u64>,
}

impl PoolSettings {
    /// The pool's settings: these, and where they are silent the general ones.
    pub fn over(&self, general: &PoolConfig) -> PoolConfig {
        let max = self.max.unwrap_or(general.max).max(1);
        PoolConfig {
            min: self.min.unwrap_or(general.min).min(max),
            max,
            queue: self.queue.unwrap_or(general.queue),
            queue_wait: self.queue_wait_ms.map_or(general.queue_wait, Duration::from_millis),
            recycle_after: self.recycle_after.unwrap_or(general.recycle_after),
            recycle_growth: self.recycle_growth.unwrap_or(general.recycle_growth),
            idle_after: self.idle_after_ms.map_or(general.idle_after, Duration::from_millis),
        }
    }
}

/// The table `[tool.viat]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// How attempts are kept from one another.
    pub isolation: Isolation,
    /// Its workers.
    pub pool: PoolSettings,
    /// What an attempt may use.
    pub limits: Limits,
    /// The engine's environment variables that it sees.
    pub env: Vec<String>,
    /// The secrets that it is given.
    pub secrets: Vec<String>,
    /// The hosts that it speaks to; `None` if it does not say.
    pub network: Option<Vec<String>>,
}

/// The whole block.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// What has to be installed for it.
    pub dependencies: Vec<String>,
    /// Which Python it needs, as PEP 440 says it.
    pub requires_python: Option<String>,
    /// `[tool.viat]`.
    pub settings: Settings,
}

/// What is wrong with a block, and in which line of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataError {
    /// From 1.
    pub line: u32,
    /// What is wrong, and what may stand there.
    pub message: String,
}

impl Metadata {
    /// Reads the block of a script, if it has one.
    ///
    /// # Errors
    /// See [`MetadataError`].
    pub fn of(language: Language, source: &str) -> Result<Metadata, MetadataError> {
        let Some((first, text)) = block(language, source)? else { return Ok(Metadata::default()) };
        let at = |span: Option<Range<usize>>| {
            let lines = span.map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count());
            first + u32::try_from(lines).unwrap_or(0)
        };
        let table: Table = text.parse().map_err(|error: toml::de::Error| MetadataError { line: at(error.span()), message: error.message().to_owned() })?;
        read(language, &table).map_err(|(message, key)| MetadataError { line: first + line_of(&text, key.as_deref()), message })
    }
}

/// Where a key is written, for the message; the first line if it cannot be found.
fn line_of(text: &str, key: Option<&str>) -> u32 {
    let Some(key) = key else { return 0 };
    let found = text.lines().position(|line| {
        let word = |(at, _): (usize, &str)| {
            let edge = |each: Option<char>| each.is_none_or(|each| !each.is_alphanumeric() && each != '_' && each != '-');
            edge(line[..at].chars().next_back()) && edge(line[at + key.len()..].chars().next())
        };
        line.match_indices(key).any(word)
    });
    found.and_then(|line| u32::try_from(line).ok()).unwrap_or(0)
}

/// The block's text without its comment marks, and the line of the script in which it begins.
fn block(language: Language, source: &str) -> Result<Option<(u32, String)>, MetadataError> {
    let mark = if language == Language::JavaScript { "//" } else { "#" };
    let (open, close) = (format!("{mark} /// script"), format!("{mark} ///"));
    let lines: Vec<&str> = source.lines().map(str::trim_end).collect();
    let opened: Vec<usize> = (0..lines.len()).filter(|at| lines[*at] == open).collect();
    let number = |at: usize| u32::try_from(at + 1).unwrap_or(u32::MAX);
    let [start] = opened.as_slice() else {
        return match opened.get(1) {
            Some(second) => Err(MetadataError { line: number(*second), message: "a second `script` block; a script has one".to_owned() }),
            None => Ok(None),
        };
    };
    let comment: Vec<&str> = lines[start + 1..].iter().take_while(|line| line.starts_with(mark)).copied().collect();
    let Some(end) = comment.iter().rposition(|line| *line == close) else {
        return Err(MetadataError { line: number(*start), message: format!("the `script` block does not end: its last line is `{close}`") });
    };
    let mut text = String::new();
    for (at, line) in comment[..end].iter().enumerate() {
        match line[mark.len()..].strip_prefix(' ').or((line.len() == mark.len()).then_some("")) {
            Some(inner) => text.push_str(inner),
            None => return Err(MetadataError { line: number(start + 1 + at), message: format!("`{mark}` and a blank begin each line of the `script` block") }),
        }
        text.push('\n');
    }
    Ok(Some((number(start + 1), text)))
}

/// A problem, and the key it is about.
type Wrong = (String, Option<String>);

fn wrong(key: &str, message: impl Into<String>) -> Wrong {
    (message.into(), Some(key.rsplit('.').next().unwrap_or(key).to_owned()))
}

fn read(language: Language, table: &Table) -> Result<Metadata, Wrong> {
    let dependencies = table.get("dependencies").map(|value| dependencies(language, value)).transpose()?.unwrap_or_default();
    let requires_python = table.get("requires-python").map(|value| text("requires-python", value)).transpose()?;
    if !dependencies.is_empty() && language.is_native() {
        return Err(wrong("dependencies", format!("a script in {} has no dependencies: only python and javascript have", language.name())));
    }
    if dependencies.len() > MAX_DEPENDENCIES {
        return Err(wrong("dependencies", format!("dependencies: at most {MAX_DEPENDENCIES} are taken")));
    }
    if requires_python.is_some() && language != Language::Python {
        return Err(wrong("requires-python", format!("requires-python: this script is in {}", language.name())));
    }
    // PEP 723 leaves all other top-level keys undefined, and every tool its own table.
    let settings = match table.get("tool").and_then(Value::as_table).and_then(|tools| tools.get("viat")) {
        Some(Value::Table(ours)) => settings(language, ours)?,
        Some(_) => return Err(wrong("viat", "[tool.viat] is a table")),
        None => Settings::default(),
    };
    Ok(Metadata { dependencies, requires_python, settings })
}

/// What is to be installed, each as one text.
fn dependencies(language: Language, value: &Value) -> Result<Vec<String>, Wrong> {
    let listed = match value {
        // as package.json has it
        Value::Table(table) if language == Language::JavaScript => {
            let one = |(name, range): (&String, &Value)| match range {
                Value::String(range) => Ok(format!("{name}@{range}")),
                other => Err(wrong(name, format!("dependencies: {name} is a range of versions, like \"^1.2.0\", not {}", shown(other)))),
            };
            table.iter().map(one).collect::<Result<Vec<String>, Wrong>>()?
        }
        _ => strings("dependencies", value)?,
    };
    for each in &listed {
        if each.trim().is_empty() || each.chars().any(char::is_control) {
            return Err(wrong("dependencies", format!("dependencies: {each:?} names nothing that can be installed")));
        }
        if language == Language::JavaScript && !is_npm_name(&each[..each.rfind('@').filter(|at| *at > 0).unwrap_or(each.len())]) {
            return Err(wrong("dependencies", format!("dependencies: {each:?} is not NAME@RANGE, like \"zod@^3.23\" or \"@scope/name@1.x\"")));
        }
    }
    Ok(listed)
}

/// `name` or `@scope/name`, as npm has it.
fn is_npm_name(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |each: char| each.is_ascii_lowercase() || each.is_ascii_digit() || matches!(each, '-' | '~' | '.' | '_');
        !part.is_empty() && !part.starts_with(['.', '_']) && part.chars().all(plain)
    };
    match name.strip_prefix('@') {
        Some(scoped) => scoped.split_once('/').is_some_and(|(scope, name)| part(scope) && part(name)),
        None => part(name),
    }
}

const KEYS: [&str; 7] = ["isolation", "pool", "limits", "env", "secrets", "network", "recycle_after"];

fn settings(language: Language, table: &Table) -> Result<Settings, Wrong> {
    known("[tool.viat]", table, &KEYS)?;
    let list = |key: &str| table.get(key).map(|value| strings(key, value)).transpose();
    let isolation = match table.get("isolation").map(|value| text("isolation", value)).transpose()?.as_deref() {
        None | Some("warm") => Isolation::Warm,
        Some("fresh") => Isolation::Fresh,
        Some(other) => return Err(wrong("isolation", format!("isolation is \"warm\" or \"fresh\", not {other:?}"))),
    };
    let mut pool = match table.get("pool") {
        Some(Value::Table(pool)) => pool_settings(pool)?,
        Some(_) => return Err(wrong("pool", "pool is a table: pool = {min = 0, max = 4, queue = 100, queue_wait = \"30s\"}")),
        None => PoolSettings::default(),
    };
    if let Some(value) = table.get("recycle_after") {
        pool.recycle_after = Some(count("recycle_after", value, 1)?);
    }
    let limits = match table.get("limits") {
        Some(Value::Table(limits)) => limits_of(limits)?,
        Some(_) => return Err(wrong("limits", "limits is a table: limits = {memory = \"512 MiB\", cpu = \"30s\"}")),
        None => Limits::default(),
    };
    let env = list("env")?.unwrap_or_default();
    if let Some(name) = env.iter().find(|name| name.is_empty() || name.contains(['=', '\0']) || name.starts_with("VIAT_")) {
        return Err(wrong("env", format!("env: {name:?} cannot be given to a script")));
    }
    let secrets = secrets(language, list("secrets")?.unwrap_or_default())?;
    if language.is_native() && isolation == Isolation::Warm && table.contains_key("isolation") && language == Language::Shell {
        return Err(wrong("isolation", "isolation = \"warm\" is not possible in shell: each attempt is a process of its own; leave it out"));
    }
    Ok(Settings { isolation, pool, limits, env, secrets, network: list("network")? })
}

/// The names of secrets, each once, sorted.
fn secrets(language: Language, mut names: Vec<String>) -> Result<Vec<String>, Wrong> {
    names.sort();
    names.dedup();
    if names.len() > MAX_SECRETS {
        return Err(wrong("secrets", format!("secrets: at most {MAX_SECRETS} are given to one script")));
    }
    if let Some(name) = names.iter().find(|name| !is_name(name)) {
        return Err(wrong("secrets", format!("secrets: {name:?} cannot name a secret: a letter or _ first, then letters, digits, _ . -, at most 128 in all")));
    }
    let twice = (1..names.len()).find(|at| names[..*at].iter().any(|name| secret_variable(name) == secret_variable(&names[*at])));
    match twice {
        Some(at) if language == Language::Shell => {
            Err(wrong("secrets", format!("secrets: two of them would be {} in the environment of a shell script", secret_variable(&names[at]))))
        }
        _ => Ok(names),
    }
}

fn is_name(name: &str) -> bool {
    let first = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    first && name.len() <= 128 && name.chars().all(|each| each.is_ascii_alphanumeric() || matches!(each, '_' | '.' | '-'))
}

/// The environment variable in which a shell script finds a secret: `VIAT_SECRET_API_TOKEN` for `api-token`.
pub fn secret_variable(name: &str) -> String {
    let plain = |each: char| if each.is_ascii_alphanumeric() { each.to_ascii_uppercase() } else { '_' };
    format!("VIAT_SECRET_{}", name.chars().map(plain).collect::<String>())
}

fn pool_settings(table: &Table) -> Result<PoolSettings, Wrong> {
    known("pool", table, &["min", "max", "queue", "queue_wait", "recycle_after", "recycle_growth", "idle_after"])?;
    let number = |key: &str, least| table.get(key).map(|value| count(&format!("pool.{key}"), value, least)).transpose();
    let size = |key: &str, least| Ok(number(key, least)?.and_then(|each| usize::try_from(each).ok()));
    let time = |key: &str| table.get(key).map(|value| duration_ms(&format!("pool.{key}"), value)).transpose();
    let pool = PoolSettings {
        min: size("min", 0)?,
        max: size("max", 1)?,
        queue: size("queue", 0)?,
        queue_wait_ms: time("queue_wait")?,
        recycle_after: number("recycle_after", 1)?,
        recycle_growth: table.get("recycle_growth").map(|value| bytes("pool.recycle_growth", value)).transpose()?,
        idle_after_ms: time("idle_after")?,
    };
    match (pool.min, pool.max) {
        (Some(min), Some(max)) if min > max => Err(wrong("min", format!("pool.min is {min}, more than pool.max, which is {max}"))),
        _ => Ok(pool),
    }
}

impl Limits {
    /// Reads `memory=2 GiB, processes=64`: the keys of `limits` as an operator writes them.
    ///
    /// # Errors
    /// What is wrong, and what may stand there.
    pub fn of_list(text: &str) -> Result<Limits, String> {
        let mut table = Table::new();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not KEY=VALUE, like memory=2 GiB"))?;
            let value = value.trim();
            let value = value.parse().map_or_else(|_| Value::String(value.to_owned()), Value::Integer);
            table.insert(key.trim().to_owned(), value);
        }
        limits_of(&table).map_err(|(message, _)| message)
    }
}

fn limits_of(table: &Table) -> Result<Limits, Wrong> {
    known("limits", table, &["memory", "cpu", "files", "processes", "output", "disk"])?;
    let number = |key: &str, least| table.get(key).map(|value| count(&format!("limits.{key}"), value, least)).transpose();
    let size = |key: &str| table.get(key).map(|value| bytes(&format!("limits.{key}"), value)).transpose();
    let cpu = table.get("cpu").map(|value| duration_ms("limits.cpu", value)).transpose()?;
    let limits = Limits {
        memory: size("memory")?,
        cpu_s: cpu.map(|ms| ms.div_ceil(1000)),
        files: number("files", 32)?,
        processes: number("processes", 1)?,
        output: size("output")?,
        disk: size("disk")?,
    };
    match limits.memory {
        Some(memory) if memory < 16 << 20 => Err(wrong("memory", "limits.memory: less than 16 MiB is too little to start in")),
        _ => Ok(limits),
    }
}

fn known(place: &str, table: &Table, keys: &[&str]) -> Result<(), Wrong> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(wrong(key, format!("{place} has no {key}; there are {}", keys.join(", ")))),
        None => Ok(()),
    }
}

fn text(key: &str, value: &Value) -> Result<String, Wrong> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong(key, format!("{key} is a text, not {}", value.type_str())))
}

fn strings(key: &str, value: &Value) -> Result<Vec<String>, Wrong> {
    let items = value.as_array().ok_or_else(|| wrong(key, format!("{key} is a list of texts, not {}", value.type_str())))?;
    items
        .iter()
        .map(|item| item.as_str().map(str::to_owned).ok_or_else(|| wrong(key, format!("{key} is a list of texts; one of them is {}", shown(item)))))
        .collect()
}

/// A value for a message.
fn shown(value: &Value) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| value.type_str().to_owned())
}

fn count(key: &str, value: &Value, least: i64) -> Result<u64, Wrong> {
    let given = value.as_integer().filter(|number| (least..=MAX_COUNT).contains(number));
    given
        .and_then(|number| u64::try_from(number).ok())
        .ok_or_else(|| wrong(key, format!("{key} is an integer from {least} to {MAX_COUNT}, not {}", shown(value))))
}

fn duration_ms(key: &str, value: &Value) -> Result<u64, Wrong> {
    let problem =
        || wrong(key, format!("{key} is a number of seconds, or a text like \"500ms\", \"30s\", \"5m\", \"1h\", of at most a day; not {}", shown(value)));
    let (number, unit) = match value {
        Value::Integer(number) => (number.to_string(), "s".to_owned()),
        Value::Float(number) => (number.to_string(), "s".to_owned()),
        Value::String(text) => split(text),
        _ => return Err(problem()),
    };
    let factor = match unit.as_str() {
        "ms" => 1.0,
        "s" => 1_000.0,
        "m" | "min" => 60_000.0,
        "h" => 3_600_000.0,
        _ => return Err(problem()),
    };
    let ms = number.parse::<f64>().map_err(|_| problem())? * factor;
    if (1.0..=86_400_000.0).contains(&ms) { Ok(ms.round() as u64) } else { Err(problem()) }
}

fn bytes(key: &str, value: &Value) -> Result<u64, Wrong> {
    let problem = || wrong(key, format!("{key} is a number of bytes, or a text like \"64 KiB\", \"512 MiB\", \"2 GiB\"; not {}", shown(value)));
    let (number, unit) = match value {
        Value::Integer(number) => (number.to_string(), String::new()),
        Value::String(text) => split(text),
        _ => return Err(problem()),
    };
    let factor = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1.0,
        "k" => 1024.0,
        "m" => 1_048_576.0,
        "g" => 1_073_741_824.0,
        _ => return Err(problem()),
    };
    let bytes = number.parse::<f64>().map_err(|_| problem())? * factor;
    if (1.0..=(1u64 << 50) as f64).contains(&bytes) { Ok(bytes as u64) } else { Err(problem()) }
}

/// `30 s` as number and unit.
fn split(text: &str) -> (String, String) {
    let text = text.trim();
    let end = text.find(|each: char| !each.is_ascii_digit() && each != '.').unwrap_or(text.len());
    (text[..end].to_owned(), text[end..].trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn python(block: &str) -> Result<Metadata, MetadataError> {
        let lines: Vec<String> = block.lines().map(|line| format!("# {line}").trim_end().to_owned()).collect();
        Metadata::of(Language::Python, &format!("import os\n# /// script\n{}\n# ///\ndef main(): pass\n", lines.join("\n")))
    }

    #[test]
    fn a_block_is_read_whole() {
        let text = "dependencies = [\"requests>=2\"]\nrequires-python = \">=3.10\"\n\n[tool.viat]\nisolation = \"fresh\"\npool = {min = 1, max = 3, queue = 7, queue_wait = \"500ms\"}\nlimits = {memory = \"512 MiB\", cpu = 2.5, files = 64, processes = 8, output = 1000}\nenv = [\"TOKEN\"]\nsecrets = [\"db\", \"api-token\", \"db\"]\nnetwork = [\"api.example.com\"]\nrecycle_after = 5";
        let read = python(text).unwrap();
        assert_eq!((read.dependencies.as_slice(), read.requires_python.as_deref()), (["requests>=2".to_owned()].as_slice(), Some(">=3.10")));
        let Settings { isolation, pool, limits, env, secrets, network } = read.settings;
        assert_eq!((isolation, pool.max, pool.queue_wait_ms, pool.recycle_after), (Isolation::Fresh, Some(3), Some(500), Some(5)));
        assert_eq!(limits, Limits { memory: Some(512 << 20), cpu_s: Some(3), files: Some(64), processes: Some(8), output: Some(1000), disk: None });
        assert_eq!(secrets, ["api-token", "db"]);
        assert_eq!((env, network), (vec!["TOKEN".to_owned()], Some(vec!["api.example.com".to_owned()])));
    }

    #[test]
    fn an_operator_writes_limits_in_a_line() {
        let read = Limits::of_list("memory=2 GiB, processes = 64,cpu=90s, disk=100").unwrap();
        assert_eq!(read, Limits { memory: Some(2 << 30), processes: Some(64), cpu_s: Some(90), disk: Some(100), ..Limits::default() });
        let given = Limits { memory: Some(3 << 30), processes: Some(8), ..Limits::default() };
        assert_eq!(given.within(&read), Limits { processes: Some(8), ..read.clone() });
        for (text, said) in [("memory", "is not KEY=VALUE"), ("ram=1", "there are memory, cpu"), ("memory=much", "limits.memory is a number of bytes")] {
            assert!(Limits::of_list(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn javascript_has_its_own_comments_and_no_block_is_no_settings() {
        let read = Metadata::of(Language::JavaScript, "// /// script\n// dependencies = [\"left-pad@1\"]\n// ///\n").unwrap();
        assert_eq!(read.dependencies, ["left-pad@1"]);
        assert_eq!(Metadata::of(Language::Python, "def main(): pass").unwrap(), Metadata::default());
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, line, said) in [
            ("dependencies = [", 3, ""),
            ("dependencies = \"x\"", 3, "dependencies is a list of texts, not string"),
            ("[tool.viat]\nisolaton = \"warm\"", 4, "[tool.viat] has no isolaton; there are isolation, pool"),
            ("[tool.viat]\nsecrets = \"TOKEN\"", 4, "secrets is a list of texts"),
            ("[tool.viat]\nsecrets = [\"a b\"]", 4, "\"a b\" cannot name a secret"),
            ("[tool.viat]\nisolation = \"cold\"", 4, "isolation is \"warm\" or \"fresh\", not \"cold\""),
            ("[tool.viat]\n\npool = {min = 3, max = 2}", 5, "pool.min is 3, more than pool.max"),
            ("[tool.viat]\npool = {max = 0}", 4, "pool.max is an integer from 1 to 1000000, not 0"),
            ("[tool.viat]\npool = {queue_wait = \"soon\"}", 4, "pool.queue_wait is a number of seconds"),
            ("[tool.viat]\nlimits = {memory = \"1 MiB\"}", 4, "less than 16 MiB"),
            ("[tool.viat]\nenv = [\"A=B\"]", 4, "cannot be given"),
        ] {
            let wrong = python(text).unwrap_err();
            assert!(wrong.line == line && wrong.message.contains(said), "{text}: {wrong:?}");
        }
        let open = Metadata::of(Language::Python, "# /// script\n# x = 1\ndef main(): pass").unwrap_err();
        assert!(open.line == 1 && open.message.contains("does not end"), "{open:?}");
        let shell = Metadata::of(Language::Shell, "# /// script\n# [tool.viat]\n# secrets = [\"a-b\", \"A_B\"]\n# ///\n").unwrap_err();
        assert!(shell.message.contains("VIAT_SECRET_A_B"), "{shell:?}");
        let native = Metadata::of(Language::Shell, "# /// script\n# dependencies = [\"x\"]\n# ///\n").unwrap_err();
        assert!(native.message.contains("only python and javascript"), "{native:?}");
    }
}

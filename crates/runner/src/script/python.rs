//! The Python sources that live in the binary; nothing of them is written to disk to be run.

/// The text a worker is started with.
pub(crate) const LOADER: &str = include_str!("../../../../python/viat/loader.py");
/// Reads a script without running it.
pub(crate) const INSPECTOR: &str = include_str!("../../../../python/viat/inspector.py");
/// Compiles the modules for an interpreter, once.
pub(crate) const COMPILER: &str = include_str!("../../../../python/viat/compiler.py");

/// What the loader becomes, in this order: module name, file name shown in tracebacks, source.
const MODULES: [(&str, &str, &str); 5] = [
    ("codec", "<viat codec>", include_str!("../../../../python/viat/codec.py")),
    ("viat", "<viat>", include_str!("../../../../python/viat/__init__.py")),
    ("output", "<viat output>", include_str!("../../../../python/viat/output.py")),
    ("arguments", "<viat arguments>", include_str!("../../../../python/viat/arguments.py")),
    ("worker", "<viat worker>", include_str!("../../../../python/viat/worker.py")),
];

/// The modules as a JSON object from name to file name and source.
pub(crate) fn sources() -> String {
    let modules: serde_json::Map<String, serde_json::Value> =
        MODULES.iter().map(|(name, file, source)| ((*name).to_string(), serde_json::json!([file, source]))).collect();
    serde_json::Value::Object(modules).to_string()
}

//! Which words may be names of entries, assets and loop variables.

use crate::cel;

/// Every kind key, in the specification's order.
pub const KINDS: [&str; 11] = ["script", "if", "parallel", "loop", "workflow", "review", "wait", "set", "fail", "return", "compensate"];

/// Names that always mean something else.
const RESERVED: [&str; 3] = ["inputs", "run", "iteration"];

/// Why a word cannot be the id of an entry or a loop's variable, and what to write instead.
pub fn bad_id(id: &str) -> Option<(String, String)> {
    let allowed = "an id is a letter followed by up to 63 letters, digits and `_`".to_owned();
    if !is_well_formed(id) {
        return Some((format!("`{}` is not an id", crate::yaml::shortened(id)), allowed));
    }
    let help = || format!("rename it, for example to `{id}_step`");
    if RESERVED.contains(&id) {
        return Some((format!("the id `{id}` is reserved: `${id}` means something else"), help()));
    }
    cel::is_word(id).then(|| (format!("the id `{id}` is reserved: it is a word of the expression language"), help()))
}

/// Whether a word follows the grammar of ids, reserved or not.
pub fn is_well_formed(id: &str) -> bool {
    id.len() <= 64 && id.starts_with(|c: char| c.is_ascii_alphabetic()) && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Whether a word can be the name of a script, a workflow or a resource.
pub fn is_asset_name(name: &str) -> bool {
    name.len() <= 128
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
}

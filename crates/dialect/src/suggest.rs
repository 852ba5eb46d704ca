//! Nearest names: what the author probably meant.

/// The name nearest to what was typed, if any is near enough to be meant.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Long inputs are not typing errors, and the distance is quadratic.
    if typed.len() > 128 {
        return None;
    }
    let allowed = match typed.chars().count() {
        0 => return None,
        1..=2 => 1,
        3..=5 => 2,
        length => length / 3,
    };
    let folded = typed.to_lowercase();
    names
        .into_iter()
        .filter(|name| name.len() <= 128 && *name != typed)
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= allowed && *distance < name.chars().count().max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// `a`, `b` and `c`, at most `limit` of them.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>, limit: usize) -> String {
    let all: Vec<&str> = names.into_iter().collect();
    let shown: Vec<String> = all.iter().take(limit).map(|name| format!("`{name}`")).collect();
    match all.len().checked_sub(shown.len()) {
        Some(0) | None => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typing_error_finds_its_name_and_noise_finds_none() {
        assert_eq!(nearest("ecko", ["other", "echo"]), Some("echo"));
        assert_eq!(nearest("requst", ["request", "recovery"]), Some("request"));
        assert_eq!(nearest("arg", ["args", "retry"]), Some("args"));
        assert_eq!(nearest("nope", ["echo", "wf_fail"]), None);
        assert_eq!(nearest("x", ["y"]), None);
    }

    #[test]
    fn lists_are_cut() {
        assert_eq!(listed(["a", "b", "c"], 2), "`a`, `b` and 1 more");
    }
}

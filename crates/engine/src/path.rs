//! Where in a run something is: `each[3].send`, `fan.left.a`.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// The address of an entry or of a frame; unique within a run. The root frame's is empty.
///
/// Ordered so that `each[2]` comes before `each[10]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Path(String);

/// What attempts at a path are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The entry's own work.
    Work,
    /// Finding out what came of this attempt of the entry.
    Resolve(u32),
    /// Undoing the entry's effect.
    Compensate,
}

const COMPENSATE: &str = ":compensate";
const RESOLVE: &str = ":resolve[";

impl Path {
    /// The attempts that undo the effect of the entry at this path: `reserve:compensate`.
    pub fn compensation(&self) -> Path {
        Path(format!("{}{COMPENSATE}", self.0))
    }

    /// The attempts that find out what came of an attempt of the entry at this path: `pay:resolve[2]`.
    pub fn resolution(&self, attempt: u32) -> Path {
        Path(format!("{}{RESOLVE}{attempt}]", self.0))
    }

    /// What the attempts at this path are for.
    pub fn purpose(&self) -> Purpose {
        let Some(colon) = self.0.rfind(':') else { return Purpose::Work };
        let suffix = &self.0[colon..];
        if suffix == COMPENSATE {
            return Purpose::Compensate;
        }
        let attempt = suffix.strip_prefix(RESOLVE).and_then(|rest| rest.strip_suffix(']')?.parse().ok());
        attempt.map_or(Purpose::Work, Purpose::Resolve)
    }

    /// The entry that the attempts at this path belong to, whatever they are for.
    pub fn entry(&self) -> Path {
        match self.purpose() {
            Purpose::Work => self.clone(),
            Purpose::Resolve(_) | Purpose::Compensate => Path(self.0[..self.0.rfind(':').unwrap_or(self.0.len())].to_owned()),
        }
    }

    /// The paths of the entries around this one, innermost first: `fan.left` and `fan` of `fan.left.a`; `each` of `each[3].send`.
    pub(crate) fn ancestors(&self) -> Vec<Path> {
        let ends = self.0.char_indices().rev().filter(|(_, c)| matches!(c, '.' | '['));
        ends.map(|(at, _)| Path(self.0[..at].to_owned())).collect()
    }

    /// The root frame.
    pub fn root() -> Path {
        Path::default()
    }

    /// The entry or branch `name` in the frame at this path.
    pub fn child(&self, name: &str) -> Path {
        if self.0.is_empty() { Path(name.to_owned()) } else { Path(format!("{}.{name}", self.0)) }
    }

    /// The frame that an entry at this path lies in: all but the last segment.
    pub fn parent(&self) -> Path {
        self.0.rfind('.').map_or_else(Path::root, |dot| Path(self.0[..dot].to_owned()))
    }

    /// The last segment: an entry's id.
    pub fn last(&self) -> &str {
        self.0.rfind('.').map_or(self.0.as_str(), |dot| &self.0[dot + 1..])
    }

    /// Iteration `index` of the loop at this path.
    pub fn iteration(&self, index: usize) -> Path {
        Path(format!("{}[{index}]", self.0))
    }

    /// What the paths of everything inside the entry at this path begin with.
    pub(crate) fn inner_prefixes(&self) -> Vec<String> {
        if self.0.is_empty() { vec![String::new()] } else { vec![format!("{}.", self.0), format!("{}[", self.0)] }
    }

    /// Whether this lies inside the entry at `outer`.
    pub(crate) fn is_inside(&self, outer: &Path) -> bool {
        match self.0.strip_prefix(outer.0.as_str()) {
            Some(rest) => !rest.is_empty() && (outer.0.is_empty() || rest.starts_with(['.', '['])),
            None => false,
        }
    }

    /// The path without what tells repetitions apart, the same for all of them: `each[*].send` of `each[3].send`,
    /// `pay:resolve` of `pay:resolve[2]`.
    pub fn pattern(&self) -> String {
        let mut pattern = String::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some((before, after)) = rest.split_once('[') {
            pattern.push_str(before);
            let (_, after) = after.split_once(']').unwrap_or((after, ""));
            if !pattern.ends_with(&RESOLVE[..RESOLVE.len() - 1]) {
                pattern.push_str("[*]");
            }
            rest = after;
        }
        pattern.push_str(rest);
        pattern
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Path {
    fn from(text: &str) -> Path {
        Path(text.to_owned())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Path) -> Ordering {
        natural(self.0.as_bytes(), other.0.as_bytes())
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Compares byte strings, runs of digits by their value. Ids never begin a number with a zero inside brackets, so no two
/// different paths are equal under it; should they be, the bytes decide.
fn natural(left: &[u8], right: &[u8]) -> Ordering {
    let (mut i, mut j) = (0, 0);
    while i < left.len() && j < right.len() {
        if left[i].is_ascii_digit() && right[j].is_ascii_digit() {
            let (a, b) = (digits(&left[i..]), digits(&right[j..]));
            let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
            if order != Ordering::Equal {
                return order;
            }
            i += a.len();
            j += b.len();
        } else {
            let order = left[i].cmp(&right[j]);
            if order != Ordering::Equal {
                return order;
            }
            i += 1;
            j += 1;
        }
    }
    (left.len() - i).cmp(&(right.len() - j)).then_with(|| left.cmp(right))
}

fn digits(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_are_ordered_by_number() {
        let mut paths = ["each[10].a", "each[2].a", "each", "b", "each[2]"].map(Path::from);
        paths.sort();
        assert_eq!(paths.map(|path| path.to_string()), ["b", "each", "each[2]", "each[2].a", "each[10].a"]);
    }

    #[test]
    fn repetitions_share_a_pattern() {
        for (path, pattern) in [
            ("a", "a"),
            ("each[3].send", "each[*].send"),
            ("each[12].in[0].b:compensate", "each[*].in[*].b:compensate"),
            ("each[1].pay:resolve[2]", "each[*].pay:resolve"),
            ("", ""),
        ] {
            assert_eq!(Path::from(path).pattern(), pattern);
        }
    }

    #[test]
    fn what_attempts_are_for_can_be_read_from_their_path() {
        let entry = Path::from("each[3].pay");
        for (path, purpose) in [(entry.clone(), Purpose::Work), (entry.compensation(), Purpose::Compensate), (entry.resolution(2), Purpose::Resolve(2))] {
            assert_eq!((path.purpose(), path.entry(), path.parent()), (purpose, entry.clone(), Path::from("each[3]")));
        }
        assert_eq!(entry.ancestors(), ["each[3]", "each"].map(Path::from));
    }
}

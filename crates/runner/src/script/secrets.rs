//! What an attempt is given of secrets, and what hides them again.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::mask::Mask;

/// The secrets that a script declares, as they are when an attempt starts.
pub struct Secrets {
    values: BTreeMap<String, String>,
    mask: Option<Arc<Mask>>,
}

impl Secrets {
    /// These values; `earlier` ones, which a warm worker may still have in memory, are hidden with them.
    pub fn new(values: BTreeMap<String, String>, earlier: &[String]) -> Secrets {
        let mask = Mask::of(values.values().chain(earlier).map(String::as_str)).map(Arc::new);
        Secrets { values, mask }
    }

    /// The value of a secret, if the script declares it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// What hides them.
    pub fn mask(&self) -> Option<&Arc<Mask>> {
        self.mask.as_ref()
    }

    pub(crate) fn values(&self) -> &BTreeMap<String, String> {
        &self.values
    }
}

/// The names are all that may be shown.
impl std::fmt::Debug for Secrets {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.values.keys()).finish()
    }
}

//! The keys that secrets are sealed with. They are never in the database.
//!
//! A key is 32 bytes, written as 64 hexadecimal digits. The first one there is seals; all of them open. They come from
//! `VIAT_SECRET_KEY`, else from the file that `VIAT_SECRET_KEY_FILE` names; behind those, and where neither is set, from
//! `secrets.key` in the home, which is made when the first secret is saved.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};
use rustix::fs::{FlockOperation, flock};

use super::ResourceError;

/// The variable that gives keys; nothing that viat starts for scripts sees it.
pub const GIVEN: &str = "VIAT_SECRET_KEY";
/// The variable that names a file of keys, likewise.
pub const NAMED: &str = "VIAT_SECRET_KEY_FILE";
/// The key's file in the home.
const FILE: &str = "secrets.key";
/// Held while secrets are saved or sealed anew.
const LOCK: &str = "secrets.lock";
/// What a key's id is derived for.
const ID: &str = "viat 2026 id of a key that seals secrets";
/// The largest file of keys.
const MAX_FILE: u64 = 64 << 10;

/// A key. Only its id is ever shown.
#[derive(Clone)]
pub(super) struct Key {
    pub(super) bytes: [u8; 32],
}

impl Key {
    /// Sixteen hexadecimal digits that say which key it is, and nothing about it.
    pub(super) fn id(&self) -> String {
        blake3::Hasher::new_derive_key(ID).update(&self.bytes).finalize().to_hex()[..16].to_owned()
    }

    fn fresh() -> Result<Key, ResourceError> {
        let mut bytes = [0; 32];
        SystemRandom::new().fill(&mut bytes).map_err(|_| ResourceError::Key("the system gives no random numbers".to_owned()))?;
        Ok(Key { bytes })
    }

    fn read(text: &str) -> Option<Key> {
        let hash = blake3::Hash::from_hex(text).ok()?;
        Some(Key { bytes: *hash.as_bytes() })
    }

    fn written(&self) -> String {
        format!("{}\n", blake3::Hash::from_bytes(self.bytes).to_hex())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Key({})", self.id())
    }
}

/// Where keys come from.
#[derive(Clone, Debug)]
pub struct Keys {
    home: PathBuf,
    given: Option<String>,
    named: Option<PathBuf>,
}

impl Keys {
    /// The home's own.
    pub fn at(home: &Path) -> Keys {
        Keys { home: home.to_owned(), given: None, named: None }
    }

    /// Those that the operator gives: `given` as text, or the file that holds them.
    #[must_use]
    pub fn or_given(mut self, given: Option<String>, named: Option<PathBuf>) -> Keys {
        (self.given, self.named) = (given, named);
        self
    }

    /// The file in the home.
    pub fn file(&self) -> PathBuf {
        self.home.join(FILE)
    }

    /// Whether the operator gives the key that seals.
    pub fn are_given(&self) -> bool {
        self.given.is_some() || self.named.is_some()
    }

    /// What there is now; without any key it is empty.
    ///
    /// # Errors
    /// If what should hold keys cannot be read, or holds something else.
    pub fn load(&self) -> Result<Keyring, ResourceError> {
        let mut keys = match (&self.given, &self.named) {
            (Some(_), Some(_)) => return Err(ResourceError::Key("VIAT_SECRET_KEY and VIAT_SECRET_KEY_FILE are both set: keep one".to_owned())),
            (Some(text), None) => parse(text, "VIAT_SECRET_KEY")?,
            (None, Some(file)) => {
                let shown = format!("{} (VIAT_SECRET_KEY_FILE)", file.display());
                parse(&read(file).map_err(|error| ResourceError::Key(format!("{shown} cannot be read: {error}")))?, &shown)?
            }
            (None, None) => Vec::new(),
        };
        let file = self.file();
        match read(&file) {
            Ok(text) => keys.extend(parse(&text, &file.display().to_string())?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(ResourceError::Key(format!("{} cannot be read: {error}", file.display()))),
        }
        Ok(Keyring { keys, place: self.place() })
    }

    /// Makes the home's key whole or not at all; one that is there stays.
    pub(super) fn make(&self) -> Result<Keyring, ResourceError> {
        self.replace(&[Key::fresh()?], false)?;
        self.load()
    }

    /// Puts a new key before those in the home's file.
    pub(super) fn add(&self) -> Result<Keyring, ResourceError> {
        let mut keys = vec![Key::fresh()?];
        keys.extend(self.load()?.keys);
        self.replace(&keys, true)?;
        self.load()
    }

    /// Keeps only the first key in the home's file.
    pub(super) fn keep_first(&self) -> Result<(), ResourceError> {
        let mut keys = self.load()?.keys;
        keys.truncate(1);
        self.replace(&keys, true)
    }

    fn replace(&self, keys: &[Key], over: bool) -> Result<(), ResourceError> {
        let file = self.file();
        let cannot = |error: io::Error| ResourceError::Key(format!("{} cannot be written: {error}", file.display()));
        let draft = self.home.join(format!("{FILE}.{}", viat_store::fresh_id()));
        let written = write(&draft, keys).and_then(|()| match over {
            true => fs::rename(&draft, &file),
            false => match fs::hard_link(&draft, &file) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                placed => placed,
            },
        });
        let _ = fs::remove_file(&draft); // a draft that was renamed is not there
        written.and_then(|()| File::open(&self.home)?.sync_all()).map_err(cannot)
    }

    /// Only one process at a time saves secrets: none is sealed with a key that another is about to drop.
    pub(super) fn lock(&self) -> Result<File, ResourceError> {
        let path = self.home.join(LOCK);
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let locked = open.and_then(|file| flock(&file, FlockOperation::LockExclusive).map(|()| file).map_err(io::Error::from));
        locked.map_err(|error| ResourceError::Key(format!("{} cannot be locked: {error}", path.display())))
    }

    /// Whether others than its owner may read the home's file.
    pub fn are_open_to_others(&self) -> bool {
        fs::metadata(self.file()).is_ok_and(|found| found.mode() & 0o077 != 0)
    }

    fn place(&self) -> String {
        match (&self.given, &self.named) {
            (Some(_), _) => format!("VIAT_SECRET_KEY or {}", self.file().display()),
            (_, Some(named)) => format!("{} or {}", named.display(), self.file().display()),
            _ => self.file().display().to_string(),
        }
    }
}

/// The keys that there are.
#[derive(Debug)]
pub struct Keyring {
    keys: Vec<Key>,
    place: String,
}

impl Keyring {
    /// The one that seals.
    pub(super) fn first(&self) -> Option<&Key> {
        self.keys.first()
    }

    /// The id of the one that seals.
    pub fn first_id(&self) -> Option<String> {
        self.first().map(Key::id)
    }

    /// The key of that id.
    pub(super) fn find(&self, id: &str) -> Option<&Key> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// Whether there is a key of that id.
    pub fn has(&self, id: &str) -> bool {
        self.find(id).is_some()
    }

    /// What to say of a key that is not there.
    pub fn missing(&self, what: &str, id: &str) -> ResourceError {
        let have = match self.keys.as_slice() {
            [] => "there is no key at all".to_owned(),
            keys => format!("it has {}", keys.iter().map(Key::id).collect::<Vec<_>>().join(", ")),
        };
        ResourceError::Key(format!(
            "{what} is sealed with key {id}, which is not in {}: {have}. Put the key back, or give it in VIAT_SECRET_KEY; nothing is lost while the key exists. \
             If it is gone for good, save the secret anew under another key: viat secret delete, then viat secret create",
            self.place
        ))
    }
}

fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > MAX_FILE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is too large to hold keys"));
    }
    fs::read_to_string(file)
}

/// Keys between blanks, commas and line ends; a line that begins with `#` is a comment.
fn parse(text: &str, place: &str) -> Result<Vec<Key>, ResourceError> {
    let words = text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(|line| line.split([' ', '\t', ',', '\r']));
    let keys: Option<Vec<Key>> = words.filter(|word| !word.is_empty()).map(Key::read).collect();
    // what is there instead may be most of a key: it is not shown
    let wrong = || ResourceError::Key(format!("{place} holds no keys: each is 64 hexadecimal digits (openssl rand -hex 32 makes one)"));
    keys.filter(|keys| !keys.is_empty()).ok_or_else(wrong)
}

fn write(file: &Path, keys: &[Key]) -> io::Result<()> {
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    opened.write_all(keys.iter().map(Key::written).collect::<String>().as_bytes())?;
    opened.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_stays_and_is_for_its_owner_alone() {
        let home = tempfile::tempdir().unwrap();
        let keys = Keys::at(home.path());
        assert_eq!(keys.load().unwrap().first_id(), None);
        let made = keys.make().unwrap().first_id();
        assert_eq!(keys.make().unwrap().first_id(), made);
        assert!(!keys.are_open_to_others());
        let added = keys.add().unwrap();
        assert!(added.first_id() != made && added.has(&made.clone().unwrap()));
        keys.keep_first().unwrap();
        let kept = keys.load().unwrap();
        assert!(kept.first_id() == added.first_id() && !kept.has(&made.unwrap()));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn keys_that_are_given_come_first_and_bad_ones_are_not_shown() {
        let home = tempfile::tempdir().unwrap();
        let own = Keys::at(home.path()).make().unwrap().first_id().unwrap();
        let [one, two] = ["11".repeat(32), "22".repeat(32)];
        let keys = Keys::at(home.path()).or_given(Some(format!("{one}, {two}\n")), None);
        let ring = keys.load().unwrap();
        assert_eq!(ring.keys.iter().map(Key::id).collect::<Vec<_>>()[2], own);
        assert_eq!(ring.first_id().unwrap(), Key::read(&one).unwrap().id());
        assert!(!format!("{ring:?}").contains("1111"));
        for bad in ["11", "", &format!("{one} x{two}")] {
            let error = keys.clone().or_given(Some(bad.to_owned()), None).load().unwrap_err().to_string();
            assert!(error.contains("64 hexadecimal digits") && !error.contains(&two), "{error}");
        }
        let both = keys.or_given(Some(one), Some("x".into())).load().unwrap_err();
        assert!(both.to_string().contains("keep one"));
    }
}

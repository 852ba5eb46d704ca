//! Turns SQLite's errors into the store's.

use std::path::Path;

use rusqlite::ffi::{self, ErrorCode};

use crate::StoreError;

/// Why a transaction cannot go on: a refusal concerns one unit, a fault the whole batch.
#[derive(Debug)]
pub(super) enum Stop {
    Refused(StoreError),
    Fault(rusqlite::Error),
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        Self::Fault(error)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

/// Whether a row was refused because a unique key is there already.
pub(super) fn is_duplicate(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation)
}

/// Says what an SQLite error means for whoever uses the store.
pub(super) fn explain(error: &rusqlite::Error, db: &Path, waited_ms: u64) -> StoreError {
    let path = db.display().to_string();
    match error {
        rusqlite::Error::SqliteFailure(code, detail) => {
            let detail = detail.clone().unwrap_or_else(|| code.to_string());
            // On a full tmpfs it is the shared-memory file that fails to grow.
            if code.extended_code == ffi::SQLITE_IOERR_SHMSIZE {
                return StoreError::DiskFull { path };
            }
            match code.code {
                ErrorCode::DiskFull => StoreError::DiskFull { path },
                ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { path },
                ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { waited_ms },
                ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => StoreError::Corrupt { path, detail },
                _ => StoreError::Io { detail: format!("{path}: {detail} (SQLite error {})", code.extended_code) },
            }
        }
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::Utf8Error(..) => StoreError::Corrupt { path, detail: error.to_string() },
        other => StoreError::Io { detail: format!("{path}: {other}") },
    }
}

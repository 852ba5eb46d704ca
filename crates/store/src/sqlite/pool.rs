//! A few connections for reading, opened when first needed and used by one thread at a time.

use std::sync::{Mutex, PoisonError};

use rusqlite::Connection;

use super::home::Home;
use crate::StoreError;

/// Idle connections kept; more may be in use at once.
const KEPT: usize = 4;

/// The pool.
pub(super) struct Pool {
    home: Home,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    pub fn new(home: Home) -> Self {
        Self { home, idle: Mutex::default() }
    }

    /// Lends a connection to `read`.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let conn = idle.map_or_else(|| self.home.open_reader(), Ok)?;
        let answer = read(&conn).map_err(|error| self.home.explain(&error));
        // After a fault the connection is not trusted again.
        if answer.is_ok() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < KEPT {
                idle.push(conn);
            }
        }
        answer
    }

    /// Closes the idle connections.
    pub fn clear(&self) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

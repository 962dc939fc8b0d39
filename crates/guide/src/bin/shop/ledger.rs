//! What a server has done, and undone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Clone)]
pub struct Ledger {
    server: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Ledger {
    pub fn new(server: &'static str) -> Self {
        let lines = Arc::default();
        Self { server, lines }
    }

    pub fn write(&self, what: &str, item: &str) {
        self.lock().push(format!("{}: {what} {item}", self.server));
    }

    pub fn lines(&self) -> Vec<String> {
        self.lock().clone()
    }

    pub fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

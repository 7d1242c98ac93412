//! The live region of a terminal: rows that are drawn over, and cleared at the end.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Bars without a bar: each is one line, cut to the width of the terminal.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) multi: MultiProgress,
    rows: Vec<ProgressBar>,
}

impl Region {
    pub(super) fn new(terminal: ProgressDrawTarget) -> Self {
        Self { multi: MultiProgress::with_draw_target(terminal), rows: Vec::new() }
    }

    pub(super) fn show(&mut self, rows: Vec<String>) {
        while self.rows.len() > rows.len() {
            if let Some(row) = self.rows.pop() {
                row.finish_and_clear();
                self.multi.remove(&row);
            }
        }
        while self.rows.len() < rows.len() {
            let row = self.multi.add(ProgressBar::new_spinner());
            // The template is a literal; without it indicatif's own style is shown.
            if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
                row.set_style(style);
            }
            self.rows.push(row);
        }
        for (bar, row) in self.rows.iter().zip(rows) {
            bar.set_message(row);
        }
    }

    fn clear(&mut self) {
        for row in self.rows.drain(..) {
            row.finish_and_clear();
        }
        let _ = self.multi.clear();
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // indicatif draws nothing on a thread that panics; another thread does not.
            std::thread::scope(|scope| {
                let cleared = std::thread::Builder::new().spawn_scoped(scope, || self.clear());
                drop(cleared.map(std::thread::ScopedJoinHandle::join));
            });
        } else {
            self.clear();
        }
    }
}

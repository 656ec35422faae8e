//! Runs the cases of families and counts the results.

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use crate::Runner;
use crate::check::check;
use crate::golden::{self, Case};

/// The intended differences from MXNet: `known-differences.txt`.
///
/// Each line is an id (`family/operator/number` or `family/operator/*`), a colon and the reason.
#[derive(Debug, Default)]
pub struct Known {
    ids: BTreeSet<String>,
}

impl Known {
    /// The file of this crate.
    ///
    /// # Errors
    /// See [`Known::parse`].
    pub fn of_repository() -> Result<Known, String> {
        Known::parse(include_str!("../known-differences.txt"))
    }

    /// Reads the list; lines that start with `#` are comments.
    ///
    /// # Errors
    /// A line without a reason.
    pub fn parse(text: &str) -> Result<Known, String> {
        let mut known = Known::default();
        for line in text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
            let (id, _) = (line.split_once(": "))
                .filter(|(_, reason)| !reason.trim().is_empty())
                .ok_or_else(|| format!("known-differences.txt: '{line}' has no reason"))?;
            known.ids.insert(id.to_owned());
        }
        Ok(known)
    }

    /// True if a case is listed.
    pub fn covers(&self, id: &str) -> bool {
        self.entry(id).is_some()
    }

    /// The listed cases; `family/operator/*` means all cases of an operator.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.ids.iter().map(String::as_str)
    }

    /// The entry that covers a case.
    fn entry(&self, id: &str) -> Option<&str> {
        let all = id.rsplit_once('/').map(|(operator, _)| format!("{operator}/*"));
        self.ids.get(id).or_else(|| self.ids.get(&all?)).map(String::as_str)
    }
}

/// The results of a family.
#[derive(Debug, Default)]
pub struct Report {
    /// Name of the family.
    pub family: String,
    /// Cases that agree.
    pub passed: usize,
    /// Listed cases that differ.
    pub known: usize,
    /// Failures: the id of the case and the reason.
    pub failures: Vec<(String, String)>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<10} {:>5} agree", self.family, self.passed)?;
        for (count, what) in [(self.known, "differ as documented"), (self.failures.len(), "WRONG")] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Runs the cases of a family.
///
/// # Errors
/// The goldens cannot be read.
pub fn run(runner: &dyn Runner, folder: &Path, family: &str, known: &Known) -> Result<Report, String> {
    let mut report = Report { family: family.to_owned(), ..Report::default() };
    let mut stale: BTreeSet<&str> =
        known.ids.iter().map(String::as_str).filter(|id| id.split('/').next() == Some(family)).collect();
    for case in golden::load(folder, family)? {
        match (guarded(runner, &case), known.entry(case.id())) {
            (Ok(()), _) => report.passed += 1,
            (Err(_), Some(entry)) => {
                report.known += 1;
                stale.remove(entry);
            }
            (Err(message), None) => report.failures.push((case.id().to_owned(), message)),
        }
    }
    let now_right = "agrees with MXNet, but known-differences.txt says that it does not: remove the line";
    report.failures.extend(stale.into_iter().map(|id| (id.to_owned(), now_right.to_owned())));
    Ok(report)
}

/// A panic is always a failure, even if MXNet rejects the case.
fn guarded(runner: &dyn Runner, case: &Case) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| check(runner, case))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("panicked: {}", text.unwrap_or("without a message")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_cover_one_case_or_all_of_an_operator() {
        let known = Known::parse("# comment\nunary/relu/3: rounds\nbinary/_mod/*: sign\n").unwrap();
        assert_eq!(known.entry("unary/relu/3"), Some("unary/relu/3"));
        assert_eq!(known.entry("unary/relu/33"), None);
        assert_eq!(known.entry("binary/_mod/7"), Some("binary/_mod/*"));
    }

    #[test]
    fn a_difference_needs_a_reason() {
        assert!(Known::parse("unary/relu/3\n").unwrap_err().contains("has no reason"));
    }
}

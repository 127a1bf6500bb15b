//! The equivalence suite: every backend, on every case, against one naive f64 reference.
//!
//! Cases are data and backends are columns. A [`Case`] says what is computed and on which numbers; a
//! [`Backend`] computes it; an [`Oracle`] knows the answer and how far a correct f32 or bf16
//! evaluation may be from it. A new backend is one more entry in [`columns`] and runs everything.
//!
//! ```
//! use tilecast_tests::{Case, check, columns};
//!
//! let case = Case::new("doc", [5, 8, 11]).blocks([2, 4, 4]);
//! for backend in columns() {
//!     check(&case, backend.as_ref()).unwrap();
//! }
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | [`case`](mod@case) | shapes, options, numbers and schedule of a case |
//! | [`backend`] | the columns |
//! | [`logits`] | the same for the ops on given logits |
//! | [`linear`] | the same for these ops on the logits of a head |
//! | [`simulated`] | the column that runs the printed Mosaic text |
//! | [`storing`] | the columns of both passes in one |
//! | [`oracle`] | expected values with their tolerances |
//! | [`tolerance`] | a tolerance and where it comes from |
//! | [`report`] | what is printed when values differ |

pub mod backend;
pub mod case;
mod differences;
pub mod linear;
pub mod logits;
pub mod oracle;
pub mod report;
pub mod simulated;
pub mod storing;
pub mod tolerance;

pub use backend::{Backend, OnCpu, Outputs, Rounding, columns};
pub use case::{Case, Data};
pub use differences::differences;
pub use oracle::Oracle;
pub use report::Mismatch;
pub use simulated::Simulated;
pub use storing::{Place, Storing};
pub use tolerance::{Tolerance, bf16_unit, f32_unit};

/// Runs a case on a backend with all its strategies.
///
/// # Errors
/// A report of everything that differs.
pub fn check(case: &Case, backend: &dyn Backend) -> Result<(), String> {
    let data = case.data();
    check_against(&Oracle::new(case, &data), case, &data, backend)
}

/// [`check`], for a case whose data and oracle are at hand.
///
/// # Errors
/// A report of everything that differs.
pub fn check_against(
    oracle: &Oracle,
    case: &Case,
    data: &Data,
    backend: &dyn Backend,
) -> Result<(), String> {
    if let Some(reason) = backend.skips(case) {
        eprintln!("{} skips {}: {reason}", backend.name(), case.name);
        return Ok(());
    }
    let mut reports = Vec::new();
    for &strategy in backend.strategies() {
        let place = format!("{} on {}, {}", case.name, backend.name(), strategy.name());
        match backend.run(case, strategy, data) {
            Err(error) => reports.push(format!("{place}: {error}")),
            Ok(outputs) => {
                let found = oracle.compare(&outputs);
                reports.extend(found.iter().map(|mismatch| format!("{place}: {mismatch}")));
            }
        }
    }
    match reports.is_empty() {
        true => Ok(()),
        false => Err(reports.join("\n")),
    }
}

/// Runs a case on every column and panics with a report of everything that differs.
///
/// # Panics
/// If a column disagrees with the reference, or none runs the case.
pub fn assert_case(case: &Case) {
    let columns = columns();
    assert!(
        columns.iter().any(|column| column.skips(case).is_none()),
        "{}: every column skips the case",
        case.name
    );
    let data = case.data();
    let oracle = Oracle::new(case, &data);
    let reports: Vec<_> = columns
        .iter()
        .filter_map(|column| check_against(&oracle, case, &data, column.as_ref()).err())
        .collect();
    assert!(reports.is_empty(), "\n{}", reports.join("\n"));
}

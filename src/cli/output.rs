//! Standard output. A reader that has seen enough closes the pipe; that is not an error.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write};

use comfy_table::{Cell, CellAlignment, LineStyle, Table, TableStyle};

use super::error::CliError;

/// Prints text and a line break.
pub(crate) fn print(text: impl Display) -> Result<(), CliError> {
    finish(writeln!(io::stdout().lock(), "{text}"))
}

/// Prints a table without blanks at the ends of lines.
pub(crate) fn print_table(table: &Table) -> Result<(), CliError> {
    print(table.trim_fmt())
}

/// Prints one JSON document.
pub(crate) fn print_json(value: &serde_json::Value) -> Result<(), CliError> {
    print(json_text(value))
}

/// One JSON document as it is printed.
pub(crate) fn json_text(value: &serde_json::Value) -> String {
    format!("{value:#}")
}

fn finish(result: io::Result<()>) -> Result<(), CliError> {
    match result.and_then(|()| io::stdout().flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(CliError::failure(format_args!(
            "cannot write to standard output: {error}"
        ))),
        Ok(()) => Ok(()),
    }
}

const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('-').junction('-'));

/// An empty table in the style of all commands: a rule under the header, columns apart.
pub(crate) fn table<T: Into<Cell>>(header: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table.set_header(header.into_iter().map(Into::into).collect::<Vec<Cell>>());
    table
}

/// A cell whose digits line up with those above.
pub(crate) fn number(value: impl Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// Writes a warning to standard error, whose reader may be gone.
pub(crate) fn warn(text: impl Display) {
    let _ = writeln!(io::stderr(), "warning: {text}");
}

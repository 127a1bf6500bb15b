//! Rows of a table with named columns.

use std::str::FromStr;

use csv::{Reader, StringRecord};
use thiserror::Error;

/// A table that is not as it should be.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecordError {
    /// It is not CSV.
    #[error("{table}: {error}")]
    Csv {
        /// Table.
        table: &'static str,
        /// What is wrong.
        error: csv::Error,
    },
    /// A column is missing.
    #[error("{table} has no column {column}")]
    NoColumn {
        /// Table.
        table: &'static str,
        /// Column.
        column: &'static str,
    },
    /// A field is empty or of another type.
    #[error("{table}, line {line}: {column} is `{value}`")]
    Field {
        /// Table.
        table: &'static str,
        /// Line in the file.
        line: u64,
        /// Column.
        column: &'static str,
        /// Value.
        value: String,
    },
}

/// The rows of a table, one at a time.
pub(super) struct Records<'a> {
    table: &'static str,
    reader: Reader<&'a [u8]>,
    header: StringRecord,
    row: StringRecord,
}

impl<'a> Records<'a> {
    pub(super) fn new(table: &'static str, text: &'a str) -> Result<Self, RecordError> {
        let mut reader = Reader::from_reader(text.as_bytes());
        let header =
            (reader.headers().cloned()).map_err(|error| RecordError::Csv { table, error })?;
        Ok(Self {
            table,
            reader,
            header,
            row: StringRecord::new(),
        })
    }

    /// Goes to the next row; `false` after the last.
    pub(super) fn advance(&mut self) -> Result<bool, RecordError> {
        let table = self.table;
        let read = self.reader.read_record(&mut self.row);
        read.map_err(|error| RecordError::Csv { table, error })
    }

    /// A field of this row.
    pub(super) fn get<T: FromStr>(&self, column: &'static str) -> Result<T, RecordError> {
        let text = self.text(column)?;
        text.parse().map_err(|_| self.wrong(column))
    }

    /// A field of this row that may be empty.
    pub(super) fn get_if_any<T: FromStr>(
        &self,
        column: &'static str,
    ) -> Result<Option<T>, RecordError> {
        match self.text(column)? {
            "" => Ok(None),
            _ => self.get(column).map(Some),
        }
    }

    /// The error of a field that cannot be used.
    pub(super) fn wrong(&self, column: &'static str) -> RecordError {
        RecordError::Field {
            table: self.table,
            line: self.row.position().map_or(0, csv::Position::line),
            column,
            value: self.text(column).unwrap_or_default().to_owned(),
        }
    }

    fn text(&self, column: &'static str) -> Result<&str, RecordError> {
        let table = self.table;
        let found = self.header.iter().position(|name| name == column);
        (found.and_then(|i| self.row.get(i))).ok_or(RecordError::NoColumn { table, column })
    }
}

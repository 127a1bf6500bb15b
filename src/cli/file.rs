//! Files that are written whole or not at all.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::error::CliError;

/// A place to write to that existed when it was checked.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    folder: PathBuf,
}

impl Output {
    /// Checks, before any work, that a file can be written at `path`.
    ///
    /// # Errors
    /// The folder is missing or cannot be written to, there is something that is no file, or the path is `-`, which
    /// elsewhere means standard output.
    pub(crate) fn new(path: &Path) -> Result<Self, CliError> {
        let wrong = |what: &dyn std::fmt::Display| {
            CliError::invalid(format_args!("cannot write {}: {what}", path.display()))
        };
        if path == Path::new("-") {
            return Err(wrong(
                &"standard output has the answer of the command; give a file (./- for one of that name)",
            ));
        }
        // A link is followed; replacing it would leave the file that is meant as it was.
        let target = match fs::canonicalize(path) {
            Ok(target) if target.is_file() => target,
            Ok(_) => return Err(wrong(&"there is something that is not a file")),
            Err(_) => path.into(),
        };
        if target.file_name().is_none() {
            return Err(wrong(&"the path does not end in a file name"));
        }
        let folder = match target.parent() {
            Some(folder) if folder != Path::new("") => folder.into(),
            _ => PathBuf::from("."),
        };
        if !folder.is_dir() {
            return Err(wrong(&format_args!(
                "there is no folder {}",
                folder.display()
            )));
        }
        let output = Self {
            path: target,
            folder,
        };
        output.temporary().map_err(|error| wrong(&error))?;
        Ok(output)
    }

    /// A file beside the target; it vanishes when dropped.
    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        builder.prefix(".tilecast-").suffix(".tmp");
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        builder.tempfile_in(&self.folder)
    }

    /// Writes the file: all of it, or none.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn write(
        &self,
        content: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> Result<(), CliError> {
        self.try_write(content).map_err(|error| {
            let path = self.path.display();
            CliError::failure(format_args!("cannot write {path}: {error}"))
        })
    }

    fn try_write(
        &self,
        content: impl FnOnce(&mut BufWriter<&File>) -> io::Result<()>,
    ) -> io::Result<()> {
        let file = self.temporary()?;
        let mut writer = BufWriter::new(file.as_file());
        content(&mut writer)?;
        writer.flush()?;
        drop(writer);
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

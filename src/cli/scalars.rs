//! What a kernel gets at run time, as JSON: `simulate --scalars` reads it, `emit` writes it beside its kernels.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tilecast::sim::grid::Scalars;

use super::error::CliError;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bounds: Vec<i64>,
    #[serde(default)]
    prefetched: Vec<Option<Vec<i64>>>,
}

/// What the `text` of the file at `path` says: `{"bounds": [4], "prefetched": [[0, 1], null]}`.
///
/// # Errors
/// Anything else.
pub(crate) fn parse(text: &str, path: &Path) -> Result<Scalars, CliError> {
    // A list would be taken for the fields in their order.
    let fields = serde_json::from_str::<Map<String, Value>>(text);
    let given = fields.and_then(|fields| Given::deserialize(Value::Object(fields)));
    let given = given.map_err(|error| {
        CliError::invalid(format_args!(
            "{}: {error}; give {{\"bounds\": [4], \"prefetched\": [[0, 1], null]}}",
            path.display()
        ))
    })?;
    Ok(Scalars::new(given.bounds, given.prefetched))
}

/// The text of a file for `scalars`; none if there are none.
pub(crate) fn text(scalars: Scalars) -> Option<String> {
    let Scalars {
        bounds, prefetched, ..
    } = scalars;
    if bounds.is_empty() && prefetched.is_empty() {
        return None;
    }
    let text = serde_json::to_string(&Given { bounds, prefetched });
    Some(text.unwrap_or_default() + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let scalars = Scalars::new(Vec::new(), vec![Some(vec![0, 7, -1]), None]);
        let written = text(scalars.clone()).unwrap();
        assert_eq!(written, "{\"prefetched\":[[0,7,-1],null]}\n");
        assert_eq!(parse(&written, Path::new("k.json")).unwrap(), scalars);
        assert_eq!(text(Scalars::default()), None);
        assert!(parse("[[4], [[0]]]", Path::new("k.json")).is_err());
    }
}

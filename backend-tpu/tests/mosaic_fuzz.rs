//! Damaged texts: the parser says what is wrong or reads something else, and never panics.
//!
//! Whatever is read must be writable and readable again, and the verifier must not panic on it.

mod tokens;

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use tilecast_tpu::mosaic::Module;
use tilecast_tpu::mosaic::version::CURRENT;
use tokens::tokens;

fn samples() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut found: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        // The one large sample takes too long for every token; it shares its syntax with others.
        .filter(|p| !p.to_str().unwrap().contains("pipeline"))
        .map(|p| (p.display().to_string(), fs::read_to_string(&p).unwrap()))
        .collect();
    found.sort();
    found
}

/// Reads a text; if that works, everything else must work on the result.
fn survive(text: &str) -> Result<(), String> {
    let Ok(module) = Module::parse(text) else {
        return Ok(());
    };
    let _ = module.verify_all();
    for written in [
        module.to_pretty(),
        module.to_generic(),
        module.to_stable(CURRENT).unwrap(),
    ] {
        let again = Module::parse(&written).map_err(|e| format!("written unreadably: {e}"))?;
        if again != module {
            let start: String = written.chars().take(200).collect();
            return Err(format!("changed by writing: {start}"));
        }
    }
    Ok(())
}

const REPLACEMENTS: [&str; 14] = [
    "",
    "(",
    "}",
    ">",
    "\"",
    "%0",
    "-1",
    "0xFF",
    "vector<2xf32>",
    "^bb0",
    "#x",
    ":",
    "scf.if",
    "99999999999999999999",
];

/// Each token of each sample dropped, or replaced by one of a rotating choice.
#[test]
fn any_one_token_dropped_or_replaced() {
    let mut failures: Vec<String> = Vec::new();
    for (n, (name, text)) in samples().into_iter().enumerate() {
        for (i, (start, end)) in tokens(&text).into_iter().enumerate() {
            for with in ["", REPLACEMENTS[(i + n) % REPLACEMENTS.len()]] {
                let damaged = format!("{} {with} {}", &text[..start], &text[end..]);
                let what = || format!("{name}: token {i} at byte {start} replaced by {with:?}");
                match std::panic::catch_unwind(|| survive(&damaged)) {
                    Ok(Ok(())) => {}
                    Ok(Err(e)) => failures.push(format!("{}: {e}", what())),
                    Err(_) => failures.push(format!("{}: panic", what())),
                }
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}

/// Each sample cut off after each token.
#[test]
fn any_prefix() {
    for (_, text) in samples().into_iter().filter(|s| s.1.len() < 8000) {
        for (_, end) in tokens(&text) {
            survive(&text[..end]).unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Several tokens swapped with tokens of anywhere.
    #[test]
    fn tokens_moved_about(
        sample in any::<prop::sample::Index>(),
        moves in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 1..4),
    ) {
        let samples = samples();
        let mut text = sample.get(&samples).1.clone();
        for (to, from) in moves {
            let all = tokens(&text);
            let (to, from) = (*to.get(&all), *from.get(&all));
            let piece = text[from.0..from.1].to_owned();
            text.replace_range(to.0..to.1, &format!(" {piece} "));
        }
        prop_assert_eq!(survive(&text), Ok(()));
    }

    /// Arbitrary characters, with those of the syntax likely.
    #[test]
    fn any_text(text in r#"([ -~\n]|module|\{|\}|func\.func @f\(|%a|= arith\.constant |dense<|: vector<2x|\PC){0,60}"#) {
        prop_assert_eq!(survive(&text), Ok(()));
        prop_assert_eq!(survive(&format!("module {{ {text} }}")), Ok(()));
    }
}

use std::collections::BTreeSet;

use clap::Parser;
use tilecast::DType;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn args(line: &str) -> Args {
    let words = ["tune"].into_iter().chain(line.split(' '));
    Line::try_parse_from(words).unwrap().args
}

fn planned(line: &str) -> Vec<Planned<LinearCe>> {
    let args = args(line);
    let planned = args.target.iter().map(|&target| {
        let request = request_of(
            args.problem.problem().unwrap(),
            &args.problem,
            target,
            &args,
        )
        .unwrap();
        let space = space(&args.problem.schedule, &request).unwrap();
        (Search::new(request), space)
    });
    planned.collect()
}

fn tuned(line: &str) -> Vec<Tuned> {
    sweep(&mut planned(line), usize::MAX).unwrap()
}

const LINE: &str = "linear-ce --target v5p,v6e --tokens 1024 --hidden 512 --vocab 4096";

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_document_has_the_fields_of_the_contract_and_is_ordered() {
    let document = document(Op::LinearCe, &tuned(LINE));
    assert_eq!(
        keys(&document),
        [
            "op",
            "dtype",
            "shape",
            "chips",
            "best",
            "counts",
            "assumptions",
            "results"
        ]
    );
    assert_eq!(
        keys(&document["counts"]),
        ["tried", "fits", "vmem_oom", "hbm_oom", "invalid"]
    );
    let results = document["results"].as_array().unwrap();
    assert_eq!(document["counts"]["tried"], results.len());
    assert_eq!(document["best"], results[0]);
    for result in results {
        assert_eq!(
            keys(result),
            [
                "target",
                "strategy",
                "blocks",
                "x_form",
                "backward_blocks",
                "dx_blocks",
                "dw_blocks",
                "delta_columns",
                "chunk_columns",
                "rounds_w",
                "verdict",
                "reason",
                "time_s",
                "time_range_s",
                "tokens_per_s",
                "vmem_used_bytes",
                "vmem_limit_bytes",
                "margin_bytes",
                "fit_probability",
                "hbm_used_bytes",
                "operations",
                "bottleneck",
            ]
        );
    }
    let times: Vec<f64> = results
        .iter()
        .map_while(|result| result["time_s"].as_f64())
        .collect();
    assert_eq!(document["counts"]["fits"], times.len());
    assert!(times.is_sorted());
}

#[test]
fn the_csv_has_a_row_for_each_that_was_tried_and_replaces_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tried.csv");
    std::fs::write(&path, "old").unwrap();
    let tuned = tuned(LINE);
    let file = Output::new(&path).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "old");
    file.write(|to| write_csv(to, &tuned)).unwrap();
    let rows: usize = tuned.iter().map(|tuned| tuned.rows.len()).sum();
    let mut reader = csv::Reader::from_path(&path).unwrap();
    let verdict = reader
        .headers()
        .unwrap()
        .iter()
        .position(|name| name == "verdict")
        .unwrap();
    let records: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), rows);
    for record in &records {
        let fits = &record[verdict] == "fits";
        assert_eq!(
            fits,
            record[verdict + 1].is_empty(),
            "a reason unless it fits: {record:?}"
        );
        assert_eq!(
            fits,
            !record[verdict + 2].is_empty(),
            "a time if it fits: {record:?}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_csv_file_that_cannot_be_written_is_an_error_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    for path in [
        folder.path().to_path_buf(),
        folder.path().join("missing/tried.csv"),
    ] {
        assert!(matches!(Output::new(&path), Err(CliError::Invalid(_))));
    }
}

#[test]
fn the_first_is_explained() {
    // A limit that refuses what the first would grow to.
    let line =
        "linear-ce --target v5p --tokens 2048 --hidden 2048 --vocab 8192 --vmem-limit-kib 8192";
    let tuned = &tuned(line)[0];
    let sentences = explain::sentences(tuned);
    let starts: Vec<&str> = (sentences.iter())
        .map(|sentence| sentence.split(' ').next().unwrap())
        .collect();
    assert_eq!(starts, ["First", "VMEM", "With", "A"], "{sentences:#?}");
    let over = (tuned.rows.iter())
        .filter(|row| row.report.verdict == Verdict::VmemOom)
        .map(|row| bytes_text((row.vmem_used_bytes - row.vmem_limit_bytes) as f64));
    assert!(
        over.into_iter()
            .any(|over| sentences[3].contains(&format!("{over} more than 8.00 MiB")))
    );
}

#[test]
fn the_default_limit_is_compared_with_a_raised_one() {
    let line = "linear-ce --target v5p --tokens 4096 --hidden 4096 --vocab 32768 --pass forward";
    let mut planned = planned(line);
    let mut tuned = sweep(&mut planned, usize::MAX).unwrap().remove(0);
    assert!(tuned.rows[0].vmem_limit_bytes > 16 << 20);
    tuned.at_default_limit = at_default_limit(&args(line), &mut planned[0].0, &tuned).unwrap();
    let row = tuned.at_default_limit.as_ref().unwrap();
    assert!(row.vmem_used_bytes <= 16 << 20);
    let sentences = explain::sentences(&tuned);
    let is_wanted =
        |sentence: &&String| sentence.starts_with("Within the default limit of 16.00 MiB");
    let sentence = (sentences.iter().find(is_wanted)).unwrap_or_else(|| panic!("{sentences:#?}"));
    assert!(sentence.contains(&row_text(row)), "{sentence}");
}

#[test]
fn what_takes_long_to_compile_is_named() {
    let line = "linear-ce --target v5e --tokens 4096 --hidden 512 --vocab 32768 --pass forward";
    let says = |most: u64, what: &str| {
        let tuned = tuned(&format!("{line} --most-operations {most}")).remove(0);
        let sentences = explain::sentences(&tuned);
        (sentences.iter()).any(|sentence| sentence.starts_with(what))
    };
    assert!(says(50_000, "Faster, but of "));
    assert!(says(1, "The first has a kernel of "));
    assert!(!says(u64::MAX, "Faster, but of "));
}

#[test]
fn rounded_products_of_f32_are_predicted_as_such() {
    let line = "linear-ce --target v5e --tokens 1024 --hidden 512 --vocab 4096 --dtype f32 --blocks 256,512,512";
    let [exact, rounded] = ["exact", "rounded"].map(|products| {
        let tuned = tuned(&format!("{line} --f32-products {products}")).remove(0);
        let says = |what| (assumptions(&tuned.request).iter()).any(|line| line.contains(what));
        assert_eq!(says("6 passes"), products == "exact");
        assert_eq!(says("rounded to bf16"), products == "rounded");
        tuned.rows[0].bounds.mxu
    });
    assert!((5.0..6.5).contains(&(exact / rounded)), "{exact} {rounded}");
}

#[test]
fn kernels_that_do_one_thing_at_a_time_are_slower_and_combined() {
    let line =
        "linear-ce --target v5p --tokens 8192 --hidden 4096 --vocab 32768 --blocks 1024,512,1024";
    let [overlapped, in_turn] = ["overlapped", "in-turn"].map(|structure| {
        let tuned = tuned(&format!("{line} --structure {structure}")).remove(0);
        let says = |what| (assumptions(&tuned.request).iter()).any(|line| line.contains(what));
        assert_eq!(says("one thing at a time"), structure == "in-turn");
        let strategies: BTreeSet<_> = (tuned.rows.iter())
            .filter_map(|row| Some(row.backward?.strategy().name()))
            .collect();
        assert_eq!(strategies.len(), if structure == "in-turn" { 1 } else { 2 });
        let combined = (tuned.rows.iter()).find(|row| {
            row.backward
                .is_some_and(|plan| plan.strategy() == tilecast::Strategy::Combined)
        });
        combined.unwrap().report.total.unwrap().time_s
    });
    assert!(in_turn > overlapped, "{in_turn} {overlapped}");
}

#[test]
fn the_page_holds_every_configuration_and_its_ledger() {
    let tuned = tuned(LINE);
    let mut page = Vec::new();
    html::write(&mut page, Op::LinearCe, &tuned).unwrap();
    let page = String::from_utf8(page).unwrap();
    // Elements that are opened are closed, and the data is one element.
    for tag in ["html", "head", "body", "style", "title", "h1", "noscript"] {
        let count = |what: String| page.matches(&what).count();
        assert_eq!(
            [count(format!("<{tag}")), count(format!("</{tag}>"))],
            [1, 1].map(|n| n),
            "{tag}"
        );
    }
    assert!(!page.contains("{{"));
    let data = page
        .split_once("id=\"data\">")
        .unwrap()
        .1
        .split_once("</script>")
        .unwrap()
        .0;
    let data: Value = serde_json::from_str(data).unwrap();
    let targets = data["targets"].as_array().unwrap();
    assert_eq!(targets.len(), tuned.len());
    for (target, tuned) in targets.iter().zip(&tuned) {
        assert_eq!(target["name"], tuned.request.target().name);
        let rows = target["rows"].as_array().unwrap();
        assert_eq!(rows.len(), tuned.rows.len());
        for (cell, row) in rows.iter().zip(&tuned.rows) {
            assert_eq!(cell["verdict"], row.report.verdict.name());
            assert_eq!(
                cell["time_s"].as_f64(),
                row.report.total.map(|total| total.time_s)
            );
            let used = cell["ledgers"].as_array().unwrap().iter().map(|ledger| {
                let terms = ledger["terms"].as_array().unwrap();
                let sum: u64 = terms
                    .iter()
                    .map(|term| term["bytes"].as_u64().unwrap())
                    .sum();
                assert_eq!(ledger["used_bytes"], sum);
                sum
            });
            assert_eq!(used.max(), Some(row.vmem_used_bytes));
            let bounds = cell["bounds"].as_array().unwrap();
            assert_eq!(bounds.len(), data["bounds"].as_array().unwrap().len());
        }
    }
}

/// Products that round f32 operands round delta too, so it is held as they take it, unless it is summed for a bias or
/// asked for otherwise.
#[test]
fn delta_is_held_as_rounded_products_take_it() {
    for (more, expected) in [
        ("--dtype f32", None),
        ("--dtype f32 --f32-products rounded", Some(DType::Bf16)),
        ("--dtype f32 --f32-products rounded --bias", None),
        (
            "--dtype f32 --f32-products rounded --delta-dtype f32",
            Some(DType::F32),
        ),
        ("--dtype bf16 --f32-products rounded", None),
    ] {
        let problem = args(&format!("{LINE} {more}")).problem.problem().unwrap();
        assert_eq!(problem.options().delta_dtype, expected, "{more}");
    }
}

use clap::Parser;

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

fn tuned(line: &str) -> Vec<Tuned> {
    let args = args(line);
    let planned = args.target.iter().map(|&target| {
        let request = request(&args.problem, target, args.vmem_limit_kib).unwrap();
        let space = space(&args.problem.schedule, &request).unwrap();
        (request, space)
    });
    sweep(planned.collect()).unwrap()
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
                "backward_blocks",
                "chunk_columns",
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
fn the_first_is_compared_with_the_second() {
    let tuned = tuned("linear-ce --target v5p --tokens 1024 --hidden 512 --vocab 4096");
    let sentence = comparison(&tuned[0].rows).unwrap();
    assert!(
        sentence.starts_with("First against second (forward "),
        "{sentence}"
    );
}

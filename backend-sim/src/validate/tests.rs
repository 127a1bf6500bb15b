use super::*;

fn none(_: &str) -> Option<String> {
    None
}

/// A handful of fitted points, one of each family and target where there are such.
fn handful() -> Vec<Outcome> {
    let mut seen = std::collections::BTreeSet::new();
    let small = |point: &Point| {
        point
            .measured
            .cycles
            .is_some_and(|cycles| cycles < 20_000.0)
    };
    let points = point::points(Set::Fit).unwrap().into_iter().filter(small);
    points
        .filter(|point| seen.insert((point.target.name, point.family().to_owned())))
        .map(|point| {
            let subject = point.subject(&none).unwrap().unwrap();
            Outcome::new(point, &subject).unwrap()
        })
        .collect()
}

#[test]
fn predictions_are_near_what_was_measured() {
    let outcomes = handful();
    assert!(outcomes.len() >= 20, "{}", outcomes.len());
    for outcome in &outcomes {
        let Outcome {
            point, predicted, ..
        } = outcome;
        let [used, unspilled] = [predicted.used_bytes, predicted.unspilled_bytes];
        assert!(used >= unspilled);
        let ratio = predicted.cycles.unwrap().schedule / point.measured.cycles.unwrap();
        assert!((0.5..2.0).contains(&ratio), "{}: {ratio}", point.name());
    }
    // Windows and scratch are the compiler's to the byte for nearly all.
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let exact = Summary::of(&all, &Baselines::fit(&outcomes)).exact_ledgers;
    assert!(
        exact * 10 >= outcomes.len() * 9,
        "{exact} of {}",
        outcomes.len()
    );
}

#[test]
fn figures_are_fitted_to_the_cycles_that_are_compared() {
    // Small kernels, and one of so many sub-tiles that a part of it is lowered.
    let is_long = |point: &Point| {
        let subject = point.subject(&none).ok().flatten();
        subject.is_some_and(|subject| subject.rest.is_some())
    };
    let points = point::points(Set::Fit).unwrap();
    let long = points.into_iter().find(is_long).unwrap();
    let subject = long.subject(&none).unwrap().unwrap();
    let outcomes = [handful(), vec![Outcome::new(long, &subject).unwrap()]].concat();
    for Outcome {
        point, predicted, ..
    } in &outcomes
    {
        let subject = point.subject(&none).unwrap().unwrap();
        let fitted = cycles(&subject, &Machine::new(point.target), point.cores()).unwrap();
        assert_eq!(
            fitted,
            predicted.cycles.unwrap().schedule,
            "{}",
            point.name()
        );
    }
}

#[test]
fn the_model_beats_both_baselines() {
    let outcomes = handful();
    let baselines = Baselines::fit(&outcomes);
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let summary = Summary::of(&all, &baselines);
    let mean = |errors: &Option<Errors>| errors.unwrap().mean;
    let [model, roofline, fitted] =
        [&summary.cycles, &summary.roofline, &summary.fitted_roofline].map(mean);
    assert!(
        model < fitted && model < roofline,
        "{model} {fitted} {roofline}"
    );
    assert_eq!(summary.points, outcomes.len());
}

#[test]
fn constants_are_fitted_to_one_set_only() {
    let mut outcomes = handful();
    let before = Baselines::fit(&outcomes);
    let mut held_out = outcomes[0].clone();
    held_out.point.set = Set::HeldOut;
    held_out.point.measured.cycles = Some(1e12);
    outcomes.push(held_out);
    assert_eq!(Baselines::fit(&outcomes), before);
}

#[test]
fn a_verdict_is_judged_beyond_the_margin_only() {
    let mut outcome = handful().remove(0);
    let limit = outcome.point.target.default_vmem_limit_bytes.value;
    let mut agreement = |measured: u64, predicted: u64| {
        outcome.point.measured.used_bytes = measured;
        outcome.predicted.used_bytes = predicted;
        outcome.agreement()
    };
    assert_eq!(agreement(limit / 2, limit), Agreement::Equal);
    assert_eq!(agreement(limit / 2, limit + 1), Agreement::Wrong);
    assert_eq!(agreement(limit * 2, limit), Agreement::Wrong);
    assert_eq!(agreement(limit + limit / 100, limit), Agreement::Close);
}

#[test]
fn foreign_points_need_their_texts() {
    for point in point::points(Set::Foreign).unwrap() {
        assert!(point.subject(&none).unwrap().is_none(), "{}", point.name());
    }
}

#[test]
fn the_best_of_a_shape_is_measured_against_the_chosen() {
    let template = handful().remove(0);
    let outcome = |predicted: f64, measured: f64| {
        let mut outcome = template.clone();
        outcome.predicted.cycles.as_mut().unwrap().schedule = predicted;
        outcome.point.measured.cycles = Some(measured);
        outcome.point.measured.cycles_with_copies = None;
        outcome
    };
    let outcomes = [
        outcome(3.0, 100.0),
        outcome(1.0, 110.0),
        outcome(2.0, 200.0),
    ];
    assert!(ranking::choices(&outcomes[..2], Set::Fit).is_empty());
    let choices = ranking::choices(&outcomes, Set::Fit);
    assert_eq!(choices.len(), 1);
    assert_eq!(choices[0].blocks, 3);
    assert!((choices[0].loss - 0.1).abs() < 1e-12);
}

#[test]
fn every_run_on_hardware_can_be_judged() {
    let runs = hardware::runs().unwrap();
    assert!(runs.len() >= 80, "{}", runs.len());
    let baselines = Baselines::fit(&[]);
    // The smallest of each structure.
    for structure in ["levanter", "tokamax"] {
        let of = runs
            .iter()
            .filter(|run| run.structure == structure && run.ran);
        let run = of.min_by_key(|run| run.problem.tokens() * run.problem.vocab());
        let outcome = hardware::RunOutcome::new(run.unwrap().clone(), &baselines).unwrap();
        let predicted = outcome.predicted_s.unwrap();
        assert!(predicted.roofline <= predicted.model, "{outcome:?}");
    }
}

use super::*;

fn attrs(pairs: &[(&str, &str)]) -> Attrs {
    pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect()
}

/// A single test, since the profiler is global.
#[test]
fn spans_and_counters_are_in_the_trace_and_in_the_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("profile.json");
    let file = path.to_string_lossy().into_owned();
    configure(&attrs(&[("filename", &file), ("profile_all", "True"), ("aggregate_stats", "1")])).unwrap();
    assert!(imperative(|| "before".into()).is_none());
    run(true).unwrap();
    drop(imperative(|| "op_of_the_test".into()));
    drop(imperative(|| "op_of_the_test".into()));
    pause(true).unwrap();
    assert!(imperative(|| "in a pause".into()).is_none());
    pause(false).unwrap();
    let task = ProfilerObject::span("domain_of_the_test", "task", Kind::Overlapping);
    task.stop().unwrap();
    task.start().unwrap();
    task.stop().unwrap();
    let counter = ProfilerObject::counter("domain_of_the_test", "items");
    counter.set_counter(3).unwrap();
    counter.add_to_counter(-1).unwrap();
    assert!(counter.start().is_err() && task.add_to_counter(1).is_err());
    mark("domain_of_the_test", "here", "thread").unwrap();
    assert!(mark("domain_of_the_test", "here", "nowhere").is_err());
    run(false).unwrap();

    let table_options =
        StatisticsOptions { layout: Layout::Table, sort_by: SortBy::Total, ascending: false, reset: false };
    let table = statistics(table_options);
    let line = table.lines().find(|l| l.starts_with("op_of_the_test")).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("2"), "{table}");
    // Instants have no rows.
    let section = table.split("domain_of_the_test,instant_marker\n").nth(1).unwrap();
    assert_eq!(section.lines().take_while(|l| !l.is_empty()).count(), 3, "{table}");
    let options = StatisticsOptions { layout: Layout::Json, sort_by: SortBy::Count, ascending: true, reset: true };
    let json: serde_json::Value = serde_json::from_str(&statistics(options)).unwrap();
    assert_eq!(json["Time"]["operator"]["op_of_the_test"]["Count"], 2);
    assert_eq!(json["Time"]["domain_of_the_test"]["task"]["Count"], 2);
    assert_eq!(json["Time"]["domain_of_the_test"]["items"]["Count"], 2);
    assert_eq!(json["Time"]["domain_of_the_test"]["items"]["Total"], 0.002);
    assert_eq!(json["Unit"]["Time"], "ms");
    assert!(!statistics(table_options).contains("op_of_the_test"));

    dump(true).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|e| e["name"] == name).collect::<Vec<_>>();
    let phases = |name: &str| named(name).iter().map(|e| e["ph"].as_str().unwrap().to_string()).collect::<Vec<_>>();
    assert_eq!(phases("op_of_the_test"), ["B", "E", "B", "E"]);
    assert_eq!(phases("task"), ["b", "e", "b", "e"]);
    assert_eq!(phases("here"), ["n"]);
    assert!(dump(true).unwrap_err().to_string().contains("Profiler hasn't been run"));
    configure(&attrs(&[("filename", &file)])).unwrap();
    assert!(statistics(table_options).is_empty());
    assert_eq!(named("items").iter().map(|e| e["args"]["items"].clone()).collect::<Vec<_>>(), [3, 2]);
    assert_eq!(named("here")[0]["s"], "t");
    assert!(configure(&attrs(&[("profile_process", "server")])).is_err());
    assert!(configure(&attrs(&[("nonsense", "1")])).is_err());
}

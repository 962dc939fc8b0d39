//! What came of it.

use crate::Way;

/// As wide as the longer of two bars.
const WIDTH: f64 = 50.0;

/// A table and two bars; or one JSON object.
pub fn show(plain: &Way, ahead: &Way, json: bool) {
    if json {
        println!(
            "{}",
            serde_json::json!({ "one_by_one": plain, "ahead": ahead })
        );
        return;
    }
    let (slow, fast) = (median(&plain.ms), median(&ahead.ms));
    let longest = slow.max(fast);
    println!(
        "\n{:<12} {:>10} {:>8} {:>8}",
        "", "median", "ratio", "reads"
    );
    for (name, way, ms) in [("one by one", plain, slow), ("run ahead", ahead, fast)] {
        let reads = way.reads / way.ms.len().max(1) as u64;
        println!("{name:<12} {ms:>7.1} ms {:>8.2} {reads:>8}", ms / slow);
    }
    println!();
    for (name, ms) in [("one by one", slow), ("run ahead", fast)] {
        let bar = "█".repeat((ms / longest * WIDTH).round() as usize);
        println!("{name:<12} {bar} {ms:.0} ms");
    }
    println!("\nBoth found the same; each read that was run ahead was checked.");
}

fn median(ms: &[f64]) -> f64 {
    let mut sorted = ms.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

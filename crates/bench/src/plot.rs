//! A picture of a suite's ratios: one group of bars a row, on a logarithmic scale, where a ratio of 1
//! is the middle line, and a mark at each target.

use std::fmt::Write as _;

const BAR: f64 = 14.0;
const GAP: f64 = 12.0;
const LEFT: f64 = 190.0;
const WIDTH: f64 = 620.0;
const RIGHT: f64 = 130.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 34.0;

const KEPT: &str = "#2a7ab0";
const MISSED: &str = "#c0392b";
const OTHERS: [(&str, &str); 4] = [
    ("overlayfs", "#9aa5ad"),
    ("try", "#6d7880"),
    ("sandlock", "#c9bfa5"),
    ("sshfs", "#8a8fb5"),
];

/// Ratios at the ends of the scale, and where lines are drawn.
const LINES: [f64; 13] = [
    0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0, 1000.0, 10_000.0,
];

/// What is drawn of one row.
pub struct Drawn {
    /// Beside the bars.
    pub name: String,
    /// Of ours.
    pub ratio: Option<f64>,
    /// Whether the limit is kept.
    pub pass: bool,
    /// Where its mark is.
    pub target: Option<f64>,
    /// Others.
    pub beside: Vec<Other>,
}

/// Another that is drawn beside ours.
pub struct Other {
    /// As in the legend.
    pub name: &'static str,
    /// To the peer.
    pub ratio: f64,
    /// Whether it is known only that the ratio is larger.
    pub is_more: bool,
}

/// The text of an SVG file. `title` says what the numbers are.
pub fn plot(suite: &str, title: &str, results: &[Drawn]) -> String {
    let groups: Vec<_> = results.iter().map(Group::of).collect();
    let scale = Scale::of(&groups);
    let height = TOP + BOTTOM + groups.iter().map(Group::height).sum::<f64>();
    let width = LEFT + WIDTH + RIGHT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"12\" y=\"24\" font-size=\"16\">surmise, suite {}: {}</text>\n",
        escaped(suite),
        escaped(title)
    );
    legend(&mut svg, &groups);
    grid(&mut svg, &scale, height);
    let mut y = TOP;
    for group in &groups {
        group.draw(&mut svg, &scale, y);
        y += group.height();
    }
    svg + "</svg>\n"
}

/// The bars of one row, and its target.
struct Group {
    name: String,
    bars: Vec<Bar>,
    target: Option<f64>,
}

struct Bar {
    colour: &'static str,
    ratio: f64,
    text: String,
}

impl Group {
    fn of(drawn: &Drawn) -> Self {
        let own = if drawn.pass { KEPT } else { MISSED };
        let bar = |name: &str, colour, ratio: f64| Bar {
            colour,
            ratio,
            text: format!("{ratio:.2}{name}"),
        };
        let mut bars: Vec<_> = drawn
            .ratio
            .map(|ratio| bar("", own, ratio))
            .into_iter()
            .collect();
        for other in &drawn.beside {
            let colour = OTHERS.iter().find(|(name, _)| *name == other.name);
            if let Some((_, colour)) = colour {
                let mut drawn = bar(&format!(" {}", other.name), colour, other.ratio);
                if other.is_more {
                    drawn.text.insert(0, '>');
                }
                bars.push(drawn);
            }
        }
        // What took no time has no ratio that can be drawn.
        bars.retain(|bar| bar.ratio.is_finite() && bar.ratio > 0.0);
        Self {
            name: drawn.name.clone(),
            bars,
            target: drawn.target,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a handful of bars")]
    fn height(&self) -> f64 {
        BAR * self.bars.len().max(1) as f64 + GAP
    }

    fn draw(&self, svg: &mut String, scale: &Scale, top: f64) {
        let bottom = top + self.height() - GAP;
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            f64::midpoint(top, bottom) + 4.0,
            escaped(&self.name)
        );
        let mut y = top;
        for bar in &self.bars {
            let (from, to) = (scale.x(1.0), scale.x(bar.ratio));
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" font-size=\"11\" \
                 stroke=\"white\" stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
                from.min(to),
                (to - from).abs().max(1.0),
                BAR - 2.0,
                bar.colour,
                from.max(to) + 5.0,
                y + BAR - 4.0,
                escaped(&bar.text)
            );
            y += BAR;
        }
        if let Some(target) = self.target {
            let x = scale.x(target);
            let _ = writeln!(
                svg,
                "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"black\" \
                 stroke-width=\"2\"/>",
                top - 4.0,
                top + BAR + 2.0
            );
        }
    }
}

/// From a ratio to a place on the picture.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// One that holds all that is to be shown, between two of [`LINES`] where they reach so far.
    fn of(groups: &[Group]) -> Self {
        let bars = groups.iter().flat_map(|group| &group.bars);
        let targets = groups.iter().filter_map(|group| group.target);
        let shown: Vec<_> = bars.map(|bar| bar.ratio).chain(targets).collect();
        let least = shown.iter().copied().fold(0.5, f64::min);
        let most = shown.iter().copied().fold(2.0, f64::max);
        let below = LINES.iter().rev().find(|line| **line <= least);
        let above = LINES.iter().find(|line| **line >= most);
        Self {
            low: below.copied().unwrap_or(least),
            high: above.copied().unwrap_or(most),
        }
    }

    fn x(&self, ratio: f64) -> f64 {
        LEFT + WIDTH * (ratio / self.low).ln() / (self.high / self.low).ln()
    }
}

fn grid(svg: &mut String, scale: &Scale, height: f64) {
    let bottom = height - BOTTOM;
    for line in LINES {
        if line < scale.low || line > scale.high {
            continue;
        }
        let (x, colour) = (scale.x(line), if line == 1.0 { "#555" } else { "#ddd" });
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"{colour}\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{line}</text>",
            TOP - 8.0,
            bottom + 16.0
        );
    }
}

/// The colours that occur.
fn legend(svg: &mut String, groups: &[Group]) {
    let used = |colour: &str| {
        let bars = groups.iter().flat_map(|group| &group.bars);
        bars.into_iter().any(|bar| bar.colour == colour)
    };
    let own = [("surmise", KEPT), ("surmise, target missed", MISSED)];
    let mut x = 12.0;
    for (name, colour) in own.into_iter().chain(OTHERS) {
        if !used(colour) {
            continue;
        }
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"34\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"44\">{name}</text>",
            x + 17.0
        );
        #[expect(clippy::cast_precision_loss, reason = "a short name")]
        let taken = 7.0 * name.len() as f64;
        x += 35.0 + taken;
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{x:.1}\" y1=\"33\" x2=\"{x:.1}\" y2=\"47\" stroke=\"black\" stroke-width=\"2\"/>\n\
         <text x=\"{:.1}\" y=\"44\">target</text>",
        x + 8.0
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_drawn_as_one() {
        let other = Other {
            name: "sshfs",
            ratio: 400.0,
            is_more: true,
        };
        let drawn = Drawn {
            name: "tar".to_owned(),
            ratio: Some(2.0),
            pass: true,
            target: None,
            beside: vec![other],
        };
        let svg = plot("remote", "ratios", &[drawn]);
        assert!(svg.contains("&gt;400.00 sshfs</text>"), "{svg}");
    }

    fn group(ratio: f64, target: Option<f64>) -> Group {
        let bar = Bar {
            colour: KEPT,
            ratio,
            text: String::new(),
        };
        Group {
            name: "a < b".to_owned(),
            bars: vec![bar],
            target,
        }
    }

    #[test]
    fn the_scale_holds_every_bar_and_every_target() {
        for (ratio, target) in [(0.03, Some(0.5)), (1.0, None), (7.0, Some(200.0))] {
            let scale = Scale::of(&[group(ratio, target)]);
            let mut before = LEFT;
            for shown in [scale.low, 0.5, 1.0, 2.0, scale.high] {
                let x = scale.x(shown);
                assert!(x >= before - 0.001 && x <= LEFT + WIDTH + 0.001, "{shown}");
                before = x;
            }
            for shown in [ratio, target.unwrap_or(1.0)] {
                assert!((scale.low..=scale.high).contains(&shown), "{shown}");
            }
        }
    }

    #[test]
    fn names_are_text_and_targets_are_drawn() {
        let scale = Scale::of(&[group(2.0, Some(3.0))]);
        let mut svg = String::new();
        group(2.0, Some(3.0)).draw(&mut svg, &scale, 0.0);
        assert!(svg.contains(">a &lt; b</text>"), "{svg}");
        assert_eq!(svg.matches("<line").count(), 1);
        svg.clear();
        group(2.0, None).draw(&mut svg, &scale, 0.0);
        assert_eq!(svg.matches("<line").count(), 0);
    }
}

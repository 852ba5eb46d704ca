//! The text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use super::histogram::Reading;

/// Its media type.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A page of metrics.
#[derive(Default)]
pub struct Page(String);

impl Page {
    /// Begins a family: `kind` is `counter`, `gauge` or `histogram`.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.push(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// A sample.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        let labels = listed(labels);
        self.push(format_args!("{name}{labels} {value}\n"));
    }

    /// The samples of a histogram.
    pub fn histogram(&mut self, name: &str, labels: &[(&str, &str)], reading: &Reading) {
        let bucket = format!("{name}_bucket");
        for (bound, count) in &reading.up_to {
            self.sample(&bucket, &[labels, &[("le", &bound.to_string())]].concat(), *count);
        }
        self.sample(&bucket, &[labels, &[("le", "+Inf")]].concat(), reading.count);
        let (listed, sum) = (listed(labels), reading.sum);
        self.push(format_args!("{name}_sum{listed} {sum}\n"));
        self.sample(&format!("{name}_count"), labels, reading.count);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.0
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = self.0.write_fmt(text);
    }
}

fn listed(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page() {
        let mut page = Page::default();
        page.family("a_total", "counter", "back\\slash\nand more");
        page.sample("a_total", &[], 1);
        page.sample("a_total", &[("x", "q\"\\\n")], 2);
        page.family("h", "histogram", "h");
        page.histogram("h", &[("x", "y")], &Reading { up_to: vec![(0.0001, 1), (1.0, 2)], count: 3, sum: 2.5 });
        let expected = "# HELP a_total back\\\\slash\\nand more\n# TYPE a_total counter\na_total 1\na_total{x=\"q\\\"\\\\\\n\"} 2\n\
                        # HELP h h\n# TYPE h histogram\nh_bucket{x=\"y\",le=\"0.0001\"} 1\nh_bucket{x=\"y\",le=\"1\"} 2\nh_bucket{x=\"y\",le=\"+Inf\"} 3\n\
                        h_sum{x=\"y\"} 2.5\nh_count{x=\"y\"} 3\n";
        assert_eq!(page.finish(), expected);
    }
}

//! Where spans go: the standard variables of OpenTelemetry, as far as they concern spans over OTLP/HTTP.

use std::time::Duration;

use axum::http::{HeaderName, HeaderValue, Uri};

/// How and where spans are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The whole address, `http` only.
    pub endpoint: Uri,
    /// What each request carries besides.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How long a request may take.
    pub timeout: Duration,
    /// What the spans say of this program.
    pub resource: Vec<(String, String)>,
    /// Spans that may wait; then they are dropped.
    pub queue: usize,
    /// Spans in a request.
    pub batch: usize,
    /// How long a span waits for others.
    pub delay: Duration,
}

/// What the variables say: nothing if no spans are wanted, or why it cannot be done.
pub type Wanted = Result<Option<Settings>, String>;

/// Reads this process's environment.
pub fn from_environment() -> Wanted {
    read(&|name| std::env::var(name).ok())
}

/// As the variables that `lookup` finds say. A variable that is empty is as good as unset.
pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Wanted {
    let given = |name: &str| lookup(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let of_traces = |rest: &str| {
        let names = [format!("OTEL_EXPORTER_OTLP_TRACES_{rest}"), format!("OTEL_EXPORTER_OTLP_{rest}")];
        names.into_iter().find_map(|name| given(&name).map(|text| (name, text)))
    };
    if given("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let endpoint = of_traces("ENDPOINT");
    match given("OTEL_TRACES_EXPORTER").as_deref() {
        Some("none") => return Ok(None),
        None if endpoint.is_none() => return Ok(None),
        None | Some("otlp") => {}
        Some(other) => return Err(format!("OTEL_TRACES_EXPORTER is {other:?}; only otlp and none are known")),
    }
    if let Some((name, text)) = of_traces("PROTOCOL").filter(|(_, text)| text != "http/json" && text != "http/protobuf") {
        return Err(format!("{name} is {text:?}; spans are sent as http/json, which a collector's HTTP port (4318) takes beside http/protobuf"));
    }
    let number = |name: &str, default: u64| match given(name) {
        None => Ok(default),
        Some(text) => text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("{name} is {text:?}, which is not a positive whole number")),
    };
    let timeout = of_traces("TIMEOUT").map_or("OTEL_EXPORTER_OTLP_TIMEOUT".to_owned(), |(name, _)| name);
    let size = |name, default| number(name, default).map(|size| usize::try_from(size).unwrap_or(usize::MAX).min(MOST_QUEUED));
    Ok(Some(Settings {
        endpoint: address(endpoint)?,
        headers: of_traces("HEADERS").map_or(Ok(Vec::new()), |(name, text)| headers(&name, &text))?,
        timeout: Duration::from_millis(number(&timeout, 10_000)?),
        resource: resource(given("OTEL_SERVICE_NAME"), given("OTEL_RESOURCE_ATTRIBUTES"))?,
        queue: size("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?,
        batch: size("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
        delay: Duration::from_millis(number("OTEL_BSP_SCHEDULE_DELAY", 5_000)?),
    }))
}

/// A queue longer than this is not worth the memory.
const MOST_QUEUED: usize = 1_000_000;

/// The address for traces is taken as it is; the one for everything gets the path for traces.
fn address(given: Option<(String, String)>) -> Result<Uri, String> {
    let (name, text) = given.unwrap_or_else(|| ("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), "http://localhost:4318".to_owned()));
    let whole = if name.contains("TRACES") { text.clone() } else { format!("{}/v1/traces", text.trim_end_matches('/')) };
    let wrong = |what: &str| format!("{name} is {text:?}, {what}; it looks like http://localhost:4318");
    let uri: Uri = whole.parse().map_err(|_| wrong("which is no address"))?;
    match (uri.scheme_str(), uri.host()) {
        (Some("http"), Some(_)) => Ok(uri),
        (Some("https"), _) => Err(wrong("and spans are sent over http only: let a collector on this machine or network pass them on over https")),
        _ => Err(wrong("which is no http address")),
    }
}

fn headers(name: &str, text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let header = |(key, value): (String, String)| {
        let wrong = |_| format!("{name} has {key:?}, which cannot be sent as a header");
        let key_name = HeaderName::try_from(key.as_str()).map_err(|error| wrong(error.to_string()))?;
        let mut value = HeaderValue::try_from(value).map_err(|error| wrong(error.to_string()))?;
        value.set_sensitive(true);
        Ok((key_name, value))
    };
    pairs(name, text)?.into_iter().map(header).collect()
}

fn resource(service: Option<String>, attributes: Option<String>) -> Result<Vec<(String, String)>, String> {
    let mut all = attributes.map_or(Ok(Vec::new()), |text| pairs("OTEL_RESOURCE_ATTRIBUTES", &text))?;
    let named = all.iter().rposition(|(key, _)| key == "service.name").map(|place| all[place].1.clone());
    all.retain(|(key, _)| key != "service.name");
    all.insert(0, ("service.name".to_owned(), service.or(named).unwrap_or_else(|| "viat".to_owned())));
    if !all.iter().any(|(key, _)| key == "service.version") {
        all.push(("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    }
    all.push(("telemetry.sdk.name".to_owned(), "viat".to_owned()));
    all.push(("telemetry.sdk.language".to_owned(), "rust".to_owned()));
    all.push(("telemetry.sdk.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()));
    Ok(all)
}

/// `a=b,c=d`, with values that may be percent-encoded.
fn pairs(name: &str, text: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |part: &str| {
        let wrong = || format!("{name} has {part:?}, which is not key=value");
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim(), decoded(value.trim()).ok_or_else(wrong)?);
        if key.is_empty() { Err(wrong()) } else { Ok((key.to_owned(), value)) }
    };
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(pair).collect()
}

/// Percent-encoded text; `None` if it is none.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, more) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        bytes.push(digit(digits[0])? << 4 | digit(digits[1])?);
        rest = more;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Wanted {
        let variables: Vec<(String, String)> = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&move |name| variables.iter().find(|(each, _)| each == name).map(|(_, value)| value.clone()))
    }

    fn wanted(variables: &[(&str, &str)]) -> Settings {
        of(variables).expect("understood").expect("wanted")
    }

    const BASE: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");

    #[test]
    fn nothing_is_sent_unless_it_is_asked_for() {
        for nothing in [
            &[][..],
            &[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")],
            &[BASE, ("OTEL_SDK_DISABLED", "True")],
            &[BASE, ("OTEL_TRACES_EXPORTER", "none")],
            &[("OTEL_SERVICE_NAME", "x")],
        ] {
            assert_eq!(of(nothing), Ok(None), "{nothing:?}");
        }
        assert!(of(&[BASE, ("OTEL_SDK_DISABLED", "1")]).expect("understood").is_some(), "only `true` is true");
    }

    #[test]
    fn the_address() {
        assert_eq!(wanted(&[BASE]).endpoint, "http://collector:4318/v1/traces");
        assert_eq!(wanted(&[("OTEL_TRACES_EXPORTER", "otlp")]).endpoint, "http://localhost:4318/v1/traces");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://[::1]:9/in");
        assert_eq!(wanted(&[BASE, own]).endpoint, "http://[::1]:9/in", "the address for traces is taken as it is");
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        for (name, value, word) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector", "http only"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "no address"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "ftp://collector", "no http address"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://a b", "no address"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp and none"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/json"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon", "whole number"),
            ("OTEL_BSP_SCHEDULE_DELAY", "-1", "whole number"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "0", "whole number"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a", "key=value"),
            ("OTEL_RESOURCE_ATTRIBUTES", "a=%e", "key=value"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c", "header"),
        ] {
            let variables: &[(&str, &str)] = if name == "OTEL_EXPORTER_OTLP_ENDPOINT" { &[(name, value)] } else { &[BASE, (name, value)] };
            let problem = of(variables).expect_err(value);
            assert!(problem.contains(name) && problem.contains(word), "{problem}");
        }
    }

    #[test]
    fn the_rest() {
        let settings = wanted(&[
            BASE,
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=x%2Cy, zone = eu"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20t"),
            ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "7"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9"),
        ]);
        let found = |name: &str| settings.resource.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        assert_eq!((found("service.name"), found("team"), found("zone")), (Some("a"), Some("x,y"), Some("eu")));
        assert_eq!(settings.headers, [(HeaderName::from_static("authorization"), HeaderValue::from_static("Bearer t"))]);
        assert_eq!((settings.timeout, settings.batch, settings.queue), (Duration::from_millis(7), 9, 2_048));
        let named = wanted(&[BASE, ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a"), ("OTEL_SERVICE_NAME", "b")]);
        assert_eq!(named.resource[0], ("service.name".to_owned(), "b".to_owned()));
        assert_eq!(wanted(&[BASE]).resource[0].1, "viat");
    }
}
